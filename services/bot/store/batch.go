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

// ErrFull says that too many records wait to be written.
var ErrFull = errors.New("as much waits to be written as may")

// ErrClosed says that the Batcher is closed.
var ErrClosed = errors.New("closed")

// BatchConfig bounds a Batcher.
type BatchConfig struct {
	// Most bounds the records of one write, and Pending all that wait. Further records are refused.
	Most, Pending int
	// Gather is how long unawaited records wait for others, to be written with them; 0 is not at all. It does not
	// delay awaited records.
	Gather time.Duration
	// Timeout bounds one write: a stuck connection is closed.
	Timeout time.Duration
	// Pause is the time between two tries of a write that failed, doubled up to 32 times.
	Pause  time.Duration
	Logger *slog.Logger // nil discards
}

// BatchDefaults returns the BatchConfig that every field starts from.
func BatchDefaults() BatchConfig {
	return BatchConfig{Most: 512, Pending: 64 << 10, Gather: 10 * time.Millisecond, Timeout: 3 * time.Second, Pause: 50 * time.Millisecond}
}

// A Batcher writes records to an archive, in batches: those that arrive during one write are in the next. It retries
// while the archive is away. Its methods may be called from any goroutine.
type Batcher struct {
	cfg     BatchConfig
	archive Archive
	log     *slog.Logger
	wake    chan struct{} // capacity 1
	ctx     context.Context
	stop    context.CancelFunc
	writer  sync.WaitGroup

	mu           sync.Mutex     // guards what follows
	awaited      []*pending     // records with a waiting caller
	later        []*pending     // records without one
	keys         map[string]int // unawaited entries by key, with those being written
	since        time.Time      // arrival of the first of later; zero is long ago
	taken        int            // being written
	dropped      int            // about how many of awaited have no waiting caller any more
	fairnessBit  int            // alternates: which kind of record gets the last place of a batch
	flushWaiters int            // callers of Flush
	closed       bool
	failing      bool // the last write failed
	changed      chan struct{}
	written      uint64
	batches      uint64
}

type pending struct {
	Record
	done    chan error      // has room for one; nil if nobody waits
	expired <-chan struct{} // nil if nobody waits
	taken   bool            // it is being written, or was
}

// NewBatcher starts writing.
func NewBatcher(a Archive, c BatchConfig) *Batcher {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Batcher{cfg: c, archive: a, log: c.Logger, wake: make(chan struct{}, 1), changed: make(chan struct{}), keys: map[string]int{}}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.writer.Go(b.run)
	return b
}

// Write writes a record and waits until it is kept. If ctx ends before, the outcome is unknown; the record is in no
// later write than the present one.
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

// drop forgets a record without a waiting caller, unless it is being written. In an outage dropped records would stay
// in the queue, so it is swept once they are half of it.
func (b *Batcher) drop(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.taken {
		return
	}
	p.Record = Record{}
	if b.dropped++; 2*b.dropped < len(b.awaited) {
		return
	}
	b.sweep()
	b.settled()
}

// sweep removes records without a waiting caller. The caller holds mu.
func (b *Batcher) sweep() {
	b.awaited = slices.DeleteFunc(b.awaited, func(p *pending) bool { return !p.wanted() })
	b.dropped = 0
}

// Later writes a record soon. It retries until the record is kept, or the Batcher is closed.
func (b *Batcher) Later(r Record) error { return b.add(&pending{Record: r}) }

func (b *Batcher) add(p *pending) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case b.held() >= b.cfg.Pending:
		return ErrFull
	}
	if p.done != nil {
		b.awaited = append(b.awaited, p)
		b.wakeWriter()
		return nil
	}
	if p.Entry != nil {
		b.keys[p.Entry.Key]++
	}
	if b.later = append(b.later, p); len(b.later) == 1 {
		b.since = time.Now()
	}
	if n := len(b.later); n == 1 || n == b.cfg.Most { // the writer knows the others already
		b.wakeWriter()
	}
	return nil
}

// held returns how many records are not written. The caller holds mu.
func (b *Batcher) held() int { return len(b.awaited) + len(b.later) + b.taken }

// wakeWriter makes the writer look at the queue.
func (b *Batcher) wakeWriter() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// BatchState is the state of a Batcher.
type BatchState struct {
	Pending          int
	Written, Batches uint64
	Failing          bool
}

// State reads it.
func (b *Batcher) State() BatchState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BatchState{b.held(), b.written, b.batches, b.failing}
}

// PendingOf returns how many unawaited entries of a key are not written yet.
func (b *Batcher) PendingOf(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keys[key]
}

