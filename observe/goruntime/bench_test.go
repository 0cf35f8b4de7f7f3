package goruntime

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What one reading of each source costs, of the program that answers and of the
// observer together: both are this process.
func BenchmarkRead(b *testing.B) {
	for _, page := range []string{"metrics", "metrics/advanced", "index", "goroutine"} {
		b.Run(strings.ReplaceAll(page, "/", "-"), func(b *testing.B) {
			r, err := New(b.Context(), Config{Pprof: program(b, page) + "/debug/pprof", Every: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			before := processTime(b)
			for b.Loop() {
				if err := r.Refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func processTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
