package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dyno/hub/journal"
	"dyno/internal/loop"
)

// The bounds of what the loop does before it looks at everything else again.
const (
	batchEntries  = 256      // entries read from the journal at once
	batchBytes    = 64 << 10 // bytes of one send call, beyond the first frame
	batchLate     = 256      // late subscribers served
	batchArrivals = 256      // new subscribers
)

// ErrClosed is returned by Add, Admit, Clients and Run after the loop has stopped accepting calls.
var ErrClosed = errors.New("the event loop is closed")

// A Loop is one event loop. Run is its goroutine; all other methods may be called from
// any goroutine.
type Loop struct {
	cfg    Config
	source Source
	poll   *loop.Poller
	counts counters

	// The following fields belong to Run's goroutine.
	clients loop.Slab[client]
	groups  map[string]*group
	order   []*group
	seen    uint64 // every subscriber that is not late has everything up to here
	waiting []uint64
	spare   []uint64
	ticks   uint32
	clock   clock
	leaving leaving
	more    bool // some arrivals are left for the next round
	over    int  // late subscribers beyond the bounds, with Block
	entries []*journal.Entry
	passing []*journal.Entry // a second buffer, because entries may be in use
	parts   []part
	buffer  []byte
	scratch []byte

	heartbeat []byte

	grown   atomic.Bool // the journal has grown since this was last false
	noted   atomic.Bool // the loop has been notified, or will be
	passed  atomic.Uint64
	crowded atomic.Bool
	stopped chan struct{} // closed just before Run returns

	places chan struct{} // one for each arrival; Add takes it and the loop gives it back

	// mu guards the following fields. It is held only briefly, and never while waiting.
	mu       sync.Mutex
	arrivals []arrival
	asked    []question
	shed     bool          // Shed was called
	drain    time.Time     // when every subscriber is to be disconnected; zero if Drain was not called
	kill     bool          // Close was called, or Drain's time is over
	closed   bool          // no arrivals and questions are accepted
	gone     bool          // the poller is closed: do not wake it
	gate     chan struct{} // closed and replaced when Admit should check again
	batch    *time.Timer   // wakes the loop after BatchDelay; nil without one
	running  bool
}

type arrival struct {
	fd int
	s  Subscriber
}

type question struct {
	limit  int
	answer chan []Client // has room for one, so that the loop never waits
}

// New returns a loop; the caller must then call Run.
func New(c Config, source Source) (*Loop, error) {
	poll, err := loop.NewPoller()
	if err != nil {
		return nil, fmt.Errorf("event loop: %w", err)
	}
	l := &Loop{
		cfg: c, source: source, poll: poll, clock: newClock(c),
		groups: map[string]*group{}, seen: source.Head(),
		scratch: make([]byte, 4<<10), heartbeat: []byte(journal.Heartbeat),
		entries: make([]*journal.Entry, 0, batchEntries), passing: make([]*journal.Entry, 0, batchEntries),
		places: make(chan struct{}, c.Arrivals), gate: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	l.passed.Store(l.seen)
	if err := poll.Tick(l.clock.tick); err != nil {
		poll.Close()
		return nil, fmt.Errorf("event loop: %w", err)
	}
	if c.BatchDelay > 0 {
		l.batch = time.AfterFunc(time.Hour, l.look)
		l.batch.Stop()
	}
	return l, nil
}

// Run delivers until Close, or until Drain has finished. Then it returns nil. It returns
// ErrClosed if Close came first. On any other error it resets the connections. It is
// called once.
func (l *Loop) Run() error {
	l.mu.Lock()
	twice, late := l.running, l.kill
	l.running = true
	l.mu.Unlock()
	switch {
	case late && twice:
		return ErrClosed
	case twice:
		return errors.New("event loop: run twice")
	}
	defer close(l.stopped)
	stop := l.source.Notify(l.notified)
	defer stop()
	l.grown.Store(true) // entries that came before Notify
	err := l.run()
	l.end()
	if err != nil {
		return fmt.Errorf("event loop: %w", err)
	}
	return nil
}

func (l *Loop) run() error {
	for {
		if done, err := l.step(true); done || err != nil {
			return err
		}
	}
}

// step is one round of the loop. It reports whether it was the last. With wait it sleeps
// until there is something to do.
func (l *Loop) step(wait bool) (done bool, err error) {
	var n int
	if wait && len(l.waiting) == 0 && !l.grown.Load() {
		n, err = l.poll.Park()
	} else {
		n, err = l.poll.Wait(false)
	}
	for i := 0; i < n && !done && err == nil; i++ {
		switch key, bits := l.poll.Event(i); key {
		case loop.KeyWake:
			done, err = l.obey()
		case loop.KeyTick:
			l.onTick()
		default:
			l.ready(key, bits)
		}
	}
	if done || err != nil {
		return done, err
	}
	if l.grown.Load() {
		l.deliverNew()
	}
	l.catchUp()
	l.open()
	return l.leaving.on && l.clients.Len() == 0 && !l.more, nil
}

// end releases everything.
func (l *Loop) end() {
	l.mu.Lock()
	l.closed, l.gone = true, true
	arrivals, asked := l.arrivals, l.asked
	l.arrivals, l.asked = nil, nil
	if l.batch != nil {
		l.batch.Stop()
	}
	l.poll.Close()
	l.mu.Unlock()
	for _, q := range asked {
		close(q.answer)
	}
	for _, a := range arrivals {
		loop.Reset(a.fd)
		l.ended(a.s.Owner, Cut)
		<-l.places
	}
	for _, c := range l.clients.All() {
		l.drop(c, Cut)
	}
}

// notified is called by the journal. It makes a system call only if the loop has not been
// notified yet.
func (l *Loop) notified() {
	if l.noted.Swap(true) {
		return
	}
	if l.cfg.BatchDelay == 0 {
		l.look()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.batch.Reset(l.cfg.BatchDelay)
	}
}

// look makes the loop read the journal.
func (l *Loop) look() {
	l.grown.Store(true)
	l.wake()
}

func (l *Loop) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.poll.Wake()
	}
}

