package live

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/texts"
	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/ui"
)

// fed returns what a feed tells of an experiment.
func fed(t *testing.T, play func(*Feed)) (events []ui.Event) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := newFeed(w, func(err error) { t.Error(err) })
	f.now = func() time.Time { return time.Unix(7, 0) }
	play(f)
	f.Close()
	follow(r, func(e ui.Event) { events = append(events, e) })
	return events
}

func TestFeed(t *testing.T) {
	trial3 := &rundir.Trial{Number: 3, Round: 1, Variant: "v", Complete: true, Counts: rundir.Counts{OK: 7, Dropped: 1, Carried: rundir.Carried{Unfinished: 1}}}
	half := 500 * time.Millisecond
	events := fed(t, func(f *Feed) {
		f.Begin(trial.Planned{Number: 3, Of: 4, Round: 1, Rounds: 2, Variant: "v", Purpose: rundir.PurposeProbe, Rate: 50, Width: 1})
		f.Interval(record.Interval{Length: half, Warmup: record.Outcomes{OK: 10, Errors: 3}})
		f.Interval(intervalOf(half, half, 20, 1, 200))
		f.Interval(intervalOf(2*half, half/2, 5, 0, 5))
		f.End(trial3, []rundir.Flag{{Kind: "steal", Detail: new(texts.Verbatim("<b>"))}})
		f.Interval(record.Interval{Length: half})
		f.End(trial3, nil)
	})
	if len(events) != 5 || events[4].End == nil {
		t.Fatalf("%+v", events)
	}
	if b := events[0].Begin; b == nil || *b.Rate != 50 || b.Number != 3 || b.Of != 4 || b.Variant != "v" {
		t.Errorf("%+v", b)
	}
	s := events[1].Second
	if s == nil || s.Trial != 3 || s.Seconds != 1 || s.Elapsed != 1 || s.Throughput != 30 || s.Failed != 1 || !s.At.Equal(time.Unix(7, 0)) {
		t.Fatalf("%+v", s)
	}
	if l := s.Latency["response"]; len(s.Latency) != 1 || l.P50 < 0.00099 || l.P50 > 0.00101 || l.P90 == nil || l.P99 == nil || l.P999 != nil {
		t.Errorf("%+v", s.Latency)
	}
	if s := events[2].Second; s == nil || s.Seconds != 0.25 || s.Throughput != 20 || s.Latency["response"].P90 != nil {
		t.Errorf("the rest of a second: %+v", s)
	}
	if e := events[3].End; e == nil || e.Failed != 2 || len(e.Flags) != 1 || e.Flags[0].Detail.English() != "<b>" || e.Clock != "response" {
		t.Errorf("%+v", e)
	}
	if events := fed(t, func(f *Feed) {
		f.End(&rundir.Trial{Streams: &rundir.Streams{}, Times: rundir.Times{rundir.TagDelivery: {Count: 4}}}, nil)
	}); events[0].End.Clock != "delivery" || events[0].End.Latency.Count != 4 {
		t.Errorf("%+v", events[0].End)
	}
}

// A second of the window without an answer is distinguished from one of the warm-up: it has
// latencies, though of no clock.
func TestFeedOfPause(t *testing.T) {
	events := fed(t, func(f *Feed) {
		f.Begin(trial.Planned{Number: 1, Warmup: time.Second})
		for n := range 2 {
			f.Interval(record.Interval{Start: time.Duration(n) * time.Second, Length: time.Second})
		}
	})
	if len(events) != 3 || events[1].Second.Latency != nil || events[2].Second.Latency == nil {
		t.Errorf("%+v", events)
	}
}

// A reader that does not read holds up no interval, and a feed tells once that one is gone.
func TestFeedWithoutReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	f := newFeed(w, func(err error) { gone <- err })
	for range 2 * feedQueue { // returns: more than the pipe and the queue hold
		f.Interval(intervalOf(0, time.Second, 1, 0, 5000))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := <-gone; !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
}

// A live file is there from the first event to the end, and does not grow beyond its bound.
func TestLiveFile(t *testing.T) {
	l := &liveFile{path: filepath.Join(t.TempDir(), "run", rundir.LiveFile)}
	if _, err := l.Write([]byte("early\n")); err == nil {
		t.Error("it was written without its folder")
	}
	if err := os.Mkdir(filepath.Dir(l.path), 0o755); err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", maxLive/4) + "\n")
	for n, want := range []int{1, 2, 3, 1, 2} {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(l.path); err != nil || len(text) != want*len(line) {
			t.Errorf("after %d lines: %d bytes, %v", n+1, len(text), err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left over: %v", err)
	}
	if err := (&liveFile{path: l.path}).Close(); err != nil {
		t.Errorf("without an event: %v", err)
	}
}

func intervalOf(start, length time.Duration, completed, failed uint64, values int) record.Interval {
	i := record.Interval{Start: start, Length: length, Measured: record.Outcomes{OK: completed, Dropped: failed}}
	i.Latency[record.Response] = hist.New()
	i.Latency[record.Response].RecordN(int64(time.Millisecond), int64(values))
	return i
}
