package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/results/rundir"
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
	p.Begin(trial.Planned{Number: 2, Of: 12, Variant: "pool", Width: 9, Warmup: time.Second})
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
	}, []rundir.Flag{{Kind: "steal"}, {Kind: "drops", Spoils: true}, {Kind: "steal"}})
	p.Begin(trial.Planned{Number: 3, Of: 12, Variant: "goroutine", Width: 9})
	p.End(&rundir.Trial{Error: "it\x1b[31m died\nwith a tail"}, []rundir.Flag{{Kind: "incomplete", Spoils: true}})
}

// Subscribers' events are shown as they come, beside what is published.
func TestProgressOfEvents(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, false)
	p.Begin(trial.Planned{Number: 1, Of: 1, Variant: "default", Width: 7, Warmup: time.Second})
	for n := range 20 {
		i := tenth(time.Duration(n)*100*time.Millisecond, 5, 0)
		i.Delivered = 100
		if n >= 10 {
			h := hist.New()
			h.Record(int64(3 * time.Millisecond))
			i.Latency[engine.Delivery] = h
		}
		p.Interval(i)
	}
	if want := "  1.0s  1.00k events/s  warming up\n  2.0s  1.00k events/s  p50 3.00 ms"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
}

func TestProgressRows(t *testing.T) {
	var b bytes.Buffer
	play(newProgress(&b, false, false))
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

// A second of the window without an answer, as in a stage of 0/s, is no warm-up.
func TestProgressOfPause(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, false)
	p.Begin(trial.Planned{Number: 1, Of: 1, Variant: "default", Warmup: time.Second})
	for n := range 2 {
		p.Interval(engine.Interval{Start: time.Duration(n) * time.Second, Length: time.Second})
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
		{trial.Planned{Number: 17, Round: 2, Rounds: 5, Variant: "pool", Width: 4, Purpose: rundir.PurposeProbe, Rate: 1500}, "  17  round 2  pool  at 1.50k/s  1.50 s"},
	} {
		var b bytes.Buffer
		p := newProgress(&b, false, false)
		p.Begin(c.next)
		p.End(&rundir.Trial{WindowSeconds: 1.5, Measures: map[string]float64{"x": 1}}, nil)
		if got := strings.TrimSuffix(b.String(), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestProgressRepaints(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, false)
	p.repaint, p.columns = true, func() int { return 120 }
	play(p)
	text := b.String()
	if strings.Count(text, "\n") != 2 {
		t.Errorf("want a line for each trial that has ended: %q", text)
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("colour that nobody asked for: %q", text)
	}
	// A shorter row covers the longer one before it.
	rows := strings.Split(strings.Split(text, "\n")[0], "\r")
	for n := 2; n < len(rows); n++ {
		if len([]rune(rows[n])) < len([]rune(strings.TrimRight(rows[n-1], " "))) {
			t.Errorf("row %q does not cover %q", rows[n], rows[n-1])
		}
	}
	// The warm-up has no latency, the second after it has one.
	if !strings.Contains(rows[2], "failed 10   ▁") {
		t.Errorf("no sparkline of two seconds in %q", rows[2])
	}
	for _, want := range []string{"failed 15  steal  drops", "failed: it<U+001B>[31m died"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in %q", want, text)
		}
	}
	if strings.Contains(text, "incomplete") {
		t.Errorf("a trial that failed has said so: %q", text)
	}
}

func TestProgressColours(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, false)
	p.repaint, p.colour = true, true
	play(p)
	for _, want := range []string{
		"\x1b[31m  failed 10\x1b[0m", "\x1b[31m  failed 15\x1b[0m\x1b[33m  steal\x1b[0m\x1b[31m  drops\x1b[0m",
		"\x1b[31mfailed: it<U+001B>[31m died\x1b[0m\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in %q", want, b.String())
		}
	}
}

func TestColoured(t *testing.T) {
	for _, c := range []struct {
		no          bool
		environment map[string]string
		want        bool
	}{
		{false, map[string]string{"TERM": "xterm"}, true},
		{false, map[string]string{"NO_COLOR": ""}, true},
		{true, nil, false},
		{false, map[string]string{"NO_COLOR": "0"}, false},
		{false, map[string]string{"TERM": "dumb"}, false},
	} {
		if got := coloured(c.no, func(name string) string { return c.environment[name] }); got != c.want {
			t.Errorf("--no-color %v, environment %v: %v", c.no, c.environment, got)
		}
	}
}

// On a narrow terminal a row is cut, so that the next one can replace it. The result of a
// trial is never cut.
func TestProgressNarrow(t *testing.T) {
	for _, columns := range []int{1, 20, 60, 80} {
		var b bytes.Buffer
		p := newProgress(&b, false, false)
		p.repaint, p.columns = true, func() int { return columns }
		play(p)
		for _, line := range strings.SplitAfter(b.String(), "\n") {
			rows := strings.Split(line, "\r")
			last := rows[len(rows)-1]
			for _, r := range rows[:len(rows)-1] {
				if n := (row{{strings.TrimRight(r, " "), plain}}).width(); n > columns-1 {
					t.Errorf("%d columns in %d: %q", n, columns, r)
				}
			}
			if strings.HasSuffix(line, "\n") && !strings.Contains(last, "failed") {
				t.Errorf("%d columns: the end is cut: %q", columns, last)
			}
		}
	}
}

// The sparkline is of one trial, and no longer than half a minute.
func TestProgressSparkline(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, false)
	p.repaint = true
	p.Begin(trial.Planned{Number: 1, Of: 2, Variant: "pool"})
	for n := range 40 {
		for range 10 {
			p.Interval(tenth(time.Duration(n)*time.Second, 5, 0))
		}
	}
	rows := strings.Split(b.String(), "\r")
	if got := strings.Count(rows[len(rows)-1], "▁"); got != sparkSeconds {
		t.Errorf("%d seconds in %q, want %d", got, rows[len(rows)-1], sparkSeconds)
	}
	p.Begin(trial.Planned{Number: 2, Of: 2, Variant: "pool"})
	for range 10 {
		p.Interval(tenth(0, 5, 0))
	}
	rows = strings.Split(b.String(), "\r")
	if got := strings.Count(rows[len(rows)-1], "▁"); got != 1 {
		t.Errorf("%d seconds in %q, want those of the trial", got, rows[len(rows)-1])
	}
}

func TestProgressQuiet(t *testing.T) {
	var b bytes.Buffer
	play(newProgress(&b, true, false))
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
}

// What the target did wrong stands out as much as what spoils a trial.
func TestProgressMarks(t *testing.T) {
	for _, c := range []struct {
		flag rundir.Flag
		want row
	}{
		{rundir.Flag{Kind: "late_wakeups"}, row{{"  late_wakeups", yellow}}},
		{rundir.Flag{Kind: "steal", Spoils: true}, row{{"  steal", red}}},
		{rundir.Flag{Kind: "no_answers", Breaks: true}, row{{"  no_answers", red}}},
	} {
		if got := marks([]rundir.Flag{c.flag}); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// What was under way when a trial was interrupted has not failed.
func TestProgressOfInterrupted(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, false)
	p.Begin(trial.Planned{Number: 1, Of: 2, Variant: "default"})
	throughput := 500.
	p.End(&rundir.Trial{Error: "interrupted by SIGINT", Interrupted: true, Throughput: &throughput, Counts: rundir.Counts{Sent: 12, OK: 10, Unfinished: 2}}, nil)
	if want := "1/2  default  500/s  interrupted\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
