package tlslayer

import (
	"bytes"
	"math"
	"testing"
)

// Nothing is allocated to seal a record, and 24 bytes, by crypto/tls, to open one.
func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, version := range []string{"1.2", "1.3"} {
		l := established(t, newContext(t, clientConfig(version)), serverConfig())
		request, response := bytes.Repeat([]byte{'q'}, 100), bytes.Repeat([]byte{'r'}, 200)
		const runs = 200
		out := must(l.client.Seal(nil, request))
		least := math.Inf(1)
		for range 20 { // as the race detector has crypto/tls's pool forget some of its buffers
			least = min(least, testing.AllocsPerRun(1, func() { out = must(l.client.Seal(out[:0], request)) }))
		}
		if least > 0 {
			t.Errorf("%s: sealing allocates %v times", version, least)
		}
		records := make([][]byte, runs+2) // one to warm up, and AllocsPerRun's first
		for i := range records {
			records[i] = must(l.server.Seal(nil, response))
		}
		i := 0
		open := func() {
			if data, err := l.client.Open(records[i]); err != nil || len(data) != len(response) {
				t.Fatalf("%d bytes, error %v", len(data), err)
			}
			i++
		}
		open()
		if got := testing.AllocsPerRun(runs, open); got > 1 {
			t.Errorf("%s: opening allocates %v times, want 1", version, got)
		}
	}
}
