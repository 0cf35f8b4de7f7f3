package fanout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"dyno/hub/journal"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestDelivers: each subscriber gets its preamble, the history after its cursor, and new
// entries, of its topics only.
func TestDelivers(t *testing.T) {
	j := newJournal(t, 1000)
	for range 3 {
		add(t, j, "a", 0)
		add(t, j, "b", 0)
	}
	l := runs(t, Defaults(), j)
	fresh := subscribe(t, l, Subscriber{Group: "all", Cursor: 6}, false)
	again := subscribe(t, l, Subscriber{Group: "all", Cursor: 2, Preamble: []byte("event: gap\ndata: {\"from\":1}\n\n")}, false)
	onlyB := subscribe(t, l, Subscriber{Group: "b", Match: about("b")}, false)
	defer fresh.conn.Close()
	defer again.conn.Close()
	defer onlyB.conn.Close()
	again.beats = 0
	if ev, _ := again.next(t); ev.gap.From != 1 {
		t.Fatalf("got %+v, want the preamble", ev)
	}
	add(t, j, "a", 0)
	add(t, j, "b", 0)
	fresh.expect(t, 7, 8)
	again.expect(t, 3, 4, 5, 6, 7, 8)
	onlyB.expect(t, 2, 4, 6, 8)
	until(t, l, "all sent", func(s Stats) bool { return s.Deliveries == 2+6+4 })
	s := l.Stats()
	if s.Subscribers != 3 || s.Late != 0 || s.Gaps != 0 || s.Ended != [ends]int64{} {
		t.Errorf("%+v", s)
	}
	for _, c := range settled(t, l) {
		if c.Late || c.LagEvents != 0 || c.LagBytes != 0 {
			t.Errorf("%+v", c)
		}
	}
}

// steps runs a loop that has no goroutine.
func steps(t fatal, l *Loop, n int) {
	t.Helper()
	for range n {
		if _, err := l.step(false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHandOff: a subscriber gets every entry of its topics after its cursor, once and in order. Entries are appended,
// and sockets take them in pieces, at any time.
func TestHandOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const last = 100
		size := rapid.SampledFrom([]int{10, 500, 10_000}).Draw(t, "size")
		tiny := rapid.Bool().Draw(t, "tiny")
		c := Defaults()
		c.QueueEvents, c.QueueBytes = last, 1<<30
		if rapid.Bool().Draw(t, "batch") {
			c.BatchDelay = time.Millisecond
		}
		j := newJournal(t, 2*last)
		l := newLoop(t, c, j)
		var g sync.WaitGroup
		g.Go(func() {
			if err := l.Run(); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		topics := []string{"a", "b", "c"}
		order := rapid.SliceOfN(rapid.SampledFrom(topics), last-1, last-1).Draw(t, "order")
		var appending sync.WaitGroup
		appending.Go(func() {
			for _, topic := range order {
				add(t, j, topic, size)
			}
		})
		var reads []func()
		for range rapid.IntRange(1, 5).Draw(t, "subscribers") {
			topic := rapid.SampledFrom(topics).Draw(t, "topic")
			cursor := j.Head()
			if rapid.Bool().Draw(t, "history") {
				cursor /= 2
			}
			match := func(e *journal.Entry) bool { return e.Topics[0] == topic || e.Topics[0] == "end" }
			s := subscribe(t, l, Subscriber{Group: topic, Match: match, Cursor: cursor}, tiny)
			reads = append(reads, func() {
				defer s.conn.Close()
				for seq := cursor + 1; seq < last; seq++ {
					if order[seq-1] == topic {
						s.expect(t, seq)
					}
				}
				s.expect(t, last)
			})
		}
		appending.Wait()
		add(t, j, "end", 10)
		for _, read := range reads {
			read()
		}
		l.Close()
		g.Wait()
	})
}

// TestOutcomes tests each outcome, over any interleaving of appends, loop rounds and reads through small socket
// buffers. A subscriber must be able to rely on this: its numbers rise, and every missing entry lies in an announced
// gap. Gaps have the right counts, or an unknown one.
func TestOutcomes(t *testing.T) {
	for _, outcome := range []Outcome{DropOldest, Coalesce, Block} {
		t.Run(string(outcome), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkOutcome(t, outcome) })
		})
	}
}

