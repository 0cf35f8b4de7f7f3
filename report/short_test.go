package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"dyno/rundir"
)

// fits fails when an answer is larger than the screen it is for.
func fits(t *testing.T, f *rundir.Folder, text string) {
	t.Helper()
	most := screenLines
	if p := newPage(f); p.isQuick() && !p.nothing() {
		most = quickLines
	}
	if n := strings.Count(text, "\n"); n > most {
		t.Errorf("%d lines, want at most %d:\n%s", n, most, text)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > screenWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if strings.Contains(text, "∞") || strings.Contains(text, "{") {
		t.Errorf("an answer with an infinity, or a value that is missing:\n%s", text)
	}
}

func TestShort(t *testing.T) {
	for name, f := range examples() {
		t.Run(name, func(t *testing.T) {
			for _, kept := range []bool{true, false} {
				var b bytes.Buffer
				if err := Short(&b, f, kept); err != nil {
					t.Fatal(err)
				}
				fits(t, f, b.String())
				if kept {
					golden(t, name+".short.txt", b.String())
				}
			}
		})
	}
}
