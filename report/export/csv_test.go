package export

import (
	"testing"

	"dyno/report/figure"
)

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
