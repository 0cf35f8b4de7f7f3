package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A mirror is what somebody knows who follows.
type mirror struct {
	t     testing.TB
	state map[string]KV
	last  int64
	seen  chan Batch
}

func newMirror(t testing.TB) *mirror {
	return &mirror{t: t, state: map[string]KV{}, seen: make(chan Batch, 10_000)}
}

func (m *mirror) take(b Batch) {
	for _, e := range b.Events {
		if e.Revision <= m.last && m.last > 0 || e.Revision > b.Revision {
			m.t.Errorf("event %+v after revision %d, in a batch up to %d", e, m.last, b.Revision)
		}
		if _, there := m.state[e.Key]; e.Removed && !there {
			m.t.Errorf("%s was removed and had not been there", e.Key)
		}
		if e.Removed {
			delete(m.state, e.Key)
		} else {
			m.state[e.Key] = e.KV
		}
	}
	if b.Revision < m.last {
		m.t.Errorf("revision %d after %d", b.Revision, m.last)
	}
	m.last = b.Revision
	m.seen <- b
}

// until waits for a revision.
func (m *mirror) until(revision int64) (listed bool) {
	m.t.Helper()
	for {
		select {
		case b := <-m.seen:
			listed = listed || b.Listed
			if b.Revision >= revision {
				return listed
			}
		case <-m.t.Context().Done():
			m.t.Fatal("the test's time is over")
		}
	}
}

func TestFollow(t *testing.T) {
	s := opened(t, nil)
	set(t, s, "s/x/a", "1")
	set(t, s, "s/y/b", "1") // elsewhere
	m := newMirror(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Follow(ctx, "s/x/", m.take) }()
	if b := <-m.seen; !b.Listed || len(b.Events) != 1 || b.Events[0].Key != "s/x/a" || string(b.Events[0].Value) != "1" {
		t.Errorf("first batch %+v", b)
	}
	done(t, s, Request{Then: []Op{{Key: "s/x/a", Value: []byte("2")}, {Key: "s/x/b", Value: []byte("1")}, {Key: "s/y/c"}}})
	last := done(t, s, Request{Then: []Op{{Key: "s/x/a", Delete: true}}})
	if m.until(last) {
		t.Error("listed again without need")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if got := slices.Collect(maps.Keys(m.state)); len(got) != 1 || string(m.state["s/x/b"].Value) != "1" {
		t.Errorf("state %v", m.state)
	}
}

func TestFollowEndsWithTheStore(t *testing.T) {
	s, err := Open(t.Context(), config(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Follow(context.Background(), State, m.take) }()
	<-m.seen
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

// TestCompactedMeanwhile: a follower that was away while revisions were compacted
// learns exactly what is different.
func TestCompactedMeanwhile(t *testing.T) {
	s := opened(t, func(c *Config) { c.CompactPeriod = 0 })
	for _, key := range []string{"s/same", "s/changed", "s/gone", "s/back"} {
		set(t, s, key, "1")
	}
	m := newMirror(t)
	f := follower{store: s, prefix: State, take: m.take}
	follow := func(meanwhile func()) (listed bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				_, _ = f.watchOnce(ctx) // it always ends with an error
			}
		}()
		head, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listed = m.until(head)
		meanwhile()
		cancel()
		<-ended
		return listed
	}
	follow(func() {})
	set(t, s, "s/changed", "2")
	set(t, s, "s/changed", "3")
	set(t, s, "s/new", "1")
	done(t, s, Request{Then: []Op{{Key: "s/gone", Delete: true}}})
	done(t, s, Request{Then: []Op{{Key: "s/back", Delete: true}}})
	set(t, s, "s/back", "1")
	last := set(t, s, "s/passed", "1")
	last = max(last, done(t, s, Request{Then: []Op{{Key: "s/passed", Delete: true}}}))
	if err := s.compactWhole(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	same := m.state["s/same"]
	if !follow(func() { m.until(set(t, s, "s/after", "1")) }) {
		t.Error("nothing was listed")
	}
	if diff := cmp.Diff(same, m.state["s/same"]); diff != "" {
		t.Errorf("what had not changed was told again: %s", diff)
	}
	kvs, _, err := s.list(t.Context(), State)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]KV{}
	for _, kv := range kvs {
		want[kv.Key] = kv
	}
	if diff := cmp.Diff(want, m.state); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	// From here on it watches again, and lists nothing.
	set(t, s, "s/later", "1")
	if follow(func() {}) {
		t.Error("listed once more")
	}
}

// TestDifference holds the difference of two listings to their definition.
func TestDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		before := rapid.MapOf(key, rapid.Int64Range(1, 9)).Draw(t, "before")
		after := rapid.MapOf(key, rapid.Int64Range(1, 19)).Draw(t, "after")
		var listing []KV
		for k, r := range after {
			listing = append(listing, KV{Key: k, Revision: r})
		}
		events, now := difference(before, listing, 20)
		if !maps.Equal(now, after) {
			t.Fatalf("knows %v of %v", now, after)
		}
		state := maps.Clone(before)
		var last int64
		for _, e := range events {
			if e.Revision < last {
				t.Fatalf("not in order: %+v", events)
			}
			last = e.Revision
			if e.Removed {
				if _, ok := state[e.Key]; !ok || e.Revision != 20 {
					t.Fatalf("%+v of what was not there", e)
				}
				delete(state, e.Key)
				continue
			}
			if state[e.Key] == e.Revision {
				t.Fatalf("%+v is no change", e)
			}
			state[e.Key] = e.Revision
		}
		if !maps.Equal(state, after) {
			t.Fatalf("%v leads to %v, not to %v", events, state, after)
		}
	})
}

