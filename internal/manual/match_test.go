package manual

import (
	"regexp"
	"strings"
	"testing"
)

// figure matches a number with its marks and its unit.
const figure = `[≤≥~±]?[−+-]?\d[\d,]*(?:\.\d+)?(?: ?(?:%|(?:ns|µs|ms|s|m|min|h|B|KB|MB|GB|KiB|MiB|GiB|k|M|G)\b))?\??`

// tokens are the parts of a line that match more than themselves.
var tokens = regexp.MustCompile(figure + `|\s*…\s*|\s+`)

// pattern returns what a line that a page shows matches.
func pattern(line string) *regexp.Regexp {
	var b strings.Builder
	b.WriteByte('^')
	at := 0
	for _, token := range tokens.FindAllStringIndex(line, -1) {
		b.WriteString(regexp.QuoteMeta(line[at:token[0]]))
		switch text := line[token[0]:token[1]]; {
		case strings.TrimSpace(text) == "…":
			b.WriteString(`.*`)
		case strings.TrimSpace(text) == "":
			b.WriteString(`\s+`)
		default:
			b.WriteString(figure)
		}
		at = token[1]
	}
	b.WriteString(regexp.QuoteMeta(line[at:]) + "$")
	return regexp.MustCompile(b.String())
}

// comesAndGoes matches a row that is there only on some machines: where its times tell more than others do, and there is room.
var comesAndGoes = regexp.MustCompile(`^  (?:connect|from write|until read|message gap|event gap)  +\S`)

// matches tells whether output is as a page shows it.
func matches(shown, output []string) bool {
	patterns := make([]*regexp.Regexp, len(shown)) // nil: any number of lines
	for i, line := range shown {
		if strings.TrimSpace(line) != "…" {
			patterns[i] = pattern(line)
		}
	}
	// reached[n]: what is shown so far matches the first n lines of the output.
	reached := make([]bool, len(output)+1)
	reached[0] = true
	for _, p := range patterns {
		next := make([]bool, len(reached))
		for n := range reached {
			switch {
			case p == nil:
				next[n] = reached[n] || n > 0 && next[n-1]
			case n > 0:
				next[n] = reached[n-1] && p.MatchString(output[n-1]) || next[n-1] && comesAndGoes.MatchString(output[n-1])
			}
		}
		reached = next
	}
	return reached[len(output)]
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		name          string
		shown, output string
		want          bool
	}{
		{"equal text", "hello", "hello", true},
		{"another text", "hello", "hallo", false},
		{"a text that has more", "hello", "hello, you", false},
		{"nothing", "", "", true},
		{"a line too many", "a", "a\nb", false},
		{"a line too few", "a\nb", "a", false},
		{"numbers", "  requests/s  41,230   412,300 ok", "  requests/s  9 80 ok", true},
		{"a number without its text", "3 ok · 0 failed", "3 ok", false},
		{"no number", "3 ok", "no ok", false},
		{"units", "p50 1.42 ms   p75 1.71", "p50 950 µs   p75 1.71 ms", true},
		{"a rate", "86.2k/s", "980/s", true},
		{"marks", "p99 3.92   p99.9 8.1", "p99 ≤3.92 ms   p99.9 ~8.1 ms?", true},
		{"signs", "−7.5 … −4.5%", "+2 … 3.25%", true},
		{"a word that begins like a unit", "2 servers", "2 s", false},
		{"a unit in place of a word", "10 s", "10 servers", false},
		{"runs of spaces", "a  b", "a      b", true},
		{"no space", "a b", "ab", false},
		{"indents", "  a", "a", false},
		{"any text in a line", "commit … with", "commit 8aff3, with", true},
		{"any text at the end", "see …", "see", true},
		{"any lines", "a\n…\nd", "a\nb\nc\nd", true},
		{"any lines, none", "a\n…\nd", "a\nd", true},
		{"any lines, and no end", "a\n…\nd", "a\nb", false},
		{"any lines twice", "…\nb\n…\nd\n…", "a\nb\nc\nd", true},
		{"any lines at the end", "a\n…", "a\nb\n\nc", true},
		{"symbols", "a.b (c) [d] $1", "a.b (c) [d] $2", true},
		{"symbols are no patterns", "a.b", "axb", false},
		{"an empty line", "a\n\nb", "a\nb", false},
		{"a row that was not there", "  latency 1\n  status 200", "  latency 2\n  connect       p50 1 ms\n  status 200", true},
	} {
		if got := matches(split(c.shown), split(c.output)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// split returns the lines of a text without those that are empty at its ends.
func split(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return trim(lines)
}
