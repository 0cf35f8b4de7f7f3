package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

type text string

func (t text) Size() int64 { return int64(len(t)) }

func open(age time.Duration, bytes int64) *Cache[text] { return New(NewSharded[text](bytes), age) }

func say(v text) func(context.Context) (text, error) {
	return func(context.Context) (text, error) { return v, nil }
}

// TestAge: a value is made once, until it is too old.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(time.Minute, 1<<20)
		check := func(make, want text, how How) {
			t.Helper()
			if v, h, err := c.Get(t.Context(), "k", say(make)); v != want || h != how || err != nil {
				t.Errorf("%q by %d, %v: want %q by %d", v, h, err, want, how)
			}
		}
		check("a", "a", Made)
		check("b", "a", Kept)
		time.Sleep(time.Minute - 1)
		check("b", "a", Kept)
		time.Sleep(time.Nanosecond)
		check("b", "b", Made)
		if s := c.Stats(); s != (Stats{Hits: 2, Misses: 2, Values: 1, Bytes: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

// TestSingleFlight: of many who ask at once one makes the value; an error is everybody's,
// and not kept.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(time.Minute, 1<<20)
		broken := errors.New("broken")
		for _, want := range []error{broken, nil} {
			made := 0
			var all sync.WaitGroup
			var mu sync.Mutex
			ways := map[How]int{}
			for range 100 {
				all.Go(func() {
					v, how, err := c.Get(t.Context(), "k", func(context.Context) (text, error) {
						made++
						time.Sleep(time.Second)
						return "v", want
					})
					if !errors.Is(err, want) || v != "v" {
						t.Errorf("%q, %v", v, err)
					}
					mu.Lock()
					defer mu.Unlock()
					ways[how]++
				})
			}
			all.Wait()
			if made != 1 || ways[Made] != 1 || ways[Joined] != 99 {
				t.Errorf("made %d times: %v", made, ways)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			_, _, _ = c.Get(context.Background(), "slow", func(context.Context) (text, error) { time.Sleep(time.Hour); return "", nil })
		}()
		synctest.Wait()
		if _, _, err := c.Get(ctx, "slow", say("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who goes: %v", err)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestLeft: who makes a value for others does not give it up by leaving, but the last who leaves does. Who comes
// afterwards has it made again, also if giving up takes its time.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(time.Minute, 1<<20)
		type came struct {
			how How
			err error
		}
		given := make(chan struct{})
		get := func() (chan came, context.CancelFunc) {
			ctx, leave := context.WithCancel(context.WithValue(t.Context(), given, "of who makes it"))
			done := make(chan came, 1)
			go func() {
				_, how, err := c.Get(ctx, "k", func(ctx context.Context) (text, error) {
					if ctx.Value(given) != "of who makes it" {
						t.Error("another context")
					}
					<-ctx.Done()
					close(given)
					time.Sleep(time.Second)
					return "late", ctx.Err()
				})
				done <- came{how, err}
			}()
			synctest.Wait()
			return done, leave
		}
		maker, leave := get()
		first, leaveFirst := get()
		second, leaveSecond := get()
		leave()
		leaveFirst()
		synctest.Wait()
		if e := <-first; e.how != Joined || !errors.Is(e.err, context.Canceled) {
			t.Errorf("who leaves: %+v", e)
		}
		select {
		case <-given:
			t.Error("given up while somebody waits")
		default:
		}
		leaveSecond()
		<-second
		<-given
		if v, how, err := c.Get(t.Context(), "k", say("again")); v != "again" || how != Made || err != nil {
			t.Errorf("who comes afterwards: %q %d %v", v, how, err)
		}
		if e := <-maker; e.how != Made || !errors.Is(e.err, context.Canceled) {
			t.Errorf("who has made it: %+v", e)
		}
		if v, how, err := c.Get(t.Context(), "k", say("x")); v != "again" || how != Kept || err != nil {
			t.Errorf("what is kept: %q %d %v", v, how, err)
		}
	})
}

// TestPanic: who waits for one that panics is told.
func TestPanic(t *testing.T) {
	c := open(time.Minute, 1<<20)
	func() {
		defer func() { _ = recover() }()
		_, _, _ = c.Get(t.Context(), "k", func(context.Context) (text, error) { panic("oh") })
	}()
	if v, how, err := c.Get(t.Context(), "k", say("a")); v != "a" || how != Made || err != nil {
		t.Errorf("%q, %d, %v", v, how, err)
	}
}

// TestBound: it never holds more than it may, and what was used least recently goes.
func TestBound(t *testing.T) {
	const most = 100 * shards
	c := open(time.Hour, most)
	value := text(fmt.Sprintf("%040d", 0))
	for i := range 1000 {
		if _, _, err := c.Get(t.Context(), fmt.Sprint(i), say(value)); err != nil {
			t.Fatal(err)
		}
		if _, how, _ := c.Get(t.Context(), fmt.Sprint(i), say(value)); how != Kept {
			t.Fatalf("%d was not kept", i)
		}
	}
	if s := c.Stats(); s.Bytes > most || s.Values > most/40 || s.Bytes != 40*int64(s.Values) || s.Hits != 1000 || s.Misses != 1000 {
		t.Errorf("%+v", s)
	}
	if _, _, err := c.Get(t.Context(), "large", say(text(make([]byte, most+1)))); err != nil {
		t.Error(err)
	}
	if _, how, _ := c.Get(t.Context(), "large", say("x")); how != Made {
		t.Error("kept more than there is room for")
	}
}

// TestEmpty: nothing is kept of before, also not a value that was being made.
func TestEmpty(t *testing.T) {
	c := open(time.Hour, 1<<20)
	if _, _, err := c.Get(t.Context(), "a", say("old")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(t.Context(), "b", func(context.Context) (text, error) {
		c.Empty(NewSharded[text](1 << 20))
		return "old", nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if v, how, err := c.Get(t.Context(), key, say("new")); v != "new" || how != Made || err != nil {
			t.Errorf("%s: %q, %d, %v", key, v, how, err)
		}
	}
	if s := c.Stats(); s.Values != 2 || s.Misses != 4 {
		t.Errorf("%+v", s)
	}
}
