package short

import (
	"strings"
	"testing"
)

// Colours have a meaning, and names that others gave have none.
func TestPaint(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"  requests/s    ≥4,230         159 ok · 8 failed · 0 dropped", "  requests/s    [y]≥4,230[-]         159 ok · [r]8 failed[-] · 0 dropped"},
		{"  latency       p50 1.20 ms  p90 ~2.05  p99 3.61 ms?", "  latency       p50 1.20 ms  p90 [y]~2.05[-]  p99 [y]3.61 ms?[-]"},
		{"  status        200 × 159,991 · 503 × 6", "  status        200 × 159,991 · [r]503 × 6[-]"},
		{"  errors        timeout × 2", "[r]  errors        timeout × 2[-]"},
		{"  worse    p50", "[r]  worse  [-]  p50"},
		{"  p50  better", "  p50[g]  better[-]"},
		{"better than worse", "better than worse"},
	} {
		lines := []string{c.line, c.line}
		paint(lines)
		got := strings.NewReplacer(red, "[r]", green, "[g]", yellow, "[y]", noColour, "[-]").Replace(lines[1])
		if lines[0] != c.line || got != c.want {
			t.Errorf("%q\n want %q\nfirst %q", got, c.want, lines[0])
		}
	}
}
