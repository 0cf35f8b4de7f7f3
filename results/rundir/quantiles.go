package rundir

import "dyno/load/hist"

// Beyond is how many values must lie beyond a quantile for it to be known. With fewer,
// the next value could move it anywhere. So a p99 needs 1,000 values and a p99.9 needs
// 10,000.
const Beyond = 10

// QuantilesOf summarises a histogram of nanoseconds; nil counts as an empty one.
func QuantilesOf(h *hist.Histogram) Quantiles {
	if h == nil || h.Count() == 0 {
		return Quantiles{}
	}
	quantile := func(oneIn int64) *float64 {
		if h.Count() < oneIn*Beyond {
			return nil
		}
		return seconds(float64(h.Quantile(1 - 1/float64(oneIn))))
	}
	return Quantiles{
		Count: h.Count(),
		Mean:  seconds(h.Mean()),
		P50:   quantile(2),
		P90:   quantile(10),
		P99:   quantile(100),
		P999:  quantile(1000),
		Max:   seconds(float64(h.Max())),
	}
}

func seconds(ns float64) *float64 {
	s := ns / 1e9
	return &s
}
