package engine_test

import (
	"context"
	"net"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
)

// mute listens and accepts, and answers nothing.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// A request that was due in the warm-up and unanswered at the window's begin is carried into it. Its
// outcome is known. In a closed loop nothing else is due.
func TestCarried(t *testing.T) {
	const warmup, window = time.Second, 200 * time.Millisecond // on a busy machine, the load begins late
	for _, c := range []struct {
		name                 string
		timeout, drain       time.Duration
		timeouts, unanswered uint64
	}{
		{"unfinished", time.Minute, time.Millisecond, 0, 3},
		{"timed out", warmup + window/2, time.Minute, 3, 0}, // the drain lasts as long as they take
	} {
		r := run(t, config.Config{
			Address: mute(t), NewClients: echo(16), Connections: 3, Warmup: warmup, Window: window,
			Drain: c.drain, Timeouts: options.Timeouts{Timeout: c.timeout}, MaxBackoff: time.Millisecond, Intervals: record.Intervals{Interval: 20 * time.Millisecond},
		})
		if r.Carried.Scheduled != 3 || r.Carried.Timeouts != c.timeouts || r.Carried.Unfinished != c.unanswered {
			t.Errorf("%s: carried %+v", c.name, r.Carried)
		}
		if r.AllCounts.Scheduled != r.Counts.Scheduled+r.Carried.Scheduled {
			t.Errorf("%s: all %d, of the window %d, carried %d", c.name, r.AllCounts.Scheduled, r.Counts.Scheduled, r.Carried.Scheduled)
		}
		if r.Connections.Served != 0 || r.Connections.Unanswered != 3 {
			t.Errorf("%s: connections %+v", c.name, r.Connections)
		}
		if s := r.Silence; s.Answered || s.Longest != window || s.From != warmup || s.Ending < warmup+window {
			t.Errorf("%s: silence %+v", c.name, s)
		}
		var covered time.Duration
		for _, i := range r.Intervals {
			covered += i.Length
		}
		if covered < warmup+window {
			t.Errorf("%s: intervals cover %v", c.name, covered)
		}
	}
}

// In an open loop that waits for connections, requests that wait are carried too.
func TestCarriedWaiting(t *testing.T) {
	r := run(t, config.Config{
		Address: mute(t), NewClients: echo(16), Connections: 2, Schedule: steady(t, 100), Warmup: 100 * time.Millisecond, Window: 100 * time.Millisecond,
		Drain: time.Millisecond, Intervals: record.Intervals{Interval: 20 * time.Millisecond},
	})
	// Due every 10 ms: the first two are under way, the others wait.
	if r.Carried.Scheduled < 9 || r.Carried.Unfinished != 2 || r.Carried.Dropped != r.Carried.Scheduled-2 || r.Counts.Dropped != r.Counts.Scheduled {
		t.Errorf("carried %+v, of the window %+v", r.Carried, r.Counts)
	}
}

// Whenever a measurement is interrupted, each request ends as what it was when it was due: those
// that wait for a connection, too.
func TestInterruptedIsConserved(t *testing.T) {
	for _, c := range []struct {
		name           string
		warmup, window time.Duration
		waiting        int
		at             time.Duration
	}{
		{"in the warm-up", time.Hour, time.Hour, 1000, 60 * time.Millisecond},
		{"in the warm-up, more than may wait", time.Hour, time.Hour, 8, 60 * time.Millisecond},
		{"in the window", 50 * time.Millisecond, time.Hour, 1000, 120 * time.Millisecond},
		{"in the window, more than may wait", 50 * time.Millisecond, time.Hour, 8, 120 * time.Millisecond},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := engine.Run(ctx, config.Config{
			Address: mute(t), NewClients: echo(16), Connections: 2, Schedule: steady(t, 500), Waiting: options.Waiting{MaxWaiting: c.waiting},
			Warmup: c.warmup, Window: c.window, Intervals: record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(i record.Interval) {
				if i.Start >= c.at {
					cancel()
				}
			}},
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		carried, window := r.Carried.Scheduled > 0, r.Counts.Scheduled > 0
		if want := c.warmup < c.at; !r.Interrupted || carried != want || window != want || r.AllCounts.Dropped == 0 {
			t.Errorf("%s: carried %+v, of the window %+v, all %+v", c.name, r.Carried, r.Counts, r.AllCounts)
		}
		conserved(t, r)
	}
}
