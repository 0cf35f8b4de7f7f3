package plane

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// A brake is a log that holds up the writer of a warning. A plane's follower warns of
// what is no resource before it learns anything of what came with that.
type brake struct {
	slog.Handler
	held     chan struct{} // closed when somebody is held up
	once     sync.Once
	released chan struct{} // closed by release
	release  func()
}

func newBrake() *brake {
	b := &brake{Handler: slog.DiscardHandler, held: make(chan struct{}), released: make(chan struct{})}
	b.release = sync.OnceFunc(func() { close(b.released) })
	return b
}

func (b *brake) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (b *brake) Handle(context.Context, slog.Record) error {
	b.once.Do(func() { close(b.held) })
	<-b.released
	return nil
}

// behind returns a plane whose follower is blocked until release is called. It does not know the policy a, which
// another replica has made and acknowledged. Its watches wait as long as patience for what was acknowledged before
// them.
func behind(t *testing.T, patience time.Duration) (p *Plane, release func()) {
	t.Helper()
	s := newStore(t)
	other := opened(t, s, nil)
	p, hold, release := braked(t, s, func(*Config) {})
	p.beginTime = patience
	hold()
	if _, err := other.Put(t.Context(), me, policy("a"), Options{}); err != nil {
		t.Fatal(err)
	}
	return p, release
}

// braked returns a plane whose follower can be held up, and then released.
func braked(t *testing.T, s *store.Store, change func(*Config)) (p *Plane, hold, release func()) {
	t.Helper()
	b := newBrake()
	p = opened(t, s, func(c *Config) {
		c.Replica, c.Logger = "behind", slog.New(b)
		change(c)
	})
	t.Cleanup(b.release) // before the plane is closed, which waits for its follower
	return p, func() {
		t.Helper()
		if _, err := s.Apply(t.Context(), store.Request{Then: []store.Op{{Key: store.State + "nothing", Value: []byte("x")}}}); err != nil {
			t.Fatal(err)
		}
		<-b.held
	}, b.release
}

// A noticing context tells that somebody asked for its end, as who waits does.
type noticing struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (n *noticing) Done() <-chan struct{} {
	n.once.Do(func() { close(n.asked) })
	return n.Context.Done()
}

var policies = []push.Topic{{Kind: resource.Policies}}

// TestWatchBegins: a watch begins with what was acknowledged before it, though this replica
// learns of that only afterwards.
func TestWatchBegins(t *testing.T) {
	p, release := behind(t, time.Hour)
	type beginning struct {
		changes []push.Change
		resync  bool
		err     error
	}
	begun := make(chan beginning, 1)
	ctx := &noticing{Context: t.Context(), asked: make(chan struct{})}
	go func() {
		var b beginning
		defer func() { begun <- b }()
		w, err := p.watch(ctx, policies, Token{})
		if b.err = err; err != nil {
			return
		}
		defer w.Close()
		b.changes, _, b.resync, b.err = w.Next(ctx, 10)
	}()
	select {
	case <-ctx.asked:
	case b := <-begun:
		t.Fatalf("it did not wait, and began with %+v", b)
	}
	release()
	if b := <-begun; b.err != nil || !b.resync || len(b.changes) != 1 || b.changes[0].Name != "a" {
		t.Errorf("it began with %+v, want the policy a", b)
	}
}

// TestWatchBeginsBehind: if the store does not answer in time, a watch begins with the replica's state, and the rest
// follows.
func TestWatchBeginsBehind(t *testing.T) {
	p, release := behind(t, time.Nanosecond)
	w, err := p.watch(t.Context(), policies, Token{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if changes, _, resync, err := w.Next(t.Context(), 10); err != nil || !resync || len(changes) != 0 {
		t.Errorf("it began with %+v, %v, %v: want nothing", changes, resync, err)
	}
	release()
	if changes, _, resync, err := w.Next(t.Context(), 10); err != nil || resync || len(changes) != 1 || changes[0].Name != "a" {
		t.Errorf("then came %+v, %v, %v: want the policy a", changes, resync, err)
	}
}
