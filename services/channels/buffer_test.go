package channels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// balance fails the test unless every record is accounted for.
func balance(t interface{ Fatalf(string, ...any) }, b *buffer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pending := uint64(b.sent.len() + b.queue.len() + b.waiting)
	if b.received != b.delivered+b.droppedN+pending {
		t.Fatalf("received %d, delivered %d, dropped %d, pending %d", b.received, b.delivered, b.droppedN, pending)
	}
}

// A sink takes, loses its connection and settles at random. It gets, in order, exactly the records not counted as
// dropped.
func TestBufferAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Buffer{
			Records:  rapid.IntRange(1, 8).Draw(t, "records"),
			Bytes:    rapid.IntRange(3, 20).Draw(t, "bytes"),
			WhenFull: rapid.SampledFrom([]string{DropOldest, DropNewest, Disconnect, Block}).Draw(t, "when full"),
		}
		window := rapid.IntRange(1, limit.Records).Draw(t, "window")
		b := newBuffer(limit, 0, 0, position{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nothing waits
		var pushed, lost uint64
		var handed uint64 // highest the sink has seen since rewind
		have := map[uint64]bool{}
		settled := uint64(0)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"push", "push", "push", "take", "settle", "rewind"}).Draw(t, "step") {
			case "push":
				b.mu.Lock()
				wouldWait := limit.WhenFull == Block && b.full(3)
				b.mu.Unlock()
				if wouldWait {
					continue
				}
				pushed++
				if became, _ := b.push(ctx, 0, make([]byte, rapid.IntRange(0, 3).Draw(t, "size")), position{Offset: int64(pushed)}); became == dropped {
					lost++
				}
			case "take":
				records, err := b.take(ctx, nil, rapid.IntRange(1, 4).Draw(t, "max"), 100, window)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatalf("take: %v", err)
				}
				for _, r := range records {
					if r.Seq <= handed {
						t.Fatalf("record %d after %d", r.Seq, handed)
					}
					handed = r.Seq
					have[r.Seq] = true
				}
				if n, _ := b.unsettled(); n > window {
					t.Fatalf("%d unsettled, window %d", n, window)
				}
			case "settle":
				if handed > settled {
					settled = rapid.Uint64Range(settled, handed).Draw(t, "settled")
					if !b.handedOut(settled) {
						t.Fatalf("record %d was handed out", settled)
					}
					b.settle(settled)
				}
			case "rewind":
				b.rewind()
				handed = settled
			}
			balance(t, b)
			b.mu.Lock()
			if b.bytes > limit.Bytes || b.sent.len()+b.queue.len() > limit.Records {
				t.Fatalf("%d records with %d bytes in a buffer for %+v", b.sent.len()+b.queue.len(), b.bytes, limit)
			}
			oldest := b.seq + 1
			for _, q := range []*queue{&b.queue, &b.sent} {
				if q.len() > 0 {
					oldest = q.at(0).Seq
				}
			}
			if b.through+1 != oldest || b.pos.Offset != int64(b.through) {
				t.Fatalf("settled through %d at %d, oldest pending %d", b.through, b.pos.Offset, oldest)
			}
			b.mu.Unlock()
			if b.handedOut(b.seq + 1) {
				t.Fatalf("record %d, which there is not, was handed out", b.seq+1)
			}
		}
		b.close()
		b.rewind()
		for {
			records, err := b.take(ctx, nil, 100, 100, window)
			if errors.Is(err, errDone) {
				break
			}
			if errors.Is(err, errFinal) {
				t.Fatalf("not settled, although all was")
			}
			for _, r := range records {
				have[r.Seq] = true
			}
			b.settle(records[len(records)-1].Seq)
		}
		if b.received != pushed || uint64(len(have))+b.droppedN != pushed || uint64(len(have)) != b.delivered {
			t.Fatalf("%d pushed, the sink has %d, %d delivered, %d dropped", pushed, len(have), b.delivered, b.droppedN)
		}
		if limit.WhenFull == Block && b.droppedN > 0 || limit.WhenFull != DropOldest && b.droppedN != lost {
			t.Fatalf("%s dropped %d and reported %d", limit.WhenFull, b.droppedN, lost)
		}
	})
}

func TestBufferBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(Buffer{Records: 1, Bytes: 10, WhenFull: Block}, 0, 0, position{})
		b.push(t.Context(), 0, nil, position{})
		results := make(chan outcome)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() { became, _ := b.push(ctx, 0, nil, position{}); results <- became }()
		}
		synctest.Wait()
		balance(t, b)
		if r, err := b.take(t.Context(), nil, 1, 1, 1); len(r) != 1 || err != nil {
			t.Errorf("take = %v, %v", r, err)
		}
		b.settle(1)
		if got := <-results; got != admitted {
			t.Errorf("with room again: %v", got)
		}
		cancel()
		if got := <-results; got != abandoned {
			t.Errorf("at the deadline: %v", got)
		}
		balance(t, b)
		if b.waiting != 1 || b.received != 3 {
			t.Errorf("%d waiting of %d", b.waiting, b.received)
		}
	})
}

func TestBufferWaitsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(Buffer{Records: 10, Bytes: 10, WhenFull: Block}, 0, 0, position{})
		go func() {
			time.Sleep(time.Second)
			b.push(t.Context(), 0, nil, position{})
			b.push(t.Context(), 0, nil, position{})
			b.close()
		}()
		if err := b.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := b.take(t.Context(), nil, 10, 10, 1); len(r) != 1 || err != nil {
			t.Fatalf("take = %v, %v; the window is 1", r, err)
		}
		go func() {
			time.Sleep(time.Second)
			b.settle(1)
		}()
		if r, err := b.take(t.Context(), nil, 10, 10, 1); len(r) != 1 || err != nil {
			t.Fatalf("take = %v, %v", r, err)
		}
		if _, err := b.take(t.Context(), nil, 10, 10, 1); !errors.Is(err, errFinal) {
			t.Fatalf("all handed out: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			b.settle(2)
		}()
		if err := b.flushed(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.take(t.Context(), nil, 10, 10, 1); !errors.Is(err, errDone) {
			t.Fatalf("all settled: %v", err)
		}
		if err := b.await(t.Context()); !errors.Is(err, errDone) {
			t.Fatal(err)
		}
	})
}

// Records that the sink has from an earlier run are delivered as they come.
func TestBufferFloor(t *testing.T) {
	b := newBuffer(Buffer{Records: 3, Bytes: 10, WhenFull: DropNewest}, 10, 0, position{})
	b.push(t.Context(), 0, nil, position{Offset: 11})
	b.settle(15) // the peer has more than we have read again
	for seq := int64(12); seq <= 17; seq++ {
		b.push(t.Context(), 0, nil, position{Offset: seq})
	}
	balance(t, b)
	if through, pos := b.settledThrough(); through != 15 || pos.Offset != 15 || b.delivered != 5 {
		t.Errorf("%d delivered, through %d at %d", b.delivered, through, pos.Offset)
	}
	r, err := b.take(t.Context(), nil, 10, 10, 10)
	if err != nil || len(r) != 2 || r[0].Seq != 16 {
		t.Errorf("take = %v, %v", r, err)
	}
}

func TestBackoff(t *testing.T) {
	sequence := func() (all []string) {
		b := backoff{min: 50 * time.Millisecond, max: time.Second, rng: rand.New(rand.NewPCG(1, 2))}
		for i, full := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000, 50} {
			full *= time.Millisecond
			if i == 7 {
				b.reset()
			}
			d := b.next()
			if d < full/2 || d > full {
				t.Errorf("pause %d is %v, want %v to %v", i, d, full/2, full)
			}
			all = append(all, d.String())
		}
		return all
	}
	if a, b := fmt.Sprint(sequence()), fmt.Sprint(sequence()); a != b {
		t.Errorf("the same seed paused %s and %s", a, b)
	}
}
