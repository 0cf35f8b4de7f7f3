// Package diag says what is wrong with schemas and messages, and where.
package diag

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"dyno/internal/nearest"
)

// A Fault is one thing wrong with a schema, with its source, or with a message.
type Fault struct {
	// Source is where the schema comes from: a file's path, or a server's address. It is
	// empty for a message.
	Source string
	// Line and Column are where in the source or in the message the fault is: from 1,
	// columns in characters; 0: of the whole.
	Line, Column int
	// Path names the part of a message, such as user.tags[2]; or the part of a source,
	// such as a .proto file in a descriptor set. It may be empty.
	Path    string
	Problem string
	Hint    string // what would be right; may be empty
}

func (f *Fault) Error() string {
	var b strings.Builder
	switch {
	case f.Source != "" && f.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", f.Source, f.Line, f.Column)
	case f.Source != "":
		b.WriteString(f.Source + ": ")
	case f.Line > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", f.Line, f.Column)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Problem)
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return b.String()
}

// Plain returns a text that others wrote, for a message on one line: without characters
// that a terminal would obey, and not longer than a message may be.
func Plain(s string) string {
	const longest = 200
	var b strings.Builder
	for n := 0; len(s) > 0; n++ {
		if n == longest {
			return b.String() + "…"
		}
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
		s = s[size:]
	}
	return b.String()
}

// Cause returns the text of an error of the protobuf module, without the module's prefix:
// it is followed by a blank that differs between builds.
func Cause(err error) string {
	text := Plain(err.Error())
	text = strings.TrimPrefix(text, "proto:")
	return strings.TrimLeft(text, " \u00a0")
}

// Suggest names the candidate that was probably meant: one whose last part is the word, or
// the nearest.
func Suggest(word string, candidates []string) string {
	for _, k := range candidates {
		if word != "" && len(k) > len(word) && strings.EqualFold(k[len(k)-len(word):], word) && k[len(k)-len(word)-1] == '.' {
			return "did you mean " + Quote(k) + "?"
		}
	}
	return nearest.Hint(word, candidates)
}

// Quote writes a name that others chose in quotes.
func Quote(name string) string { return `"` + Plain(name) + `"` }
