package store

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkApply is writes by 256 clients at a time that wait for the disk, as a control
// plane's do.
func BenchmarkApply(b *testing.B) {
	for _, lanes := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			s := opened(b, func(c *Config) { c.NoSync, c.MaxInflightTxns = false, lanes })
			value, note := make([]byte, 256), make([]byte, 160)
			var n atomic.Int64
			b.SetParallelism(128) // for each of GOMAXPROCS
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := fmt.Sprintf("s/%d", n.Add(1))
					if o, err := s.Apply(b.Context(), Request{If: []Condition{{Key: key}, {Key: "l/" + key}}, Then: []Op{{Key: key, Value: value}}, Note: note}); err != nil || !o.Done {
						b.Errorf("%+v, %v", o, err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}
