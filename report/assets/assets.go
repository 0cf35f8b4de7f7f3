// Package assets holds the script and the style of the HTML report as they are
// embedded in it. They are made from web/ by scripts/web.sh; do not edit them.
package assets

import _ "embed" // for the two files

// Script is the report's program: one classic script that needs no other file.
//
//go:embed report.js
var Script string

// Style is the report's style sheet.
//
//go:embed report.css
var Style string
