package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrFull says that as much waits to be written as may.
var ErrFull = errors.New("as much waits to be written as may")

// ErrClosed says that nothing is written any more.
var ErrClosed = errors.New("closed")

// BatchConfig bounds a Batcher.
type BatchConfig struct {
	// Most is how many records are written at once, Pending how many may wait in all. A
	// record beyond that is not taken.
	Most, Pending int
	// Gather is how long records for which nobody waits may wait for others to be written
	// with them; 0 is not at all.
	Gather time.Duration
	// Timeout bounds one write: a connection that is stuck is given up.
	Timeout time.Duration
	// Pause is the time between two tries of a write that failed, doubled up to 32 times.
	Pause  time.Duration
	Logger *slog.Logger // nil discards
}

// BatchDefaults returns what every field starts from.
func BatchDefaults() BatchConfig {
	return BatchConfig{Most: 512, Pending: 64 << 10, Gather: 10 * time.Millisecond, Timeout: 3 * time.Second, Pause: 50 * time.Millisecond}
}

// Validate says what would be right.
func (c BatchConfig) Validate() error {
	if c.Most < 1 || c.Pending < c.Most || c.Gather < 0 || c.Timeout <= 0 || c.Pause <= 0 {
		return fmt.Errorf("batches: most %d, pending %d, gather %v, timeout %v, pause %v: want most from 1 to pending, gather not negative, timeout and pause above 0", c.Most, c.Pending, c.Gather, c.Timeout, c.Pause)
	}
	return nil
}

// A Batcher writes records to an archive, those that came during one write with the
// next, and goes on trying while the archive is away. Its methods may be called from any
// goroutine.
type Batcher struct {
	cfg     BatchConfig
	archive Archive
	log     *slog.Logger
	wake    chan struct{} // holds one
	ctx     context.Context
	stop    context.CancelFunc
	writer  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	queue   []*pending
	taken   int // in the writer's hands
	awaited int // of the queue: somebody waits for it
	dropped int // of the queue, about: nobody waits for it any more
	hurry   int // who waits for all of it
	closed  bool
	failing bool // the last write failed
	changed chan struct{}
	written uint64
	batches uint64
	lost    uint64
}

type pending struct {
	Record
	done    chan error // has room for one; nil if nobody waits
	expired <-chan struct{}
	taken   bool // it is in the writer's hands, or was written
}

// NewBatcher starts writing.
func NewBatcher(a Archive, c BatchConfig) (*Batcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Batcher{cfg: c, archive: a, log: c.Logger, wake: make(chan struct{}, 1), changed: make(chan struct{})}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.writer.Go(b.run)
	return b, nil
}

// Write writes a record and waits until it is kept. When ctx ends before, it is not
// known whether it will be; nobody tries any longer than the write under way.
func (b *Batcher) Write(ctx context.Context, r Record) error {
	p := &pending{Record: r, done: make(chan error, 1), expired: ctx.Done()}
	if err := b.add(p); err != nil {
		return err
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		b.drop(p)
		return ctx.Err()
	}
}

// drop forgets a record for which nobody waits any more, unless it is being written. In an outage the queue is not
// gone through to its end: what was dropped would stay in it, so it is swept once that is half of it.
func (b *Batcher) drop(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.taken {
		return
	}
	p.Record = Record{}
	if b.dropped++; 2*b.dropped < len(b.queue) {
		return
	}
	b.queue = slices.DeleteFunc(b.queue, func(p *pending) bool { return !p.wanted() })
	b.dropped = 0
	b.count()
	b.settled()
}

// Later writes a record some time soon: it is tried until it is kept, or the Batcher is
// closed.
func (b *Batcher) Later(r Record) error { return b.add(&pending{Record: r}) }

func (b *Batcher) add(p *pending) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case len(b.queue)+b.taken >= b.cfg.Pending:
		return ErrFull
	}
	b.queue = append(b.queue, p)
	if p.done != nil {
		b.awaited++
	}
	// The writer knows of the others.
	if p.done != nil || len(b.queue) == 1 || len(b.queue) == b.cfg.Most {
		b.rouse()
	}
	return nil
}

// rouse has the writer look at the queue.
func (b *Batcher) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// BatchState is what a Batcher has done, and has still to do.
type BatchState struct {
	Pending          int
	Written, Batches uint64
	Lost             uint64 // given up when it was closed
	Failing          bool
}

// State reads it.
func (b *Batcher) State() BatchState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BatchState{len(b.queue) + b.taken, b.written, b.batches, b.lost, b.failing}
}

// Full tells whether a record would be refused now.
func (b *Batcher) Full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)+b.taken >= b.cfg.Pending
}

