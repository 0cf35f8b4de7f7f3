package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
)

// flaky is an archive that takes a while, and fails when it is told to.
type flaky struct {
	*memory.Archive
	mu      sync.Mutex // guards what follows
	broken  bool
	stuck   bool
	sizes   []int
	attempt int
}

func newFlaky() *flaky { return &flaky{Archive: memory.NewArchive(memory.DefaultBounds())} }

func (f *flaky) set(broken, stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken, f.stuck = broken, stuck
}

func (f *flaky) Write(ctx context.Context, records []store.Record) ([]error, error) {
	f.mu.Lock()
	f.attempt++
	broken, stuck := f.broken, f.stuck
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	<-time.After(10 * time.Millisecond)
	if broken {
		return nil, errors.New("broken")
	}
	f.mu.Lock()
	f.sizes = append(f.sizes, len(records))
	f.mu.Unlock()
	return f.Archive.Write(ctx, records)
}

func batcher(t *testing.T, a store.Archive, change func(*store.BatchConfig)) *store.Batcher {
	t.Helper()
	c := store.BatchDefaults()
	if change != nil {
		change(&c)
	}
	return store.NewBatcher(a, c)
}

func record(i int) store.Record {
	return store.Record{Entry: &store.Entry{ID: fmt.Sprint(i), Key: "k", At: epoch}}
}

func entries(t *testing.T, a store.Archive) int64 {
	t.Helper()
	c, err := a.Sum(t.Context(), store.Part{Key: "k"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Requests
}

// TestDropped: in an outage, turns without a waiting caller are dropped, however many precede them.
func TestDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFlaky()
		a.set(true, false)
		b := batcher(t, a, func(c *store.BatchConfig) { c.Most, c.Pending = 5, 1000 })
		for i := range 10 {
			if err := b.Later(record(i)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			var all sync.WaitGroup
			for i := range 500 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if err := b.Write(ctx, record(100+i)); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
					}
				})
			}
			all.Wait()
			if s := b.State(); s.Pending > 2*10+1 {
				t.Errorf("%d wait", s.Pending)
			}
		}
		a.set(false, false)
		if lost := b.Close(t.Context()); lost != 0 {
			t.Errorf("%d are lost", lost)
		}
		if n := entries(t, a); n != 10 {
			t.Errorf("%d were written", n)
		}
	})
}

// TestBatches: what comes during a write goes with the next, and nobody waits for more.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFlaky()
		b := batcher(t, a, func(c *store.BatchConfig) { c.Most = 40 })
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			if err := b.Write(t.Context(), record(0)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for i := range 100 {
			all.Go(func() {
				if err := b.Write(t.Context(), record(i+1)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if d := time.Since(began); d != 40*time.Millisecond || fmt.Sprint(a.sizes) != "[1 40 40 20]" {
			t.Errorf("batches of %v in %v", a.sizes, d)
		}
		if n := entries(t, a); n != 101 {
			t.Errorf("%d kept", n)
		}
		if s := b.State(); s.Written != 101 || s.Batches != 4 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
		if lost := b.Close(t.Context()); lost != 0 {
			t.Errorf("%d lost", lost)
		}
		if err := b.Write(t.Context(), record(1)); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestGathers: records for which nobody waits are written together, a while after the first. Who waits for another does not
// wait for them.
func TestGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFlaky()
		b := batcher(t, a, func(c *store.BatchConfig) { c.Most, c.Gather = 40, 20*time.Millisecond })
		next := 0
		later := func(n int) {
			for range n {
				if err := b.Later(record(next)); err != nil {
					t.Error(err)
				}
				next++
				<-time.After(time.Millisecond)
			}
		}
		expect := func(began time.Time, took time.Duration, sizes string) {
			t.Helper()
			a.mu.Lock()
			defer a.mu.Unlock()
			if d := time.Since(began); d != took || fmt.Sprint(a.sizes) != sizes {
				t.Errorf("batches of %v in %v, want %s in %v", a.sizes, d, sizes, took)
			}
			a.sizes = nil
		}
		began := time.Now()
		later(5)
		<-time.After(26 * time.Millisecond) // 20 from the first, and the write's 10
		expect(began, 31*time.Millisecond, "[5]")

		began = time.Now()
		later(5)
		if err := b.Write(t.Context(), record(-1)); err != nil {
			t.Error(err)
		}
		expect(began, 15*time.Millisecond, "[1]")
		<-time.After(16 * time.Millisecond)
		expect(began, 31*time.Millisecond, "[5]")

		began = time.Now()
		later(3)
		if err := b.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		expect(began, 13*time.Millisecond, "[3]")

		began = time.Now()
		for i := range 41 { // more than are written at once
			if err := b.Later(record(1000 + i)); err != nil {
				t.Error(err)
			}
		}
		<-time.After(11 * time.Millisecond)
		expect(began, 11*time.Millisecond, "[40]")
		if lost := b.Close(t.Context()); lost != 0 || entries(t, a) != int64(next+42) {
			t.Errorf("%d lost, %d kept of %d", lost, entries(t, a), next+42)
		}
		if d := time.Since(began); d > 21*time.Millisecond { // the one that is left follows at once, or when it is closed
			t.Errorf("closed after %v", d)
		}
	})
}

// TestFair: where more comes than can be written, neither those that somebody waits for nor the others are left behind.
func TestFair(t *testing.T) {
	for _, most := range []int{1, 2, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			a := newFlaky()
			b := batcher(t, a, func(c *store.BatchConfig) { c.Most = most })
			const each = 100
			var all sync.WaitGroup
			var turns atomic.Int64
			for i := range each {
				all.Go(func() {
					if err := b.Write(t.Context(), store.Record{Turn: turn(fmt.Sprint("s", i), 1, fmt.Sprint(i))}); err != nil {
						t.Error(err)
					}
					turns.Add(1)
				})
				if err := b.Later(record(i)); err != nil {
					t.Error(err)
				}
			}
			<-time.After(time.Duration(each/most)*10*time.Millisecond + 25*time.Millisecond) // and half is written
			if n := entries(t, a); n < each/2-15 || turns.Load() < each/2-15 {
				t.Errorf("at most %d: %d and %d are written", most, turns.Load(), n)
			}
			all.Wait()
			if lost := b.Close(t.Context()); lost != 0 || entries(t, a) != each {
				t.Errorf("%d are lost", lost)
			}
		})
	}
}