// Add gives the loop a connection: a stream socket that nothing else reads or writes any
// more. On success the loop closes fd when it is done. On an error fd still belongs to
// the caller. If Config.Arrivals connections wait already, Add waits until ctx ends.
func (l *Loop) Add(ctx context.Context, fd int, s Subscriber) error {
	select {
	case l.places <- struct{}{}:
	case <-l.stopped:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("the event loop has %d subscribers to take over: %w", l.cfg.Arrivals, context.Cause(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.drain.IsZero() {
		<-l.places
		return ErrClosed
	}
	l.arrivals = append(l.arrivals, arrival{fd, s})
	if len(l.arrivals) == 1 {
		l.poll.Wake()
	}
	return nil
}

// Admit does nothing unless the outcome is Block. Then it waits until all subscribers are within the bounds, and the
// loop is at most QueueEvents behind the journal. Publishers call it before they append. It fails if ctx ends first,
// and with ErrClosed.
func (l *Loop) Admit(ctx context.Context) error {
	for l.cfg.Outcome == Block {
		l.mu.Lock()
		gate := l.gate
		l.mu.Unlock()
		// The order matters: a change after the check closes the gate that was taken
		// before it.
		if !l.full() {
			return nil
		}
		select {
		case <-gate:
		case <-l.stopped:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("wait for the slowest subscriber: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Shed does nothing unless the outcome is Block. Then it disconnects the subscribers for
// which Admit waits.
func (l *Loop) Shed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.shed = true
		l.poll.Wake()
	}
}

func (l *Loop) shedFull() {
	for _, c := range l.clients.All() {
		if c.late != nil && c.late.crowds {
			l.drop(c, Slow)
		}
	}
}

func (l *Loop) full() bool {
	return l.crowded.Load() || l.source.Head()-l.passed.Load() > uint64(l.cfg.QueueEvents)
}

// open makes the callers of Admit check again.
func (l *Loop) open() {
	if l.cfg.Outcome != Block {
		return
	}
	moved := l.passed.Swap(l.seen) != l.seen
	if l.crowded.Swap(l.over > 0) == (l.over > 0) && !moved {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.gate)
	l.gate = make(chan struct{})
}

// Drain accepts no new subscribers. It disconnects the existing ones one by one, over the given time, so that they do
// not reconnect at once. Late ones may catch up first, and are reset when ctx ends; cut is the number of these. It is
// called once.
func (l *Loop) Drain(ctx context.Context, over time.Duration) (cut int) {
	l.mu.Lock()
	l.drain = time.Now().Add(over)
	if !l.gone {
		l.poll.Wake()
	}
	l.mu.Unlock()
	select {
	case <-l.stopped:
	case <-ctx.Done():
		l.Close()
	}
	return int(l.counts.ended[Cut].Load())
}

// Close resets all connections. If Run was called, Close ends it and waits for it.
func (l *Loop) Close() {
	l.mu.Lock()
	l.kill = true
	if !l.gone {
		l.poll.Wake()
	}
	running := l.running
	if !running {
		l.running = true // it never will run
	}
	l.mu.Unlock()
	if !running {
		l.end()
		close(l.stopped)
	}
	<-l.stopped
}

// Stats returns counts. Each is exact by itself.
func (l *Loop) Stats() Stats { return l.counts.read() }

// Clients lists up to limit subscribers with the most pending entries, in descending order.
func (l *Loop) Clients(ctx context.Context, limit int) ([]Client, error) {
	q := question{limit, make(chan []Client, 1)}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.asked = append(l.asked, q)
	l.poll.Wake()
	l.mu.Unlock()
	select {
	case answer, ok := <-q.answer:
		if !ok {
			return nil, ErrClosed
		}
		return answer, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("list clients: %w", context.Cause(ctx))
	}
}

// obey carries out the requests of other goroutines, and reports whether to end.
func (l *Loop) obey() (done bool, err error) {
	l.mu.Lock()
	arrivals := l.arrivals
	if len(arrivals) > batchArrivals {
		arrivals = arrivals[:batchArrivals]
		l.poll.Wake() // for the remaining arrivals
	}
	l.arrivals = l.arrivals[len(arrivals):]
	l.more = len(l.arrivals) > 0
	asked := l.asked
	l.asked = nil
	drain, kill, shed := l.drain, l.kill, l.shed
	l.shed = false
	l.mu.Unlock()
	if shed {
		l.shedFull()
	}
	if kill {
		for _, a := range arrivals {
			loop.Reset(a.fd)
			l.ended(a.s.Owner, Cut)
			<-l.places
		}
	}
	for _, q := range asked {
		q.answer <- l.list(q.limit)
	}
	if kill {
		return true, nil
	}
	for _, a := range arrivals {
		l.adopt(a)
		<-l.places
	}
	if !drain.IsZero() && !l.leaving.on {
		err = l.leave(drain)
	}
	return false, err
}

// list makes the list of clients.
func (l *Loop) list(limit int) []Client {
	type entry struct {
		c   *client
		lag int64
	}
	all := make([]entry, 0, l.clients.Len())
	for _, c := range l.clients.All() {
		e := entry{c, 0}
		if c.late != nil {
			e.lag = 1 + c.late.bytes + int64(len(c.late.rest))
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return int(min(max(b.lag-a.lag, -1), 1)) })
	list := make([]Client, 0, min(max(limit, 0), len(all)))
	for _, e := range all[:cap(list)] {
		row := Client{Owner: e.c.owner}
		if w := e.c.late; w != nil {
			row.Late, row.LagEvents, row.LagBytes = true, w.events, w.bytes+int64(len(w.rest))
		}
		list = append(list, row)
	}
	return list
}

// counters hold Stats while counting.
type counters struct {
	subscribers, late                        atomic.Int64
	deliveries, writes, bytes, short, rounds atomic.Int64
	heartbeats, gaps, dropped, coalesced     atomic.Int64
	ended                                    [ends]atomic.Int64
}

func (c *counters) read() Stats {
	s := Stats{
		Subscribers: c.subscribers.Load(), Late: c.late.Load(),
		Deliveries: c.deliveries.Load(), Writes: c.writes.Load(), Bytes: c.bytes.Load(),
		Short: c.short.Load(), Rounds: c.rounds.Load(), Heartbeats: c.heartbeats.Load(),
		Gaps: c.gaps.Load(), Dropped: c.dropped.Load(), Coalesced: c.coalesced.Load(),
	}
	for i := range s.Ended {
		s.Ended[i] = c.ended[i].Load()
	}
	return s
}
