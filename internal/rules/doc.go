// Package rules holds the repository's own rules as tests: which package may
// import which, what every package must say, what no file may contain, and
// which licences the binary may carry. Each rule stands with its reason, and
// each is shown to fail on an example of what it forbids.
//
// A test that fails here names the rule, the place and what to do. If the rule
// is what is wrong, change its table, and say why beside it.
package rules
