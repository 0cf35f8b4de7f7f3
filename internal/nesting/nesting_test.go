package nesting

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/lexer"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: [1, {b: 2}]", ""},
		{strings.Repeat("a: 1\n", 33), ""},
		{strings.Repeat("a: 1\n", 34), "more than 100 words and marks"}, // three each
		{strings.Repeat("[", Deepest) + strings.Repeat("]", 50), ""},
		{strings.Repeat("[", Deepest+1), "nested more than 50 deep"},
		{strings.Repeat("{", Deepest+1), "nested more than 50 deep"},
		{strings.Repeat("- ", Deepest+1), "nested more than 50 deep"},
		{strings.Repeat("- \n", 60), ""}, // next to each other
		{strings.Repeat("? ", Deepest+1), "nested more than 50 deep"},
		{"a:\n" + strings.Repeat(" ", 20*Deepest+1) + "b: 1", "nested more than 50 deep"},
	} {
		err := Check(lexer.Tokenize(c.text), 100)
		if got := err; c.want == "" && got != nil || c.want != "" && (got == nil || !strings.Contains(got.Error(), c.want)) {
			t.Errorf("%.20q… (%d bytes): %v, want %q", c.text, len(c.text), got, c.want)
		}
	}
}
