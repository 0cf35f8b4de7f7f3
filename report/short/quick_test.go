package short

import (
	"testing"
)

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
