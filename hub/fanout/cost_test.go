package fanout

import (
	"context"
	"testing"

	"dyno/hub/journal"
	"dyno/internal/loop"
)

// bench is a loop without a goroutine, subscribers, and a way to read what they
// were sent.
func bench(t fatal, subscribers int) (l *Loop, j *journal.Journal, drain func(), end func()) {
	c := Defaults()
	c.Heartbeat, c.WriteTimeout = 0, 0
	j = newJournal(t, 1000)
	l = newLoop(t, c, j)
	var peers []int
	for range subscribers {
		fd, peer := connect(t, false)
		peers = append(peers, detach(t, peer))
		if err := l.Add(context.Background(), fd, Subscriber{Match: all}); err != nil {
			t.Fatal(err)
		}
	}
	for l.Stats().Subscribers < int64(subscribers) || l.Stats().Late > 0 {
		steps(t, l, 1)
	}
	buf := make([]byte, 64<<10)
	drain = func() {
		for _, fd := range peers {
			_, _ = loop.Recv(fd, buf)
		}
	}
	end = func() {
		l.Close()
		for _, fd := range peers {
			loop.Close(fd)
		}
	}
	return l, j, drain, end
}

// TestNoAllocations: sending to subscribers that are up to date allocates nothing, for
// one entry and for several.
func TestNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	l, j, drain, end := bench(t, 10)
	defer end()
	first := j.Head()
	for range 2 {
		add(t, j, "a", 100)
	}
	entries, _ := j.Since(first, nil, 2)
	for n := 1; n <= 2; n++ {
		l.seen = entries[n-1].Seq
		if allocs := testing.AllocsPerRun(100, func() {
			l.deliver(l.order[0], entries[:n], first)
			drain()
		}); allocs != 0 {
			t.Errorf("%v allocations to deliver %d entries to 10 subscribers", allocs, n)
		}
	}
	if s := l.Stats(); s.Late != 0 {
		t.Errorf("%+v", s)
	}
}
