// Package rules holds the repository's own rules as tests: allowed imports, required words of packages,
// forbidden content of files, and licences that the binary may carry. Each rule has its reason next to
// it. A test shows that it fails on an example of what it forbids.
//
// A failing test names the rule, the place and what to do. If the rule itself is wrong,
// change its table, and say why next to it.
package rules
