package live

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// tenth is an interval of 100 ms with n good responses of 2 ms.
func tenth(at time.Duration, n, failed int) record.Interval {
	i := record.Interval{Start: at, Length: 100 * time.Millisecond, Measured: record.Outcomes{OK: uint64(n), Timeouts: uint64(failed)}}
	h := hist.New()
	for range n {
		h.Record(int64(2 * time.Millisecond))
	}
	i.Latency[record.Response] = h
	return i
}

// play shows a warm-up of a second, 1.5 s of a window, and the end of a trial.
func play(p *Rows) {
	p.Begin(trial.Planned{Number: 2, Of: 12, Variant: "pool", Width: 9, Warmup: time.Second})
	for n := range 10 {
		p.Interval(record.Interval{Start: time.Duration(n) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Warmup: record.Outcomes{OK: 7, Errors: uint64(n / 9)}})
	}
	for n := range 15 {
		p.Interval(tenth(time.Second+time.Duration(n)*100*time.Millisecond, 50, 1))
	}
	throughput, p50 := 500.0, 0.002
	p.End(&rundir.Trial{
		Throughput: &throughput, Times: rundir.Times{rundir.TagResponse: {P50: &p50}},
		Counts: rundir.Counts{OK: 750, Timeouts: 12, Dropped: 5, Unsent: 2},
	}, []rundir.Flag{{Kind: "steal"}, {Kind: "drops", Disturbs: true}, {Kind: "steal"}})
	p.Begin(trial.Planned{Number: 3, Of: 12, Variant: "goroutine", Width: 9})
	p.End(&rundir.Trial{Error: "it\x1b[31m died\nwith a tail"}, []rundir.Flag{{Kind: "incomplete", Disturbs: true}})
}

// Subscribers' events are shown as they come, next to what is published.
func TestProgressOfEvents(t *testing.T) {
	var b bytes.Buffer
	p := NewRows(&b)
	p.Begin(trial.Planned{Number: 1, Of: 1, Variant: "default", Width: 7, Warmup: time.Second})
	for n := range 20 {
		i := tenth(time.Duration(n)*100*time.Millisecond, 5, 0)
		i.Delivered = 100
		if n >= 10 {
			h := hist.New()
			h.Record(int64(3 * time.Millisecond))
			i.Latency[record.Delivery] = h
		}
		p.Interval(i)
	}
	if want := "  1.0s  1.00k events/s  warming up\n  2.0s  1.00k events/s  p50 3.00 ms"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
}

func TestProgressRows(t *testing.T) {
	var b bytes.Buffer
	play(NewRows(&b))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	want := []string{
		" 2/12  pool         1.0s  70.0/s  warming up  failed 1",
		" 2/12  pool         2.0s  500/s  p50 2.00 ms  p99 2.00 ms  max 2.00 ms  failed 10",
		" 2/12  pool         2.5s  250 ok  p50 2.00 ms  p99 2.00 ms  max 2.00 ms  failed 5",
		" 2/12  pool       500/s  p50 2.00 ms  failed 15",
		` 3/12  goroutine  failed: it`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d rows, want %d:\n%s", len(lines), len(want), b.String())
	}
	for n := range want {
		if !strings.HasPrefix(lines[n], want[n]) {
			t.Errorf("row %d: %q, want %q", n, lines[n], want[n])
		}
	}
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Errorf("control characters: %q", b.String())
	}
}

// A second of the window without an answer, as in a stage of 0/s, is no warm-up.
func TestProgressOfPause(t *testing.T) {
	var b bytes.Buffer
	p := NewRows(&b)
	p.Begin(trial.Planned{Number: 1, Of: 1, Variant: "default", Warmup: time.Second})
	for n := range 2 {
		p.Interval(record.Interval{Start: time.Duration(n) * time.Second, Length: time.Second})
	}
	if want := "  1.0s  0/s  warming up\n  2.0s  0/s\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// What is known about a trial beforehand depends on the design.
func TestProgressNames(t *testing.T) {
	for _, c := range []struct {
		next trial.Planned
		want string
	}{
		{trial.Planned{Number: 1, Of: 1, Variant: "http", Width: 4}, ""}, // of a quick load, the result follows
		{trial.Planned{Number: 3, Of: 12, Round: 2, Variant: "pool", Width: 6}, " 3/12  pool    1.50 s"},
		{trial.Planned{Number: 2, Of: 12, Variant: "pool", Width: 4, Purpose: rundir.PurposePilot}, " 2/12  pool  pilot  1.50 s"},
		{trial.Planned{Number: 2, Variant: "pool", Width: 4, Purpose: rundir.PurposePilot}, "   2  pool  pilot  1.50 s"},
		{trial.Planned{Number: 17, Round: 9, Rounds: 40, Variant: "pool", Width: 4}, "  17  round 9  pool  1.50 s"},
		{trial.Planned{Number: 17, Round: 1, Rounds: 1, Variant: "default", Alone: true, Purpose: rundir.PurposeProbe, Rate: 5000}, "at 5.00k/s  1.50 s"},
		{trial.Planned{Number: 17, Round: 2, Rounds: 5, Variant: "pool", Width: 4, Purpose: rundir.PurposeProbe, Rate: 1500}, "  17  round 2  pool  at 1.50k/s  1.50 s"},
	} {
		var b bytes.Buffer
		p := NewRows(&b)
		p.Begin(c.next)
		p.End(&rundir.Trial{WindowSeconds: 1.5, Measures: map[string]float64{"x": 1}}, nil)
		if got := strings.TrimSuffix(b.String(), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What was under way when a trial was interrupted has failed, here as in its report.
func TestProgressOfInterrupted(t *testing.T) {
	var b bytes.Buffer
	p := NewRows(&b)
	p.Begin(trial.Planned{Number: 1, Of: 2, Variant: "default"})
	throughput := 500.
	p.End(&rundir.Trial{Error: "interrupted by SIGINT", Interrupted: true, Throughput: &throughput, Counts: rundir.Counts{OK: 10, Unfinished: 2}}, nil)
	if want := "1/2  default  500/s  failed 2  interrupted\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
