package short

import (
	"testing"

	"dyno/results/rundir"
)

func TestVersion(t *testing.T) {
	for want, c := range map[string]struct {
		protocol            string
		opened, multiplexed int64
	}{
		"": {"tcp", 3, 0}, "HTTP/1.1": {"http", 3, 0}, "HTTP/2": {"http", 3, 3}, "HTTP/1.1 and HTTP/2": {"http", 3, 1}, "gRPC over HTTP/2": {"grpc", 3, 3},
	} {
		if got := version(c.protocol, &rundir.Connections{Opened: c.opened, Multiplexed: c.multiplexed}); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
	if got := version("http", &rundir.Connections{}); got != "" {
		t.Errorf("without a connection: %q", got)
	}
}

func TestTryRate(t *testing.T) {
	for throughput, want := range map[float64]int{0: 1, 1: 1, 2: 1, 10: 7, 41230: 30000, 160000: 100000, 133: 90} {
		if got := tryRate(&throughput); got != want {
			t.Errorf("three quarters of %v: %d, want %d", throughput, got, want)
		}
	}
	if got := tryRate(nil); got != 1 {
		t.Errorf("of nothing: %d", got)
	}
}
