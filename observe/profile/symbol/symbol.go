// Package symbol turns addresses into names of functions: in programs and shared libraries, in the
// kernel, in the vDSO, and in a JIT compiler's code. It reads ELF symbols, and Go's own function table
// with inlined calls.
//
// A name is made for comparing builds: it holds no offset and no compiler's number. It holds the
// instantiation of a generic function, and C++ and Rust names are demangled. An address that nothing is
// known about has no name; the caller says so.
//
// Debugging information (DWARF) is not read. So inlined calls in C, C++ and Rust are part of the
// function around them; in Go they are not.
package symbol

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// A span is a function's addresses, [start, end).
type span struct {
	start, end uint64
	name       string // as it was found: few are ever asked for
	rank       int    // among those at the same place the lowest counts
}

// spans are sorted by start, none twice.
type spans []span

// sortSpans puts spans in order. If several start at one place, the one with the lowest rank is kept,
// then the first by name: the same each time.
func sortSpans(s spans) spans {
	slices.SortFunc(s, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name))
	})
	s = slices.CompactFunc(s, func(a, b span) bool { return a.start == b.start })
	for i := range s {
		// A function without a size, assembly as a rule, ends where the next begins.
		if s[i].end <= s[i].start {
			s[i].end = s[i].start + 1
			if i+1 < len(s) {
				s[i].end = s[i+1].start
			}
		}
	}
	return slices.Clip(s)
}

// find returns the name of the span that holds the address, or "".
func (s spans) find(address uint64) string {
	i, found := slices.BinarySearchFunc(s, address, func(e span, a uint64) int { return cmp.Compare(e.start, a) })
	if !found {
		i--
	}
	if i < 0 || address >= s[i].end {
		return ""
	}
	return s[i].name
}

// clone matches what compilers append to the name of a part or a copy of a
// function. The numbers differ from build to build.
var clone = regexp.MustCompile(`(\.(cold|part|isra|constprop|lto_priv|llvm|localalias|str)(\.\d+)*)+$`)

// Name returns the name to show for a symbol of an ELF file or a JIT: demangled, and
// without marks of the compiler and of the symbol's version.
func Name(raw string) string {
	if name, ok := managed(raw); ok {
		return name
	}
	if i := strings.Index(raw, "@@"); i > 0 {
		raw = raw[:i]
	}
	if strings.IndexByte(raw, '.') > 0 && !strings.ContainsAny(raw, "(/") { // a Go name may look the same, and then has a path or a receiver
		raw = clone.ReplaceAllString(raw, "")
	}
	return demangle.Filter(raw)
}
