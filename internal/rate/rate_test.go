package rate

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRate: over any time, a client gets at most its burst and its rate. A client that waits as
// requested gets through.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rate, burst = 10, 5
		l := NewLimiter(rate, burst, 100)
		now := time.Duration(0)
		allowed := map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now += time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond
			client := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "client")
			ok, after := l.Allow(client, 0, 0, now)
			if !ok {
				now += after + time.Nanosecond
				if ok, _ = l.Allow(client, 0, 0, now); !ok {
					t.Fatalf("refused after waiting for %v", after)
				}
			}
			allowed[client]++
			if float64(allowed[client]) > burst+rate*now.Seconds()+1e-6 {
				t.Fatalf("%d requests in %v", allowed[client], now)
			}
		}
	})
}

func TestOwnRates(t *testing.T) {
	l := NewLimiter(0, 0, 2)
	for range 100 {
		if ok, _ := l.Allow("free", 0, 0, 0); !ok {
			t.Fatal("without a rate, somebody is refused")
		}
	}
	n := 0
	for range 10 {
		if ok, _ := l.Allow("limited", 1, 3, 0); ok {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d at once, want 3", n)
	}
	for i := range 10 {
		l.Allow(fmt.Sprint(i), 1, 1, 0)
	}
	if len(l.buckets) != 2 || l.recent.Len() != 2 {
		t.Errorf("%d clients are remembered", len(l.buckets))
	}
	// The clock may not go back, and if it does, nothing is given.
	l.Allow("x", 1, 1, time.Hour)
	if ok, _ := l.Allow("x", 1, 1, 0); ok {
		t.Error("going back in time gives a token")
	}
}
