package nearest

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHint(t *testing.T) {
	known := []string{"email", "password", "token"}
	many := make([]string, 23)
	for i := range many {
		many[i] = fmt.Sprintf("name%d", i)
	}
	for _, tt := range []struct {
		word  string
		known []string
		want  string
	}{
		{"emial", known, `did you mean "email"?`},
		{"EMAIL", known, `did you mean "email"?`},
		{"tokens", known, `did you mean "token"?`},
		{"x", known, "known here: email, password, token"},
		{"", known, "known here: email, password, token"},
		{"x", nil, ""},
		{"größe", []string{"grösse", "x"}, `did you mean "grösse"?`},
		{strings.Repeat("a", 100), []string{strings.Repeat("a", 99)}, "known here: " + strings.Repeat("a", 99)},
		{"qqqqq", many, "known here: " + strings.Join(many[:20], ", ") + " and 3 more"},
	} {
		if got := Hint(tt.word, tt.known); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.word, got, tt.want)
		}
	}
}

func TestFind(t *testing.T) {
	known := []string{"rate", "Rates", "timeout", "é"}
	for word, want := range map[string]string{
		"rtae": "rate", "RATES": "Rates", "rat": "rate", "timeuot": "timeout", "tmieoutt": "timeout", "rest": "", "": "", "é": "é", "è": "", "x": "",
	} {
		if got, found := Find(word, known); got != want || found != (want != "") {
			t.Errorf("%q: %q, %v; want %q", word, got, found, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ac", 1}, {"abc", "abxc", 1}, {"abc", "xyz", 3}, {"kitten", "sitting", 3},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDistanceIsSymmetricAndBounded(t *testing.T) {
	word := rapid.StringMatching(`[ab]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || d > max(len(a), len(b)) || (d == 0) != (a == b) {
			t.Fatalf("%q to %q: %d, back %d", a, b, d, distance(b, a))
		}
	})
}
