package observation

import (
	"math"
	"testing"
	"time"

	"dyno/observe"
	"dyno/results/rundir"
)

// TestCounting: calls are counted for no longer than a window lasts, if that is long enough.
func TestCounting(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		window          time.Duration
		throughput      float64 // 0: unknown
		warmup, counted time.Duration
	}{
		{10 * time.Second, 50_000, 100 * ms, 250 * ms},
		{10 * time.Second, 2000, 100 * ms, 500 * ms},
		{10 * time.Second, 1000, 100 * ms, time.Second},
		{10 * time.Second, 0.001, 100 * ms, 5 * time.Second},
		{10 * time.Second, 0, 100 * ms, 5 * time.Second},
		{2 * time.Second, 100, 100 * ms, 2 * time.Second},
		{200 * ms, 50_000, 100 * ms, 200 * ms},
		{200 * ms, 100, 100 * ms, 250 * ms},
		{50 * ms, 0, 50 * ms, 250 * ms},
	} {
		throughput := &c.throughput
		if c.throughput == 0 {
			throughput = nil
		}
		if warmup, counted := counting(c.window, throughput); warmup != c.warmup || counted != c.counted {
			t.Errorf("window %v, %v/s: %v after %v, want %v after %v", c.window, c.throughput, counted, warmup, c.counted, c.warmup)
		}
	}
}

// The percentiles of a recording's rows are each of a stretch of it: the window's is none of them.
func TestRecordKernel(t *testing.T) {
	var x rundir.Target
	recordKernel(&x, observe.Window{To: time.Second, Columns: []observe.Summary{
		{Column: observe.Column{Name: "kernel_syscalls_total", Kind: observe.Counter}, Delta: 30},
		{Column: observe.Column{Name: "kernel_run_queue_wait_p99_seconds", Kind: observe.Gauge}, Delta: math.NaN(), Max: 5},
	}}, 10)
	if x.RunQueueWaitP99 != nil || x.SyscallsPerRequest == nil || *x.SyscallsPerRequest != 3 {
		t.Errorf("%+v", x)
	}
}
