// Package rules holds the repository's own rules as tests: which package may import
// which, what every package must say, what no file may contain, and which licences the
// binary may carry. Each rule has its reason next to it, and a test shows that it fails on
// an example of what it forbids.
//
// A failing test names the rule, the place and what to do. If the rule itself is wrong,
// change its table, and say why next to it.
package rules
