package verdict

import (
	"time"

	"dyno/load/hist"
)

// equal returns a histogram of n equal values.
func equal(n int64, v time.Duration) *hist.Histogram {
	h := hist.New()
	h.RecordN(int64(v), n)
	return h
}
