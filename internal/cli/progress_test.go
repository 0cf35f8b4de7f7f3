package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"dyno/engine"
	"dyno/hist"
	"dyno/rundir"
	"dyno/trial"
)

// tenth is an interval of 100 ms with n good responses of 2 ms.
func tenth(at time.Duration, n, failed int) engine.Interval {
	i := engine.Interval{Start: at, Length: 100 * time.Millisecond, Completed: uint64(n), Failed: uint64(failed)}
	h := hist.New()
	for range n {
		h.Record(int64(2 * time.Millisecond))
	}
	i.Latency[engine.Response] = h
	return i
}

// play shows a warm-up of a second, 1.5 s of a window, and the end of a trial.
func play(p *progress) {
	p.Begin(trial.Planned{Number: 2, Of: 12, Variant: "pool", Width: 9})
	for n := range 10 {
		p.Interval(engine.Interval{Start: time.Duration(n) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Completed: 7})
	}
	for n := range 15 {
		p.Interval(tenth(time.Second+time.Duration(n)*100*time.Millisecond, 50, 1))
	}
	throughput, p50 := 500.0, 0.002
	p.End(&rundir.Trial{
		Throughput: &throughput, Response: rundir.Quantiles{P50: &p50},
		Counts: rundir.Counts{Sent: 765, OK: 750},
	})
	p.Begin(trial.Planned{Number: 3, Of: 12, Variant: "goroutine", Width: 9})
	p.End(&rundir.Trial{Error: "it\x1b[31m died\nwith a tail"})
}

func TestProgressRows(t *testing.T) {
	var b bytes.Buffer
	play(newProgress(&b, false))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	want := []string{
		" 2/12  pool         1.0s  70.0/s  warming up",
		" 2/12  pool         2.0s  500/s  p50 2.00 ms  p99 2.00 ms  max 2.00 ms  failed 10",
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

// What is known beforehand of a trial depends on the design.
func TestProgressNames(t *testing.T) {
	for _, c := range []struct {
		next trial.Planned
		want string
	}{
		{trial.Planned{Number: 1, Of: 1, Variant: "http", Width: 4}, "http  1.50 s"},
		{trial.Planned{Number: 3, Of: 12, Round: 2, Variant: "pool", Width: 6}, " 3/12  pool    1.50 s"},
		{trial.Planned{Number: 2, Of: 12, Variant: "pool", Width: 4, Purpose: rundir.PurposePilot}, " 2/12  pool  pilot  1.50 s"},
		{trial.Planned{Number: 2, Variant: "pool", Width: 4, Purpose: rundir.PurposePilot}, "   2  pool  pilot  1.50 s"},
		{trial.Planned{Number: 17, Round: 9, Rounds: 40, Variant: "pool", Width: 4}, "  17  round 9  pool  1.50 s"},
		{trial.Planned{Number: 17, Round: 2, Rounds: 5, Variant: "pool", Width: 4, Purpose: rundir.PurposeProbe, Rate: 1500}, "  17  round 2  pool  at 1.50k/s  1.50 s"},
	} {
		var b bytes.Buffer
		p := newProgress(&b, false)
		p.Begin(c.next)
		p.End(&rundir.Trial{WindowSeconds: 1.5, Measures: map[string]float64{"x": 1}})
		if got := strings.TrimSuffix(b.String(), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestProgressRepaints(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false)
	p.repaint = true
	play(p)
	text := b.String()
	if strings.Count(text, "\n") != 2 {
		t.Errorf("want a line for each trial that has ended: %q", text)
	}
	// A shorter row covers the longer one before it.
	rows := strings.Split(strings.Split(text, "\n")[0], "\r")
	for n := 2; n < len(rows); n++ {
		if len([]rune(rows[n])) < len([]rune(strings.TrimRight(rows[n-1], " "))) {
			t.Errorf("row %q does not cover %q", rows[n], rows[n-1])
		}
	}
}

func TestProgressQuiet(t *testing.T) {
	var b bytes.Buffer
	play(newProgress(&b, true))
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
}
