package kernel

import (
	"slices"
	"testing"
)

// What the hooks cost whom, in CPU time: a program in the set, and one outside it.
// Each round measures without them and with them; the figures are medians of
// differences.
func BenchmarkCost(b *testing.B) {
	privileged(b)
	const rounds, calls, switches = 31, 300_000, 20_000
	inside, _ := startBelow(b, "caller")
	outside, _ := startBelow(b, "caller")
	cfg := func(calls, accepts, queue bool) Config {
		return Config{Name: "kernel", Root: inside.Process.Pid, Ports: []uint16{80}, SystemCalls: calls, Accepts: accepts, RunQueue: queue}
	}
	each := func(c *child, command string, n int) float64 {
		return c.do(b, "%s %d", command, n) / float64(n)
	}
	for _, bb := range []struct {
		name    string
		observe func(Config) (*Observer, error)
		cfg     Config
		command string
		n       int
	}{
		{"calls", New, cfg(true, false, false), "calls", calls},
		{"calls-and-accepts", New, cfg(true, true, false), "calls", calls},
		{"all", New, cfg(true, true, true), "calls", calls},
		{"perf-events", perfOnly, cfg(true, true, true), "calls", calls},
		{"run-queue", New, cfg(false, false, true), "switches", switches},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				var without, inSet, notInSet []float64
				for range rounds {
					in, out := each(inside, bb.command, bb.n), each(outside, bb.command, bb.n)
					o, err := bb.observe(bb.cfg)
					if err != nil {
						b.Fatal(err)
					}
					inSet = append(inSet, each(inside, bb.command, bb.n)-in)
					notInSet = append(notInSet, each(outside, bb.command, bb.n)-out)
					without = append(without, in)
					if err := o.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(median(without), "ns-without")
				b.ReportMetric(median(inSet), "ns-more-in-set")
				b.ReportMetric(median(notInSet), "ns-more-outside")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
