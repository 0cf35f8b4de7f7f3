// Package nearest finds, for an unknown word, the known word that was probably meant, and shortens
// what messages quote. It is the only place that measures how far words are apart.
package nearest

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxWord is the length, in characters, up to which words are compared; a longer word is
// no typing mistake.
const maxWord = 64

// Find returns the known word that is closest to the given one. It prefers the first of equals, and
// returns false if none is close. It ignores case.
func Find(word string, known []string) (meant string, found bool) {
	// At least one character must be the same, and most of the characters of a longer
	// word.
	n := utf8.RuneCountInString(word)
	least := min(n, 1+max(1, (n+1)/3))
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			meant, least, found = k, d, true
		}
	}
	return meant, found
}

// Hint names the known word that Find finds, as in did you mean "email"?. If none is close it lists the
// known words. It returns "" if there are no known words.
func Hint(word string, known []string) string {
	if meant, found := Find(word, known); found {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	if len(known) == 0 {
		return ""
	}
	return "known here: " + list(known)
}

// Clip shortens text for a message.
func Clip(s string) string {
	const longest = 60
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}

// list joins the first few words, and gives the number of others.
func list(known []string) string {
	const shown = 20
	if more := len(known) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(known[:shown], ", "), more)
	}
	return strings.Join(known, ", ")
}

// distance counts insertions, deletions, substitutions and swaps of neighbours
// (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > maxWord || len(y) > maxWord {
		return maxWord
	}
	var rows [3][maxWord + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(y) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
