// Package lazyregexp compiles regular expressions when they are first needed. All of a program's together take
// milliseconds, and one command needs few of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns what compiles an expression once. The expression is known to be good.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
