package micro

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/beorn7/perks/quantile"

	"dyno/experiments/subjects/measurement"
)

// Quantile measures ways to keep response times for a P99: the buckets of report R2 with interpolation within one, the
// estimator of Cormode, Korn, Muthukrishnan and Srivastava (CKMS), and an HdrHistogram. The times are log-normal, with a P99 of
// 187 ms.
//
// Figures: record_seconds of one time; p99_error_seconds and p50_error_seconds, how far the estimates are from the times' own; kept_bytes.
type Quantile struct {
	Kind  string `yaml:"kind" oneof:"buckets ckms hdr" default:"hdr" doc:"what keeps the times"`
	Times int    `yaml:"times" range:"1000..100000000" default:"770400" doc:"how many there are: by default a minute at 12,840 a second"`
	Seed  uint64 `yaml:"seed" otherwise:"another each time" doc:"of the times"`
}

// reportBuckets are the upper bounds that report R2 configures, in milliseconds.
var reportBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 5000}

// A keeper keeps times in milliseconds.
type keeper interface {
	record(ms float64)
	at(q float64) float64
	bytes() int
}

// buckets count times up to each bound.
type buckets struct{ counts [15]int }

func (b *buckets) record(ms float64) {
	i, _ := slices.BinarySearch(reportBuckets, ms)
	b.counts[i]++
}

// at interpolates as histogram_quantile of Prometheus does.
func (b *buckets) at(q float64) float64 {
	all := 0
	for _, n := range b.counts {
		all += n
	}
	rank, low := q*float64(all), 0.
	for i, high := range reportBuckets {
		if n := float64(b.counts[i]); n >= rank && n > 0 {
			return low + (high-low)*rank/n
		}
		rank -= float64(b.counts[i])
		low = high
	}
	return low
}
func (b *buckets) bytes() int { return 8 * len(b.counts) }

type ckms struct{ *quantile.Stream }

func (c ckms) record(ms float64)    { c.Insert(ms) }
func (c ckms) at(q float64) float64 { return c.Query(q) }
func (c ckms) bytes() int           { return 24 * len(c.Samples()) }

type hdr struct{ *hdrhistogram.Histogram }

func (h hdr) record(ms float64)    { _ = h.RecordValue(int64(ms * 1e3)) } // microseconds, all within its range
func (h hdr) at(q float64) float64 { return float64(h.ValueAtQuantile(100*q)) / 1e3 }
func (h hdr) bytes() int           { return h.ByteSize() }

// Run records the times.
func (p Quantile) Run(ctx context.Context) (measurement.Result, error) {
	seed := p.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	times := make([]float64, p.Times)
	for i := range times {
		times[i] = 187 * math.Exp(0.5*(random.NormFloat64()-2.3263)) // of which one in a hundred is above 187
	}
	var k keeper
	switch p.Kind {
	case "buckets":
		k = &buckets{}
	case "ckms":
		k = ckms{quantile.NewTargeted(map[float64]float64{0.5: 0.01, 0.99: 0.001})}
	default:
		k = hdr{hdrhistogram.New(1, 60e6, 3)}
	}
	began := time.Now()
	for _, ms := range times {
		k.record(ms)
	}
	p50, p99 := k.at(0.5), k.at(0.99)
	each := time.Since(began).Seconds() / float64(p.Times)
	slices.Sort(times)
	off := func(estimate, q float64) float64 {
		return math.Abs(estimate-times[int(math.Ceil(q*float64(len(times))))-1]) / 1e3
	}
	return measurement.Result{"record_seconds": each, "p50_error_seconds": off(p50, 0.5), "p99_error_seconds": off(p99, 0.99), "kept_bytes": float64(k.bytes())}, ctx.Err()
}
