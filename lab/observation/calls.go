package observation

import (
	"slices"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/observe"
	"dyno/observe/kernel"
	"dyno/results/rundir"
)

// The length of the load in which system calls are counted.
const (
	countWarmup = 100 * time.Millisecond
	countWindow = 250 * time.Millisecond // at least, if the window is not shorter
	mostCounted = 5 * time.Second
	// enoughRequests are those whose calls are counted, if they take no longer than the window.
	enoughRequests = 1000
	// maxLateShare is the part of the window by which its two readings may be late together.
	// The counts of a request can be wrong by as much.
	maxLateShare = 10
)

// counting returns how long calls are counted, and after what warm-up. It takes the window's length and
// requests per second, if known.
func counting(window time.Duration, throughput *float64) (warmup, counted time.Duration) {
	counted = max(countWindow, min(mostCounted, window))
	if throughput != nil {
		enough := time.Duration(min(enoughRequests / *throughput, mostCounted.Seconds()) * float64(time.Second))
		counted = min(counted, max(enough, min(countWindow, window)))
	}
	return min(countWarmup, window), counted
}

// CountCalls repeats the load on the target for a short time. It counts the system calls of the
// processes below root. The hooks for that slow down target and generator, so no figure of the window
// should contain them. carry runs a load.
func CountCalls(root int, c config.Config, t *rundir.Trial, carry func(config.Config) (*record.Result, error)) {
	unavailable := t.AddUnavailable
	k, err := kernel.New(kernel.Config{
		Name: kernelColumns, Root: root, SystemCalls: true, RunQueue: true,
	})
	if err != nil {
		unavailable(err)
		return
	}
	for _, missing := range k.Missing() {
		unavailable(missing)
	}
	c.OnInterval, c.Times, c.OnStart = nil, record.TagSet{}, nil
	c.Warmup, c.Window = counting(c.Window, t.Throughput)
	var (
		at   [2]time.Time
		rows [2][]float64
	)
	c.OnPhase = func(p config.Phase) {
		i := slices.Index([]config.Phase{config.Measuring, config.Draining}, p)
		if i < 0 {
			return
		}
		rows[i] = make([]float64, len(k.Columns()))
		if err := k.Observe(rows[i]); err != nil {
			unavailable(err)
		}
		at[i] = time.Now()
	}
	result, err := carry(c)
	if closed := k.Close(); closed != nil {
		unavailable(closed)
	}
	if err != nil {
		unavailable(texts.NewError("unavailable.calls", "error", err.Error()))
		return
	}
	answered := result.Completed
	if c.Subscribers != nil {
		answered = result.Streams.Delivered
	}
	if rows[1] == nil || answered == 0 {
		unavailable(texts.NewError("unavailable.calls.none"))
		return
	}
	// The readings are not exactly at the window's edges: the requests between them are known
	// as far as the rate is the same there.
	begin := result.Start.Add(result.WindowStart)
	if off := at[0].Sub(begin).Abs() + at[1].Sub(begin.Add(result.Window)).Abs(); off > result.Window/maxLateShare {
		unavailable(texts.NewError("unavailable.calls.late", "time", off.Round(time.Millisecond).String(), "window", result.Window.Round(time.Millisecond).String()))
		return
	}
	seconds := at[1].Sub(at[0]).Seconds()
	recordCalls(&t.Target, k.Columns(), rows, seconds, float64(answered)/result.Window.Seconds()*seconds)
	if t.Target.SyscallsPerRequest != nil && t.Throughput != nil {
		// The rate in the window, at the window's throughput.
		rate := *t.Target.SyscallsPerRequest * *t.Throughput
		t.Target.SyscallsPerSecond = &rate
	}
}

// recordCalls sums up what the kernel counted between two readings, in which the given
// number of requests were answered.
func recordCalls(t *rundir.Target, columns []observe.Column, rows [2][]float64, seconds, requests float64) {
	const prefix, suffix = "syscall_", "_total"
	for i, c := range columns {
		grown := rows[1][i] - rows[0][i]
		switch name, ok := strings.CutPrefix(c.Name, prefix); {
		case ok:
			if grown > 0 && requests > 0 {
				if t.Syscalls == nil {
					t.Syscalls = map[string]float64{}
				}
				t.Syscalls[strings.TrimSuffix(name, suffix)] = grown / requests
			}
		case c.Name == "syscalls_total":
			t.SyscallsPerSecond, t.SyscallsPerRequest = known(grown/seconds), known(grown/requests)
		case c.Name == "run_queue_wait_p99_seconds":
			t.RunQueueWaitP99 = known(rows[1][i])
		}
	}
}