// TestPick holds the choice of a group to what makes it right.
func TestPick(t *testing.T) {
	key := rapid.SampledFrom([]string{"s/a", "s/b", "s/c", "s/d"})
	rapid.Check(t, func(t *rapid.T) {
		var waiting []*pending
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			p := &pending{size: rapid.IntRange(1, 10).Draw(t, "size")}
			for _, k := range rapid.SliceOfNDistinct(key, 0, 2, rapid.ID).Draw(t, "if") {
				p.request.If = append(p.request.If, Condition{Key: k})
			}
			for _, k := range rapid.SliceOfNDistinct(key, 1, 2, rapid.ID).Draw(t, "then") {
				p.request.Then = append(p.request.Then, Op{Key: k})
			}
			waiting = append(waiting, p)
		}
		most := capacity{8, 40, rapid.IntRange(4, 20).Draw(t, "operations")}
		group, rest := pick(waiting, most)
		if len(group) == 0 || len(group) > most.requests || len(group)+len(rest) != len(waiting) {
			t.Fatalf("%d and %d of %d", len(group), len(rest), len(waiting))
		}
		position := map[*pending]int{}
		size := 0
		for i, p := range append(slices.Clone(group), rest...) {
			position[p] = i
			if i < len(group) {
				size += p.size
			}
		}
		has := loadOf(group)
		if len(position) != len(waiting) || len(group) > 1 && (size > most.bytes || has.conditions+1 > most.operations || has.operations+2 > most.operations) {
			t.Fatalf("%d different of %d, %d bytes", len(position), len(waiting), size)
		}
		touches := func(p *pending) (changes, all map[string]bool) {
			changes, all = map[string]bool{}, map[string]bool{}
			for _, op := range p.request.Then {
				changes[op.Key], all[op.Key] = true, true
			}
			for _, c := range p.request.If {
				all[c.Key] = true
			}
			return changes, all
		}
		for i, p := range waiting {
			changes, _ := touches(p)
			for _, q := range waiting[i+1:] {
				if _, all := touches(q); !intersect(changes, all) {
					continue
				}
				if position[q] < position[p] {
					t.Fatal("who came later and meets the same key goes first")
				}
				if position[q] < len(group) {
					t.Fatal("two of a group meet on a key that one of them changes")
				}
			}
		}
	})
}

func intersect(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

// TestHeads: an answer is of a question that was asked after who gets it had come, and
// many share one.
func TestHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := int64(0)
		h := heads{read: func() (int64, error) {
			asked++
			n := asked
			time.Sleep(time.Second)
			return n, nil
		}}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			for range 5 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 500 * time.Millisecond)
					came := time.Since(start)
					n, err := h.get(t.Context())
					if err != nil {
						t.Error(err)
					}
					// Question n was asked at n-1 seconds.
					if time.Duration(n-1)*time.Second < came {
						t.Errorf("came at %v and got the answer to what was asked at %v", came, time.Duration(n-1)*time.Second)
					}
				})
			}
		}
		wg.Wait()
		if asked > 7 {
			t.Errorf("%d questions in 5 s of one a second", asked)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := h.get(ctx); !errors.Is(err, ErrUnavailable) {
			t.Errorf("whose context has ended: %v", err)
		}
		time.Sleep(2 * time.Second) // the question has its answer, though nobody waits for it
	})
}

func TestNotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		notes := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "notes")
		value := packNotes(noted(notes))
		if value == nil {
			for _, n := range notes {
				if len(n) > 0 {
					t.Fatalf("lost: %q", notes)
				}
			}
			return
		}
		got, err := unpackNotes(value)
		if err != nil || len(got) != len(notes) {
			t.Fatalf("%d of %d: %v", len(got), len(notes), err)
		}
		for i := range got {
			if string(got[i]) != string(notes[i]) {
				t.Fatalf("note %d: %q, want %q", i, got[i], notes[i])
			}
		}
	})
}

// noted is a group with these notes.
func noted(notes [][]byte) (group []*pending) {
	for _, n := range notes {
		group = append(group, &pending{request: Request{Note: n}})
	}
	return group
}