// TestLeftIsNotLost: what nobody waits for any more is not counted as lost at the end.
func TestLeftIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFlaky()
		a.set(true, false)
		b := batcher(t, a, func(c *store.BatchConfig) { c.Most = 1 })
		if err := b.Later(record(0)); err != nil {
			t.Fatal(err)
		}
		left, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		if err := b.Write(left, record(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if lost := b.Close(ctx); lost != 1 {
			t.Errorf("%d are lost", lost)
		}
	})
}

// quick is an archive that takes no time.
type quick struct {
	store.Archive
	writes int // by the one who writes
}

func (q *quick) Write(_ context.Context, records []store.Record) ([]error, error) {
	q.writes++
	return make([]error, len(records)), nil
}

// TestOneCPU: where there is one CPU, too, records of those who are ready to bring them are written together.
func TestOneCPU(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	q := &quick{}
	b := batcher(t, q, nil)
	const each, all = 20, 64
	var bring sync.WaitGroup
	for range all {
		bring.Go(func() {
			for i := range each {
				if err := b.Write(t.Context(), record(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	bring.Wait()
	b.Close(t.Context())
	if q.writes > each*all/8 {
		t.Errorf("%d writes of %d records: want 8 in each at least", q.writes, each*all)
	}
}

// TestConflictIsReported to whom it concerns.
func TestConflictIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batcher(t, newFlaky(), nil)
		var all sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			all.Go(func() { errs[i] = b.Write(t.Context(), store.Record{Turn: turn("s", 1, fmt.Sprint(i))}) })
		}
		all.Wait()
		if errors.Is(errs[0], store.ErrConflict) == errors.Is(errs[1], store.ErrConflict) {
			t.Error(errs)
		}
		b.Close(t.Context())
	})
}

// TestOutage: while the archive is away, who waits gives up and is told so; what nobody
// waits for is kept when it is back; and there is a bound.
func TestOutage(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := newFlaky()
			a.set(true, stuck)
			b := batcher(t, a, func(c *store.BatchConfig) { c.Most, c.Pending = 5, 10 })
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := b.Write(ctx, record(0)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who waits: %v", err)
			}
			for i := range 10 {
				if err := b.Later(record(i + 1)); err != nil {
					// The one that nobody waits for any more may still be in the writer's hands.
					if i < 9 || !errors.Is(err, store.ErrFull) {
						t.Errorf("record %d: %v", i+1, err)
					}
				}
			}
			time.Sleep(30 * time.Second)
			for range 2 { // there may be one place
				_ = b.Later(record(10))
			}
			if err := b.Later(record(12)); !errors.Is(err, store.ErrFull) || b.State().Pending != 10 {
				t.Errorf("beyond the bound: %v", err)
			}
			if s := b.State(); !s.Failing || s.Written != 0 {
				t.Errorf("%+v", s)
			}
			a.mu.Lock()
			if a.attempt > 40 {
				t.Errorf("tried %d times in half a minute", a.attempt)
			}
			a.mu.Unlock()
			a.set(false, false)
			if err := b.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if n := entries(t, a); n != 10 {
				t.Errorf("%d kept, want 10", n)
			}
			if s := b.State(); s.Failing || s.Pending != 0 {
				t.Errorf("%+v", s)
			}
			b.Close(t.Context())
		})
	}
}

// TestClose writes what it can, in the time that it has, and says what is lost.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFlaky()
		a.set(true, false)
		b := batcher(t, a, nil)
		for i := range 3 {
			if err := b.Later(record(i)); err != nil {
				t.Fatal(err)
			}
		}
		waits := make(chan error)
		go func() { waits <- b.Write(context.Background(), record(3)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		began := time.Now()
		if lost := b.Close(ctx); lost != 4 || time.Since(began) > 8*time.Second {
			t.Errorf("%d lost after %v", lost, time.Since(began))
		}
		if err := <-waits; !errors.Is(err, store.ErrClosed) {
			t.Errorf("who waited: %v", err)
		}
	})
}

// TestPendingOf: it is known of how many entries a key waits to see written, tried in vain or not yet.
func TestPendingOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFlaky()
		a.set(true, false)
		b := batcher(t, a, nil)
		for i := range 5 {
			if err := b.Later(store.Record{Entry: &store.Entry{ID: fmt.Sprint(i), Key: []string{"one", "two"}[i/4]}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if one, two, none := b.PendingOf("one"), b.PendingOf("two"), b.PendingOf("three"); one != 4 || two != 1 || none != 0 {
			t.Errorf("%d, %d, %d", one, two, none)
		}
		a.set(false, false)
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if one, two := b.PendingOf("one"), b.PendingOf("two"); one != 0 || two != 0 {
			t.Errorf("afterwards: %d, %d", one, two)
		}
		b.Close(t.Context())
	})
}
