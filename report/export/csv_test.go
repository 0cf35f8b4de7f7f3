package export

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/report/figure"
	"dyno/results/rundir"
)

// No name becomes a formula.
func TestInert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=+@\t\r\n -]{1,3}[a-z(]*`)).Draw(t, "name")
		got := inert(name)
		if got != "" && strings.ContainsRune("=+-@\t\r", rune(got[0])) {
			t.Fatalf("%q became %q", name, got)
		}
	})
}

func TestMetricsOf(t *testing.T) {
	if !slices.Contains(metricsOf(rundir.Variant{Intervals: map[string]rundir.Estimate{"target.goroutines": {}}}), "target.goroutines") {
		t.Error("a metric that only has an interval is left out")
	}
}

func TestBaseUnits(t *testing.T) {
	for metric, want := range map[string]string{
		"throughput": "1/s", "capacity": "1/s", "response.p99": "s", "target.rss": "B", "errors.ratio": "1", "target.cpu_share": "1",
		"target.cpu_per_request": "s", "program.lock_seconds": "s", "program.size_bytes": "B", "program.n": "1", "delivery.max": "s",
		"target.syscalls_per_second": "1/s", "streams.lost": "1",
	} {
		if got := figure.UnitOf(metric).Base(); got != want {
			t.Errorf("%s is in %q, want %q", metric, got, want)
		}
	}
}