func checkOutcome(t *rapid.T, outcome Outcome) {
	c := Defaults()
	c.Outcome = outcome
	c.QueueEvents = rapid.IntRange(1, 20).Draw(t, "queue")
	c.QueueBytes = rapid.SampledFrom([]int64{10_000, 1 << 20}).Draw(t, "bytes")
	held := rapid.SampledFrom([]int{5, 30, 10_000}).Draw(t, "history")
	j := newJournal(t, held)
	var appended []string // topics, by sequence number less one
	put := func(topic string, size int) {
		appended = append(appended, topic)
		add(t, j, topic, size)
	}
	source := &busy{Journal: j, publish: func() { put("other", 10) }}
	l := newLoop(t, c, source)
	s := subscribe(t, l, Subscriber{Match: func(e *journal.Entry) bool { return e.Topics[0] != "other" }}, true)
	defer s.conn.Close()
	var got []event
	t.Repeat(map[string]func(*rapid.T){
		"append": func(t *rapid.T) {
			for range rapid.IntRange(1, 10).Draw(t, "n") {
				put(rapid.SampledFrom([]string{"a", "b", "c", "other"}).Draw(t, "topic"), rapid.SampledFrom([]int{10, 3000, 15_000}).Draw(t, "size"))
			}
		},
		"step": func(*rapid.T) { steps(t, l, 1) },
		"turn": func(*rapid.T) { l.deliverNew() },
		"publish meanwhile": func(t *rapid.T) {
			source.updates = rapid.IntRange(1, 10).Draw(t, "n")
			steps(t, l, 1)
		},
		"read": func(t *rapid.T) {
			// Whatever has arrived, up to some bytes; events are put together at the end.
			control(t, s.conn, func(fd int) { s.pull(fd, rapid.IntRange(1, 50_000).Draw(t, "bytes")) })
			steps(t, l, 1)
		},
		"": func(t *rapid.T) {
			for _, cl := range l.clients.All() {
				w := cl.late
				if w == nil {
					continue
				}
				if w.cursor > l.seen || w.events < 0 || w.bytes < 0 {
					t.Fatalf("owed %d entries, %d bytes from %d, seen %d", w.events, w.bytes, w.cursor, l.seen)
				}
				if over := l.beyond(w); over && outcome == DropOldest || outcome == Block && over != w.crowds {
					t.Fatalf("owed %d entries, %d bytes: beyond the bounds", w.events, w.bytes)
				}
			}
			if l.over < 0 || l.over > 1 {
				t.Fatalf("%d beyond the bounds", l.over)
			}
		},
	})
	source.updates = 0
	steps(t, l, 3)
	put("end", 10)
	var g sync.WaitGroup
	g.Go(func() {
		if err := l.Run(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for last := uint64(len(appended)); ; {
		ev, ok := s.next(t)
		if !ok {
			t.Fatalf("the stream ended: %v", s.closed)
		}
		got = append(got, ev)
		if ev.seq == last {
			break
		}
	}
	until(t, l, "up to date", func(s Stats) bool { return s.Late == 0 })
	settled(t, l) // counts are complete at the end of a turn
	stats := l.Stats()
	l.Close()
	g.Wait()

	var gaps []journal.Gap
	have := map[uint64]bool{}
	known, unknown, before := 0, false, uint64(0)
	for _, ev := range got {
		if ev.seq == 0 {
			gaps = append(gaps, ev.gap)
			if ev.gap.Missed < 0 {
				unknown = true
			} else {
				known += ev.gap.Missed
			}
			if ev.gap.From <= before || ev.gap.To < ev.gap.From {
				t.Fatalf("after %d: gap %+v", before, ev.gap)
			}
			continue
		}
		if ev.seq <= before {
			t.Fatalf("event %d after %d", ev.seq, before)
		}
		before = ev.seq
		have[ev.seq] = true
	}
	missing := 0
	for i, topic := range appended {
		seq := uint64(i + 1)
		if topic == "other" {
			if have[seq] {
				t.Fatalf("event %d is for others", seq)
			}
			continue
		}
		if have[seq] {
			continue
		}
		missing++
		if !slices.ContainsFunc(gaps, func(g journal.Gap) bool { return g.From <= seq && seq <= g.To }) {
			t.Fatalf("event %d is missing, and no gap says so: %+v", seq, gaps)
		}
		if outcome == Coalesce && !unknown && !slices.Contains(appended[seq:], topic) {
			t.Fatalf("event %d is the last of its topic, and missing", seq)
		}
	}
	if !unknown && known != missing {
		t.Fatalf("%d are missing, but gaps say %d: %+v", missing, known, gaps)
	}
	if held == 10_000 && (unknown || outcome == Block && missing > 0) {
		t.Fatalf("%d missing, gaps %+v, though the journal has all", missing, gaps)
	}
	if stats.Deliveries != int64(len(have)) || stats.Gaps != int64(len(gaps)) {
		t.Fatalf("%+v, want %d deliveries, %d gaps", stats, len(have), len(gaps))
	}
	if !unknown && stats.Dropped+stats.Coalesced != int64(missing) {
		t.Fatalf("%+v, want %d left out", stats, missing)
	}
}

// A busy journal gets updates right after it was read, before it is read again.
type busy struct {
	*journal.Journal
	updates int // of the next reading
	publish func()
}

func (b *busy) Since(seq uint64, dst []*journal.Entry, limit int) ([]*journal.Entry, uint64) {
	entries, oldest := b.Journal.Since(seq, dst, limit)
	for ; b.updates > 0; b.updates-- {
		b.publish()
	}
	return entries, oldest
}

// pull reads what is there, up to n bytes, for next to find.
func (s *stream) pull(fd, n int) {
	buf := make([]byte, n)
	if got, err := unix.Read(fd, buf); err == nil && got > 0 {
		s.pulled = append(s.pulled, buf[:got]...)
	}
}

// TestDisconnect: a subscriber that does not read is reset; others lose nothing.
func TestDisconnect(t *testing.T) {
	c := Defaults()
	c.QueueEvents = 5
	j := newJournal(t, 1000)
	l := runs(t, c, j)
	stuck := subscribe(t, l, Subscriber{Owner: "stuck"}, false)
	other := subscribe(t, l, Subscriber{}, false)
	defer other.conn.Close()
	for n := uint64(1); l.Stats().Ended[Slow] == 0; n++ {
		if n > 900 {
			t.Fatalf("still there: %+v", settled(t, l))
		}
		add(t, j, "a", 200_000)
		other.expect(t, n)
	}
	got := stuck.rest(t)
	stuck.conn.Close()
	for i, ev := range got {
		if ev.seq != uint64(i+1) {
			t.Errorf("event %d is %+v", i, ev)
		}
	}
	if s := l.Stats(); s.Subscribers != 1 || s.Ended[Slow] != 1 {
		t.Errorf("%+v", s)
	}
}

// TestOneStalledOfMany: 1,000 get everything while one takes nothing.
func TestOneStalledOfMany(t *testing.T) {
	const many, events = 1000, 50
	c := Defaults()
	c.Outcome, c.QueueEvents = DropOldest, 3
	j := newJournal(t, 1000)
	l := runs(t, c, j)
	stuck := subscribe(t, l, Subscriber{Owner: "stuck"}, true)
	defer stuck.conn.Close()
	for n := uint64(1); l.Stats().Dropped == 0; n++ {
		add(t, j, "a", 5000)
		settled(t, l)
	}
	first := j.Head() + 1
	streams := make([]*stream, many)
	for i := range streams {
		streams[i] = subscribe(t, l, Subscriber{Cursor: j.Head()}, false)
		defer streams[i].conn.Close()
	}
	until(t, l, "all are there", func(s Stats) bool { return s.Subscribers == many+1 && s.Late == 1 })
	for range events {
		add(t, j, "a", 100)
	}
	for _, s := range streams {
		s.expect(t, numbers(first, first+events-1)...)
	}
	list := settled(t, l)
	if c := list[0]; c.Owner != "stuck" || !c.Late || c.LagEvents != 3 || c.LagBytes == 0 || list[1].Late {
		t.Errorf("%+v, %+v", c, list[1])
	}
	if one, err := l.Clients(t.Context(), 1); err != nil || len(one) != 1 || one[0].Owner != "stuck" {
		t.Errorf("%+v, %v", one, err)
	}
}

// TestGapAfterTrim: entries that the journal has dropped are announced, whether history
// was asked for or the subscriber was slow.
func TestGapAfterTrim(t *testing.T) {
	j := newJournal(t, 10)
	for range 25 {
		add(t, j, "a", 0)
	}
	l := runs(t, Defaults(), j)
	s := subscribe(t, l, Subscriber{Cursor: 5}, false)
	defer s.conn.Close()
	if ev, _ := s.next(t); ev.gap != (journal.Gap{From: 6, To: 15, Missed: -1}) {
		t.Fatalf("got %+v, want the gap", ev)
	}
	s.expect(t, numbers(16, 25)...)
	add(t, j, "a", 0)
	s.expect(t, 26)
	// Entries that nobody has seen are gone.
	j.Break()
	if ev, _ := s.next(t); ev.gap != (journal.Gap{From: 27, To: 27, Missed: -1}) {
		t.Fatalf("got %+v, want the gap", ev)
	}
	add(t, j, "a", 0)
	s.expect(t, 28)
}

// TestCursorBeyondHead: a cursor from the future begins with the next new entry.
func TestCursorBeyondHead(t *testing.T) {
	j := newJournal(t, 10)
	l := runs(t, Defaults(), j)
	s := subscribe(t, l, Subscriber{Cursor: 100}, false)
	defer s.conn.Close()
	until(t, l, "taken over", func(s Stats) bool { return s.Subscribers == 1 && s.Late == 0 })
	add(t, j, "a", 0)
	s.expect(t, 1)
}

// TestHeartbeats: by the clock's ticks, silence is never longer than the period, and busy subscribers get no
// heartbeat. Subscribers that fell silent together are not all served in one tick.
func TestHeartbeats(t *testing.T) {
	const many = 64
	c := Defaults()
	c.Heartbeat, c.WriteTimeout = time.Minute, 0
	j := newJournal(t, 10)
	l := newLoop(t, c, j)
	defer l.Close()
	if err := l.poll.Tick(0); err != nil { // only the test ticks
		t.Fatal(err)
	}
	for range many {
		s := subscribe(t, l, Subscriber{}, false)
		defer s.conn.Close()
	}
	steps(t, l, 3)
	period := l.clock.beat
	if l.Stats().Late != 0 || period < 16 {
		t.Fatalf("%+v, %d ticks", l.Stats(), period)
	}
	// Busy: an entry every half period.
	for range 4 {
		for range period / 2 {
			l.onTick()
		}
		add(t, j, "a", 0)
		l.deliverNew()
	}
	if n := l.Stats().Heartbeats; n != 0 {
		t.Fatalf("%d heartbeats for busy connections", n)
	}
	most, before := int64(0), int64(0)
	for tick := range 10 * period {
		l.onTick()
		n := l.Stats().Heartbeats
		most, before = max(most, n-before), n
		for _, c := range l.clients.All() {
			if quiet := int(l.ticks - c.wrote); quiet >= period {
				t.Fatalf("tick %d: silent for %d of %d", tick, quiet, period)
			}
		}
	}
	if n := l.Stats().Heartbeats; n < 9*many || n > 14*many {
		t.Errorf("%d heartbeats for %d silent connections in 10 periods", n, many)
	}
	if most > many/4 {
		t.Errorf("%d of %d heartbeats in one tick", most, many)
	}
}

// TestWriteTimeout: the loop ends a connection that takes nothing in time, and not
// before.
func TestWriteTimeout(t *testing.T) {
	c := Defaults()
	c.Outcome, c.WriteTimeout, c.Heartbeat = DropOldest, time.Minute, 0
	j := newJournal(t, 1000)
	l := newLoop(t, c, j)
	defer l.Close()
	if err := l.poll.Tick(0); err != nil {
		t.Fatal(err)
	}
	stuck := subscribe(t, l, Subscriber{}, true)
	fine := subscribe(t, l, Subscriber{}, false)
	defer stuck.conn.Close()
	defer fine.conn.Close()
	for n := uint64(1); l.Stats().Short == 0; n++ {
		add(t, j, "a", 5000)
		l.deliverNew()
		steps(t, l, 2)
		fine.expect(t, n)
	}
	for range l.clock.stall - 1 {
		l.onTick()
	}
	if s := l.Stats(); s.Ended[Stalled] != 0 {
		t.Fatalf("%+v", s)
	}
	for range l.clock.every + 1 {
		l.onTick()
	}
	if s := l.Stats(); s.Ended[Stalled] != 1 || s.Subscribers != 1 || s.Late != 0 || s.Heartbeats != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestRefused: a descriptor that epoll does not take, such as a regular file, is closed.
func TestRefused(t *testing.T) {
	l := runs(t, Defaults(), newJournal(t, 10))
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(t.Context(), fd, Subscriber{Match: all}); err != nil {
		t.Fatal(err)
	}
	until(t, l, "refusal", func(s Stats) bool { return s.Ended[Refused] == 1 && s.Subscribers == 0 && s.Late == 0 })
}

// TestDrainStaggers: the share of subscribers that have left is the share of time that
// has passed.
func TestDrainStaggers(t *testing.T) {
	l := newLoop(t, Defaults(), newJournal(t, 10))
	defer l.Close()
	for range 50 {
		s := subscribe(t, l, Subscriber{}, false)
		defer s.conn.Close()
	}
	steps(t, l, 3)
	if err := l.leave(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Ended[Drained]; n != 1 {
		t.Errorf("%d left at once, with an hour for 50", n)
	}
	l.leaving.until = time.Now().Add(time.Hour / 2)
	l.depart()
	if n := l.Stats().Ended[Drained]; n != 25 && n != 26 { // half of the time is a moment off
		t.Errorf("%d of 50 left after half the time", n)
	}
	l.leaving.until = time.Now()
	l.depart()
	if n := l.Stats().Ended[Drained]; n != 50 {
		t.Errorf("%d left when time was over", n)
	}
}

// TestDrainDelivers: entries from before the end are delivered, and late subscribers may
// catch up after the others have left.
func TestDrainDelivers(t *testing.T) {
	c := Defaults()
	c.Outcome = DropOldest
	j := newJournal(t, 1000)
	l := newLoop(t, c, j)
	slow := subscribe(t, l, Subscriber{}, true)
	steps(t, l, 2)
	n := uint64(0)
	for l.Stats().Short == 0 {
		n++
		add(t, j, "a", 5000)
		l.deliverNew()
	}
	quick := subscribe(t, l, Subscriber{Cursor: n}, false)
	steps(t, l, 3)
	add(t, j, "a", 0) // which the loop does not know yet
	if err := l.leave(time.Now()); err != nil {
		t.Fatal(err)
	}
	quick.expect(t, n+1)
	quick.end(t, false)
	if s := l.Stats(); s.Ended[Drained] != 1 || s.Subscribers != 1 {
		t.Errorf("%+v", s)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	slow.expect(t, numbers(1, n+1)...)
	slow.end(t, false)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := l.Stats(); s.Ended[Drained] != 2 {
		t.Errorf("%+v", s)
	}
}

// TestClose: everything is refused afterwards, also before Run and twice.
func TestClose(t *testing.T) {
	l := newLoop(t, Defaults(), newJournal(t, 10))
	waiting := subscribe(t, l, Subscriber{}, false)
	l.Close()
	l.Close()
	waiting.end(t, true)
	if err := l.Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("Run after Close: %v", err)
	}
	if _, err := l.Clients(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Clients: %v", err)
	}
	fd, peer := connect(t, false)
	defer peer.Close()
	if err := l.Add(t.Context(), fd, Subscriber{Match: all}); !errors.Is(err, ErrClosed) {
		t.Errorf("Add: %v", err)
	}
	_ = unix.Close(fd)
	if cut := l.Drain(t.Context(), 0); cut != 1 {
		t.Errorf("%d cut", cut)
	}
}

// TestArrivalsAreBounded: Add waits for a place, as long as its context lets it.
func TestArrivalsAreBounded(t *testing.T) {
	c := Defaults()
	c.Arrivals = 1
	l := newLoop(t, c, newJournal(t, 10))
	first := subscribe(t, l, Subscriber{}, false)
	defer first.conn.Close()
	fd, peer := connect(t, false)
	defer peer.Close()
	why := errors.New("out of patience")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if err := l.Add(ctx, fd, Subscriber{Match: all}); !errors.Is(err, why) {
		t.Errorf("Add without a place: %v", err)
	}
	added := make(chan error)
	go func() { added <- l.Add(t.Context(), fd, Subscriber{Match: all}) }()
	steps(t, l, 1)
	if err := <-added; err != nil {
		t.Error(err)
	}
	l.Close()
}

// TestManyArrivals: more than one turn takes.
func TestManyArrivals(t *testing.T) {
	l := newLoop(t, Defaults(), newJournal(t, 10))
	for range batchArrivals + 10 {
		s := subscribe(t, l, Subscriber{}, false)
		defer s.conn.Close()
	}
	steps(t, l, 1)
	if n := l.Stats().Subscribers; n != batchArrivals {
		t.Errorf("%d in one turn", n)
	}
	if done, err := l.step(true); done || err != nil {
		t.Error(done, err)
	}
	if n := l.Stats().Subscribers; n != batchArrivals+10 {
		t.Errorf("%d in two turns", n)
	}
	l.Close()
}

// TestAdmit: with Block, publishers wait for the slowest; else they never do.
func TestAdmit(t *testing.T) {
	c := Defaults()
	c.Outcome, c.QueueEvents = Block, 3
	j := newJournal(t, 10_000)
	l := runs(t, c, j)
	s := subscribe(t, l, Subscriber{}, true)
	why := errors.New("no longer")
	stopped, stop := context.WithCancelCause(t.Context())
	stop(why)
	n := uint64(0)
	for l.Admit(stopped) == nil {
		n++
		add(t, j, "a", 5000)
		settled(t, l)
	}
	if err := l.Admit(stopped); !errors.Is(err, why) {
		t.Errorf("Admit: %v", err)
	}
	admitted := make(chan error)
	go func() { admitted <- l.Admit(t.Context()) }()
	s.expect(t, numbers(1, n)...)
	if err := <-admitted; err != nil {
		t.Error(err)
	}
	// A subscriber that hangs up does not hold up anybody.
	for l.Admit(stopped) == nil {
		add(t, j, "a", 5000)
		settled(t, l)
	}
	go func() { admitted <- l.Admit(t.Context()) }()
	s.conn.Close()
	if err := <-admitted; err != nil {
		t.Error(err)
	}
	s = subscribe(t, l, Subscriber{Cursor: j.Head()}, true)
	defer s.conn.Close()
	for l.Admit(stopped) == nil {
		add(t, j, "a", 5000)
		settled(t, l)
	}
	go func() { admitted <- l.Admit(t.Context()) }()
	l.Close()
	if err := <-admitted; err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := newClosed(t).Admit(stopped); err != nil {
		t.Errorf("Admit with another outcome: %v", err)
	}
}

func newClosed(t *testing.T) *Loop {
	l := newLoop(t, Defaults(), newJournal(t, 10))
	l.Close()
	return l
}
