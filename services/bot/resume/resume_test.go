package resume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(change func(*Config)) *Keeper {
	c := Defaults()
	if change != nil {
		change(&c)
	}
	return New(c)
}

func event(n uint64) string {
	return fmt.Sprintf("id: %d\ndata: %s\n\n", n, strings.Repeat("x", int(n%37)))
}

// rest reads a stream to its end.
func rest(s *Stream, after uint64) (string, error) {
	r, err := s.Read(after)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b []byte
	for more := true; more; {
		if b, more, err = r.Next(context.Background(), b); err != nil {
			return string(b), err
		}
	}
	return string(b), nil
}

func want(after, to uint64) string {
	var b strings.Builder
	for n := after + 1; n <= to; n++ {
		b.WriteString(event(n))
	}
	return b.String()
}

// TestNoGaps: every reader gets its missing events, once and in order, or learns that they are gone.
func TestNoGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1 << 10
		k := open(func(c *Config) { c.StreamBytes, c.Bytes, c.Readers = most, 1<<20, 100 })
		defer k.Close()
		total := rapid.Uint64Range(0, 200).Draw(t, "events")
		s := k.Begin("a", Owner{}, nil)
		var readers sync.WaitGroup
		begins := rapid.SliceOfN(rapid.Uint64Range(0, total), 0, 8).Draw(t, "readers begin at")
		for n := uint64(0); ; n++ {
			for _, at := range begins {
				if at != n {
					continue
				}
				after := rapid.Uint64Range(0, n).Draw(t, "after")
				readers.Go(func() {
					got, err := rest(s, after)
					if err == nil && got != want(after, total) || err != nil && !errors.Is(err, ErrGone) || !strings.HasPrefix(want(after, total), got) {
						t.Errorf("after %d of %d: %q, %v", after, total, got, err)
					}
				})
			}
			if n == total {
				break
			}
			s.Add([]byte(event(n + 1)))
			if b := k.Stats().Bytes; b > most+overhead {
				t.Errorf("%d bytes", b)
			}
		}
		s.End()
		readers.Wait()
		// The latest half of what there is room for is always kept.
		kept := total
		for size := 0; kept > 0 && size+len(event(kept)) <= most/2; kept-- {
			size += len(event(kept))
		}
		if got, err := rest(s, kept); err != nil || got != want(kept, total) {
			t.Errorf("after %d of %d: %q, %v", kept, total, got, err)
		}
	})
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(func(c *Config) { c.Age = time.Minute })
		one := k.Begin("one", Owner{"key", "user"}, nil)
		two := k.Begin("two", Owner{}, nil)
		one.Add([]byte(event(1)))
		time.Sleep(time.Hour) // a stream that goes on is kept
		one.End()
		one.End()
		time.Sleep(30 * time.Second)
		two.End()
		for _, c := range []struct {
			after    time.Duration
			one, two bool
		}{{30*time.Second - 1, true, true}, {1, false, true}, {30*time.Second - 1, false, true}, {1, false, false}} {
			time.Sleep(c.after)
			synctest.Wait()
			if (k.Find("one") != nil) != c.one || (k.Find("two") != nil) != c.two {
				t.Errorf("after %v: %v, %v", c.after, k.Find("one"), k.Find("two"))
			}
		}
		if s := k.Stats(); s != (Stats{}) {
			t.Errorf("%+v", s)
		}
		if one.Owner() != (Owner{"key", "user"}) {
			t.Errorf("%+v", one)
		}
		if _, err := one.Read(0); !errors.Is(err, ErrGone) {
			t.Errorf("%v", err)
		}
		three := k.Begin("three", Owner{}, nil)
		k.Close()
		three.Add([]byte(event(1)))
		three.End()
		if k.Begin("four", Owner{}, nil).End(); k.Find("four") != nil || k.Stats() != (Stats{}) {
			t.Errorf("after the end: %+v", k.Stats())
		}
	})
}

