package sockets

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What one reading costs, of connections with both ends here: two sockets each.
func BenchmarkRead(b *testing.B) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("connections=%d", n), func(b *testing.B) {
			if limit.Cur < uint64(2*n+100) {
				b.Skipf("needs %d descriptors, and may have %d", 2*n+100, limit.Cur)
			}
			l := listen(b, "tcp4", "127.0.0.1:0")
			connect(b, l, l.Addr().String(), n)
			o, err := NewConnections(b.Context(), Config{Address: l.Addr().String(), Every: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer o.Close()
			if err := o.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			before := o.Poller.CPUSeconds()
			b.ReportAllocs()
			for b.Loop() {
				if err := o.Refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((o.Poller.CPUSeconds()-before)*1e6/float64(b.N), "cpu-µs/op")
		})
	}
}
