package planfile

import (
	"strings"
	"testing"
)

// TestSearchable: a threshold is a fault if its percentile would be unknown at a search's lowest rate.
// The fault has a remedy, and what that says does help.
func TestSearchable(t *testing.T) {
	read := func(from, window, arrivals string, needed int) string {
		_, err := Parse("x.yaml", []byte(`name: x
target: {protocol: http, address: "127.0.0.1:1"}
load: {open: {arrivals: `+arrivals+`}, window: `+window+`}
capacity: {from: `+from+`, to: 90000/s}
thresholds: ["response.p99 < 10ms"]
`), Options{Expressions: fakeChecks{needed: needed}})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, c := range []struct {
		from, window, arrivals string
		needed                 int
		want                   string
	}{
		{"1000/s", "1s", "constant", 1000, ""},
		{"999/s", "1s", "constant", 1000, `x.yaml:5:14: thresholds[0]: needs 1000 requests in each trial: 999/s for 1s are about 999; capacity.from: 1000/s or more, or load.window: 1.1s or more`},
		{"1000/s", "1s", "poisson", 1000, `x.yaml:5:14: thresholds[0]: needs 1000 requests in each trial: 1000/s for 1s are about 1000; capacity.from: 1135/s or more, or load.window: 1.2s or more`},
		{"1135/s", "1s", "poisson", 1000, ""},
		{"1000/s", "1200ms", "poisson", 1000, ""},
		{"1/s", "1s", "constant", 0, ""},
	} {
		if got := strings.TrimSpace(read(c.from, c.window, c.arrivals, c.needed)); got != c.want {
			t.Errorf("%s, %s, %s:\n%s\nwant\n%s", c.from, c.window, c.arrivals, got, c.want)
		}
	}
}