// Flush waits until everything is written, or ctx ends.
func (b *Batcher) Flush(ctx context.Context) error {
	b.mu.Lock()
	b.flushWaiters++
	b.mu.Unlock()
	b.wakeWriter()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.flushWaiters--
	}()
	for {
		b.mu.Lock()
		left, changed := b.held(), b.changed
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

// Close refuses further records, writes the waiting ones until ctx ends, and returns how many are lost. It does not
// close the archive.
func (b *Batcher) Close(ctx context.Context) (lost int) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	_ = b.Flush(ctx) // the rest is counted
	b.stop()
	b.writer.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	lost = len(b.awaited) + len(b.later)
	for _, p := range b.awaited {
		p.done <- ErrClosed
	}
	b.awaited, b.later = nil, nil
	return lost
}

// wanted reports whether its caller still waits, or it has none.
func (p *pending) wanted() bool {
	select {
	case <-p.expired:
		return false
	default:
		return true
	}
}

// take returns the next batch, without records whose callers have left. Without a batch, the next one is due after a
// time, or, if that is 0, at the next record.
func (b *Batcher) take() (batch []*pending, due time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	takeLater := func(most int) {
		if n := min(len(b.later), most); n > 0 {
			batch = append(batch, b.later[:n]...)
			b.later, b.since = without(b.later, n), time.Time{} // the rest is due
		}
	}
	if due = b.due(); due <= 0 {
		// Neither kind gets all places for long.
		b.fairnessBit = 1 - b.fairnessBit
		takeLater(b.cfg.Most - min(len(b.awaited), (b.cfg.Most+b.fairnessBit)/2))
	}
	i := 0
	for ; i < len(b.awaited) && len(batch) < b.cfg.Most; i++ {
		if p := b.awaited[i]; p.wanted() {
			p.taken = true
			batch = append(batch, p)
		} else {
			b.dropped = max(0, b.dropped-1)
		}
	}
	b.awaited = without(b.awaited, i)
	if due <= 0 { // in the places of dropped records
		takeLater(b.cfg.Most - len(batch))
	}
	b.taken = len(batch)
	if len(batch) == 0 {
		b.settled()
	}
	return batch, max(due, 0)
}

// due returns how long unawaited records may still wait; 0 or less is no longer. The caller holds mu.
func (b *Batcher) due() time.Duration {
	if len(b.later) == 0 || len(b.later) >= b.cfg.Most || b.flushWaiters > 0 || b.closed {
		return 0
	}
	return b.cfg.Gather - time.Since(b.since)
}

// without returns a list without its first elements, which it releases.
func without(list []*pending, first int) []*pending {
	left := copy(list, list[first:])
	clear(list[left:])
	return list[:left]
}

// mostYields bounds the rounds of yieldToBatch.
const mostYields = 8

// yieldToBatch lets ready goroutines run, as long as they add awaited records. Without it, on one CPU, the writer
// would run after each new record, and write them one by one. It takes no time if no goroutine is ready.
func (b *Batcher) yieldToBatch() {
	for range mostYields {
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

// waiting returns the number of awaited records.
func (b *Batcher) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.awaited)
}

// settled wakes the callers of Flush. The caller holds mu.
func (b *Batcher) settled() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Batcher) run() {
	pause := b.cfg.Pause
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	for {
		select {
		case <-b.wake:
		case <-gathered.C:
		case <-b.ctx.Done():
			return
		}
		for {
			b.yieldToBatch()
			batch, due := b.take()
			if len(batch) == 0 {
				if due > 0 {
					gathered.Reset(due)
				}
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
			b.log.Warn("the archive does not keep anything at the moment", "error", err, "waiting", len(batch)+b.held())
		} else {
			b.log.Info("the archive keeps things again")
		}
	}
	if err != nil {
		b.putBack(batch)
		return false
	}
	for i, p := range batch {
		if p.done != nil {
			p.done <- each[i]
		} else if p.Entry != nil {
			if b.keys[p.Entry.Key]--; b.keys[p.Entry.Key] == 0 {
				delete(b.keys, p.Entry.Key)
			}
		}
	}
	b.written += uint64(len(batch)) //nolint:gosec // a length
	b.batches++
	b.settled()
	return true
}

// putBack puts a batch at the front of the queue. The caller holds mu.
func (b *Batcher) putBack(batch []*pending) {
	var awaited, later []*pending
	for _, p := range batch {
		if p.done == nil {
			later = append(later, p)
			continue
		}
		p.taken = false
		awaited = append(awaited, p)
	}
	if later != nil {
		b.later, b.since = append(later, b.later...), time.Time{}
	}
	b.awaited = append(awaited, b.awaited...)
}