// Flush waits until nothing is left to write, or ctx ends.
func (b *Batcher) Flush(ctx context.Context) error {
	b.mu.Lock()
	b.hurry++
	b.mu.Unlock()
	b.rouse()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.hurry--
	}()
	for {
		b.mu.Lock()
		left, changed := len(b.queue)+b.taken, b.changed
		b.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d records not written: %w", left, ctx.Err())
		}
	}
}

// Close takes no more records, writes what there is until ctx ends, and returns how many
// are lost. It does not close the archive.
func (b *Batcher) Close(ctx context.Context) (lost int) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	_ = b.Flush(ctx) // what is left is counted
	b.stop()
	b.writer.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	lost = len(b.queue)
	for _, p := range b.queue {
		p.tell(ErrClosed)
	}
	b.queue = nil
	b.lost += uint64(lost) //nolint:gosec // a length
	return lost
}

func (p *pending) tell(err error) {
	if p.done != nil {
		p.done <- err
	}
}

// wanted tells whether somebody still waits for it, or nobody has to.
func (p *pending) wanted() bool {
	select {
	case <-p.expired:
		return false
	default:
		return true
	}
}

// take returns the next batch, without what nobody waits for any more.
func (b *Batcher) take() []*pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*pending
	i := 0
	for ; i < len(b.queue) && len(batch) < b.cfg.Most; i++ {
		if p := b.queue[i]; p.wanted() {
			p.taken = true
			batch = append(batch, p)
		} else {
			b.dropped = max(0, b.dropped-1)
		}
	}
	left := copy(b.queue, b.queue[i:])
	clear(b.queue[left:]) // what has been taken is not held on to
	b.queue = b.queue[:left]
	b.taken = len(batch)
	b.count()
	if len(batch) == 0 {
		b.settled()
	}
	return batch
}

// count counts those of the queue that somebody waits for. The caller holds mu.
func (b *Batcher) count() {
	b.awaited = 0
	for _, p := range b.queue {
		if p.done != nil {
			b.awaited++
		}
	}
}

// patient tells whether what is there can wait for more.
func (b *Batcher) patient() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && b.hurry == 0 && b.awaited == 0 && len(b.queue) > 0 && len(b.queue) < b.cfg.Most
}

// gather waits for further records while nobody waits for those that there are: what a write
// costs is then that of many.
func (b *Batcher) gather() {
	if b.cfg.Gather == 0 || !b.patient() {
		return
	}
	t := time.NewTimer(b.cfg.Gather)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return
		case <-b.ctx.Done():
			return
		case <-b.wake:
			if !b.patient() {
				return
			}
		}
	}
}

// mostLets bounds letCome.
const mostLets = 8

// letCome lets goroutines run that are ready to, as long as they bring more records. Without it, who brings one
// is followed by the writer at once where there is one CPU, and each write is of one record. Where nobody is ready it
// takes no time.
func (b *Batcher) letCome() {
	for range mostLets {
		before := b.waiting()
		if before == 0 || before >= b.cfg.Most {
			return
		}
		runtime.Gosched()
		if b.waiting() == before {
			return
		}
	}
}

// waiting is how many records wait to be written.
func (b *Batcher) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// settled wakes those that wait for an end. The caller holds mu.
func (b *Batcher) settled() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Batcher) run() {
	pause := b.cfg.Pause
	for {
		select {
		case <-b.wake:
		case <-b.ctx.Done():
			return
		}
		for {
			b.gather()
			b.letCome()
			batch := b.take()
			if len(batch) == 0 {
				break
			}
			if b.write(batch) {
				pause = b.cfg.Pause
				continue
			}
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-b.ctx.Done():
				t.Stop()
				return
			}
			pause = min(2*pause, 32*b.cfg.Pause)
		}
	}
}

// write writes a batch, or puts it back.
func (b *Batcher) write(batch []*pending) bool {
	records := make([]Record, len(batch))
	for i, p := range batch {
		records[i] = p.Record
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.cfg.Timeout)
	each, err := b.archive.Write(ctx, records)
	cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = 0
	if b.failing != (err != nil) {
		b.failing = err != nil
		if b.failing {
			b.log.Warn("the archive does not keep anything at the moment", "error", err, "waiting", len(batch)+len(b.queue))
		} else {
			b.log.Info("the archive keeps things again")
		}
	}
	if err != nil {
		for _, p := range batch {
			p.taken = false
		}
		b.queue = append(batch[:len(batch):len(batch)], b.queue...)
		b.count()
		return false
	}
	for i, p := range batch {
		p.tell(each[i])
	}
	b.written += uint64(len(batch)) //nolint:gosec // a length
	b.batches++
	b.settled()
	return true
}
