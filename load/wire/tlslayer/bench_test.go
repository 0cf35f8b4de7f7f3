package tlslayer

import (
	"bytes"
	"math"
	"testing"
)

// What a small request and its response take: 100 bytes there, 200 back.
const (
	requestSize  = 100
	responseSize = 200
)

// BenchmarkExchange is of the client's side alone: Seal and Open, as an event loop calls
// them.
func BenchmarkExchange(b *testing.B) {
	for _, version := range []string{"1.2", "1.3"} {
		b.Run(version, func(b *testing.B) {
			l := established(b, newContext(b, clientConfig(version)), serverConfig())
			request, response := make([]byte, requestSize), make([]byte, responseSize)
			responses := make([][]byte, 1000)
			var out []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%len(responses) == 0 {
					b.StopTimer()
					for j := range responses {
						responses[j] = must(l.server.Seal(responses[j][:0], response))
					}
					b.StartTimer()
				}
				out = must(l.client.Seal(out[:0], request))
				if data, err := l.client.Open(responses[i%len(responses)]); err != nil || len(data) != responseSize {
					b.Fatalf("%d bytes, error %v", len(data), err)
				}
			}
		})
	}
}

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