// TestRoom: the oldest stream goes, and who reads it is told.
func TestRoom(t *testing.T) {
	k := open(func(c *Config) { c.StreamBytes, c.Bytes = 1<<10, 3*(1<<10+overhead) })
	defer k.Close()
	fill := func(s *Stream) {
		for n := range uint64(100) {
			s.Add([]byte(event(n)))
		}
	}
	first := k.Begin("0", Owner{}, nil)
	r, err := first.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	result := make(chan error)
	go func() {
		_, _, err := r.Next(context.Background(), nil)
		result <- err
	}()
	for i := range 10 {
		s := k.Begin(fmt.Sprint(i+1), Owner{}, nil)
		fill(s)
		if b := k.Stats().Bytes; b > 3*(1<<10+overhead) {
			t.Errorf("%d bytes", b)
		}
	}
	if err := <-result; !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	fill(first) // nobody keeps it
	first.End()
	if k.Find("0") != nil || k.Find("10") == nil {
		t.Error("not the oldest went")
	}
	// An event that there is no room for is a gap: said, not hidden.
	s := k.Begin("large", Owner{}, nil)
	s.Add([]byte(event(1)))
	s.Add([]byte("data: " + strings.Repeat("x", 1<<10) + "\n\n"))
	s.Add([]byte(event(3)))
	s.End()
	if _, err := s.Read(1); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	if got, err := rest(s, 2); err != nil || got != event(3) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Read(4); !errors.Is(err, ErrAhead) {
		t.Errorf("%v", err)
	}
	sum := int64(0)
	for e := k.order.Front(); e != nil; e = e.Next() {
		sum += overhead + int64(len(e.Value.(*Stream).text))
	}
	if sum != k.Stats().Bytes {
		t.Errorf("%d bytes, counted %d", sum, k.Stats().Bytes)
	}
}

type presence struct{ came, left atomic.Int64 }

func (p *presence) Came() { p.came.Add(1) }
func (p *presence) Left() { p.left.Add(1) }

func TestReaders(t *testing.T) {
	k := open(func(c *Config) { c.Readers = 2 })
	defer k.Close()
	var p presence
	s := k.Begin("a", Owner{}, &p)
	s.Add([]byte(event(1)))
	var readers []*Reader
	for range 2 {
		r, err := s.Read(1)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	if _, err := s.Read(1); !errors.Is(err, ErrReaders) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := readers[0].Next(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	readers[0].Close()
	readers[0].Close()
	if p.came.Load() != 2 || p.left.Load() != 1 || readers[1].Finished() {
		t.Errorf("%d came, %d left", p.came.Load(), p.left.Load())
	}
	s.End()
	if !readers[1].Finished() {
		t.Error("not at the end")
	}
	readers[1].Close()
	if got, err := rest(s, 0); err != nil || got != event(1) || p.came.Load() != 2 || p.left.Load() != 2 {
		t.Errorf("%q, %v, %d came, %d left", got, err, p.came.Load(), p.left.Load())
	}
}

// TestKeys: streams of one key do not have those of another go, unless that has more than an equal part.
func TestKeys(t *testing.T) {
	k := open(func(c *Config) { c.StreamBytes, c.Bytes = 4<<10, 64<<10 })
	defer k.Close()
	begin := func(key string, n int) (names []string) {
		for i := range n {
			name := fmt.Sprint(key, i)
			s := k.Begin(name, Owner{Key: key}, nil)
			s.Add([]byte("data: " + strings.Repeat("x", 1000) + "\n\n"))
			s.End()
			names = append(names, name)
		}
		return names
	}
	kept := func(names []string) (n int) {
		for _, name := range names {
			if k.Find(name) != nil {
				n++
			}
		}
		return n
	}
	few := begin("few", 5)
	many := begin("many", 200)
	if kept(few) != 5 || kept(many) < 30 || k.Find(many[199]) == nil {
		t.Errorf("%d of the few are kept, %d of the many", kept(few), kept(many))
	}
	more := begin("more", 10) // beyond the bound, and below an equal part: the oldest of all go
	again := begin("many", 300)
	if kept(more) != 10 || kept(again[200:]) < 20 {
		t.Errorf("%d of a third key are kept, %d of the many", kept(more), kept(again[200:]))
	}
	if s := k.Stats(); s.Bytes > 64<<10 {
		t.Errorf("%+v", s)
	}
	k.Close()
	if s := k.Stats(); s != (Stats{}) || len(k.keys) != 0 {
		t.Errorf("%+v, %d keys", s, len(k.keys))
	}
}
