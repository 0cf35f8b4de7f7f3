package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/services/control/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

func policy(name string) resource.Ref {
	return resource.Ref{Kind: resource.Policies, Namespace: "default", Name: name}
}

func put(name string, revision int64) Change {
	return Change{Ref: policy(name), Revision: revision, Version: revision}
}

var everyPolicy = []Topic{{Kind: resource.Policies}}

// caughtUp returns a subscriber that has read everything there was.
func caughtUp(t testing.TB, h *Hub, topics ...Topic) *Subscriber {
	t.Helper()
	s, err := h.Subscribe(topics, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Restart()
	s.Begin(h.Revision())
	return s
}

// waiting returns what is in a subscriber's queue.
func waiting(t testing.TB, s *Subscriber) (revisions []int64, resync bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changes, resync, err := s.Next(ctx, 1000)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, c := range changes {
		revisions = append(revisions, c.Revision)
	}
	return revisions, resync
}

// TestWhoIsConcerned: a change reaches those whom it concerns, once, and wakes nobody
// else.
func TestWhoIsConcerned(t *testing.T) {
	h := NewHub(10, 10)
	h.Publish(nil, 1)
	subscribers := map[string]*Subscriber{
		"all":       caughtUp(t, h, Topic{Kind: resource.Policies}),
		"namespace": caughtUp(t, h, Topic{Kind: resource.Policies, Namespace: "default"}),
		"name":      caughtUp(t, h, Topic{Kind: resource.Policies, Namespace: "default", Name: "a"}),
		"several":   caughtUp(t, h, Topic{Kind: resource.Policies, Namespace: "default", Name: "a"}, Topic{Kind: resource.Policies, Namespace: "default"}, Topic{Kind: resource.Configs}),
		"other":     caughtUp(t, h, Topic{Kind: resource.Policies, Namespace: "default", Name: "b"}),
		"elsewhere": caughtUp(t, h, Topic{Kind: resource.Policies, Namespace: "x"}),
		"configs":   caughtUp(t, h, Topic{Kind: resource.Configs}),
	}
	h.Publish([]Change{put("a", 2)}, 2)
	for name, s := range subscribers {
		want := name == "all" || name == "namespace" || name == "name" || name == "several"
		if woken := len(s.wake) == 1; woken != want {
			t.Errorf("%s: woken %v", name, woken)
		}
		got, resync := waiting(t, s)
		if resync || want != slices.Equal(got, []int64{2}) || !want && got != nil {
			t.Errorf("%s: got %v, resync %v", name, got, resync)
		}
	}
	if c := h.Counts(); c.Offered != 4 || c.Subscribers != len(subscribers) {
		t.Errorf("%+v", c)
	}
}

// TestPrefixes: a subscriber gets the changes that any of its topics has, once, whatever prefixes others have.
func TestPrefixes(t *testing.T) {
	parts := rapid.SampledFrom([]string{"a", "b", "ab", "/", "/", "é"})
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(parts, 1, 5).Draw(t, "parts"), "") })
	rapid.Check(t, func(t *rapid.T) {
		h := NewHub(10, 10)
		h.Publish(nil, 1)
		topic := rapid.Custom(func(t *rapid.T) Topic {
			one := Topic{Kind: resource.Configs, Namespace: "n", Name: rapid.OneOf(rapid.Just(""), text).Draw(t, "name")}
			if one.Name == "" {
				one.Prefix = rapid.OneOf(rapid.Just(""), text).Draw(t, "prefix")
			}
			return one
		})
		var all []*Subscriber
		for range rapid.IntRange(1, 5).Draw(t, "subscribers") {
			s, err := h.Subscribe(rapid.SliceOfNDistinct(topic, 1, 3, rapid.ID).Draw(t, "topics"), 1)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		c := Change{Ref: resource.Ref{Kind: resource.Configs, Namespace: "n", Name: text.Draw(t, "changed")}, Revision: 2}
		h.Publish([]Change{c}, 2)
		for _, s := range all {
			want := 0
			if slices.ContainsFunc(s.topics, func(one Topic) bool { return one.Has(c.Ref) }) {
				want = 1
			}
			if got := s.queue.Len(); got != want {
				t.Fatalf("%+v got %d changes of %s, want %d", s.topics, got, c.Ref, want)
			}
			s.Close()
		}
		if len(h.index) != 0 || h.count != 0 {
			t.Fatalf("%d topics, %d subscribers are left", len(h.index), h.count)
		}
	})
}

// TestLargeDocuments: what is remembered and what is taken at once is bounded by bytes, too. Who resumes after changes
// that are not remembered reads everything.
func TestLargeDocuments(t *testing.T) {
	h := NewHub(10, 1000)
	h.Publish(nil, 1)
	s := caughtUp(t, h, everyPolicy...)
	body := make([]byte, 2<<20)
	last := int64(ringBytes/len(body) + 2)
	for revision := int64(2); revision <= last; revision++ {
		c := put(fmt.Sprint(revision%5), revision)
		c.Body = body
		h.Publish([]Change{c}, revision)
	}
	var taken []int
	for n := 5; n > 0; {
		changes, resync, err := s.Next(t.Context(), 1000)
		if err != nil || resync {
			t.Fatalf("resync %v, %v", resync, err)
		}
		taken = append(taken, len(changes))
		n -= len(changes)
	}
	if !slices.Equal(taken, []int{2, 2, 1}) {
		t.Errorf("took %v", taken)
	}
	if h.recent.bytes > ringBytes {
		t.Errorf("%d bytes are remembered", h.recent.bytes)
	}
	for since, want := range map[int64]bool{last - 1: true, last: false} {
		back, err := h.Subscribe(everyPolicy, since)
		if err != nil {
			t.Fatal(err)
		}
		if _, resync := waiting(t, back); resync != want {
			t.Errorf("after %d of %d: resync %v", since, last, resync)
		}
		back.Close()
	}
}

func TestCoalescing(t *testing.T) {
	h := NewHub(3, 10)
	h.Publish(nil, 1)
	s := caughtUp(t, h, everyPolicy...)
	h.Publish([]Change{put("a", 2), put("b", 2)}, 2)
	h.Publish([]Change{put("c", 3)}, 3)
	h.Publish([]Change{put("a", 4)}, 4)
	if got, resync := waiting(t, s); resync || !slices.Equal(got, []int64{2, 3, 4}) {
		t.Errorf("got %v, resync %v: want b, c and then the newer a", got, resync)
	}
	for i := range 3 {
		h.Publish([]Change{put(fmt.Sprint(i), int64(5+i))}, int64(5+i))
	}
	h.Publish([]Change{put("d", 8)}, 8)
	if _, resync := waiting(t, s); !resync {
		t.Error("a full queue is not told")
	}
	h.Publish([]Change{put("d", 9)}, 9)
	s.Restart()
	h.Publish([]Change{put("e", 10)}, 10) // while everything is read
	h.Publish([]Change{put("f", 11)}, 11)
	s.Begin(10)
	if got, resync := waiting(t, s); resync || !slices.Equal(got, []int64{11}) {
		t.Errorf("after all was read: %v, resync %v", got, resync)
	}
	if c := h.Counts(); c.Overflows != 1 || c.Coalesced != 1 {
		t.Errorf("%+v", c)
	}
}

// TestWholeRevisions: a reader has all of a revision that is being published at once,
// or nothing: its token names the revision.
func TestWholeRevisions(t *testing.T) {
	h := NewHub(1000, 1000)
	h.Publish(nil, 1)
	for range 300 { // who are told in between
		caughtUp(t, h, everyPolicy...)
	}
	readers := make([]*Subscriber, 8)
	for i := range readers {
		readers[i] = caughtUp(t, h, everyPolicy...)
	}
	const last = 200
	var ended sync.WaitGroup
	for _, s := range readers {
		ended.Go(func() {
			for revision := int64(1); revision < last; {
				changes, resync, err := s.Next(t.Context(), 1000)
				if err != nil || resync {
					t.Errorf("resync %v, %v", resync, err)
					return
				}
				names := map[int64][]string{}
				for _, c := range changes {
					names[c.Revision] = append(names[c.Revision], c.Name)
				}
				for at, some := range names {
					if len(some) != 3 {
						t.Errorf("%v of revision %d: want all three", some, at)
						return
					}
				}
				revision = changes[len(changes)-1].Revision
			}
		})
	}
	for revision := int64(2); revision <= last; revision++ {
		var changes []Change
		for _, name := range []string{"a", "b", "c"} {
			changes = append(changes, put(fmt.Sprint(name, revision), revision))
		}
		h.Publish(changes, revision)
	}
	ended.Wait()
}

func TestResume(t *testing.T) {
	h := NewHub(10, 4)
	h.Publish([]Change{put("old", 3)}, 5)
	for r := int64(6); r <= 12; r++ {
		h.Publish([]Change{put(fmt.Sprint(r), r)}, r)
	}
	for since, want := range map[int64][]int64{12: nil, 10: {11, 12}, 8: {9, 10, 11, 12}, 20: nil} {
		s, err := h.Subscribe(everyPolicy, since)
		if err != nil {
			t.Fatal(err)
		}
		if got, resync := waiting(t, s); resync || !slices.Equal(got, want) {
			t.Errorf("since %d: %v, resync %v; want %v", since, got, resync, want)
		}
		s.Close()
	}
	for _, since := range []int64{0, 3, 7} {
		s, err := h.Subscribe(everyPolicy, since)
		if err != nil {
			t.Fatal(err)
		}
		if _, resync := waiting(t, s); !resync {
			t.Errorf("since %d: not told to read everything", since)
		}
		s.Close()
	}
	// A subscriber from a replica that is ahead does not get known changes again.
	ahead, err := h.Subscribe(everyPolicy, 14)
	if err != nil {
		t.Fatal(err)
	}
	defer ahead.Close()
	for r := int64(13); r <= 15; r++ {
		h.Publish([]Change{put("x", r)}, r)
	}
	if got, _ := waiting(t, ahead); !slices.Equal(got, []int64{15}) {
		t.Errorf("ahead: %v", got)
	}
}

// TestListing: a listing's changes are one revision, which is delivered whole, and before which nobody resumes. A
// subscriber with later knowledge than the listing's start reads everything.
func TestListing(t *testing.T) {
	h := NewHub(10, 10)
	h.PublishListing(nil, 90, false)
	h.Publish([]Change{put("old", 95)}, 100)
	current := caughtUp(t, h, everyPolicy...)
	subscribe := func(since int64) *Subscriber {
		t.Helper()
		s, err := h.Subscribe(everyPolicy, since)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	behind, within, ahead := subscribe(92), subscribe(115), subscribe(160)
	listed := []Change{put("a", 110), put("b", 120), {Ref: policy("old"), Revision: 150, Removed: true}}
	h.PublishListing(listed, 150, false)
	if listed[0].Revision != 110 {
		t.Error("the caller's changes are others now")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if changes, resync, err := current.Next(ctx, 1); err != nil || resync || len(changes) != 3 || changes[0].Revision != 150 || changes[0].Version != 110 || current.Floor() != 150 {
		t.Errorf("told %+v, resync %v, %v, up to %d: want all of the listing at once", changes, resync, err, current.Floor())
	}
	if got, resync := waiting(t, behind); resync || !slices.Equal(got, []int64{150, 150, 150}) { // one of them in the place of an older one
		t.Errorf("who was behind: %v, resync %v", got, resync)
	}
	if got, resync := waiting(t, within); !resync {
		t.Errorf("who was told of a revision within: %v, and need not read everything", got)
	}
	h.Publish([]Change{put("c", 155), put("d", 161)}, 161)
	if got, resync := waiting(t, ahead); resync || !slices.Equal(got, []int64{161}) {
		t.Errorf("who was ahead: %v, resync %v", got, resync)
	}
	for since, want := range map[int64]bool{99: true, 115: true, 149: true, 150: false, 155: false} {
		if _, resync := waiting(t, subscribe(since)); resync != want {
			t.Errorf("since %d: resync %v", since, resync)
		}
	}
}

// TestGoneBack: after a restore of the store all subscribers read everything. They then get changes, though with
// lower revisions.
func TestGoneBack(t *testing.T) {
	for name, c := range map[string]struct {
		revision int64
		rebuilt  bool
	}{"lower": {60, false}, "lower, of another epoch": {60, true}, "of another epoch": {120, true}} {
		h := NewHub(10, 10)
		h.PublishListing(nil, 90, false)
		h.Publish([]Change{put("a", 100)}, 100)
		s := caughtUp(t, h, everyPolicy...)
		reading := caughtUp(t, h, everyPolicy...)
		reading.Restart() // and has read a snapshot of before
		h.PublishListing([]Change{put("b", 50)}, c.revision, c.rebuilt)
		reading.Begin(100)
		if whole := h.whole.Load(); whole != c.revision {
			t.Errorf("%s: subscribers take what is up to %d", name, whole)
		}
		for who, s := range map[string]*Subscriber{"subscriber": s, "who is reading": reading} {
			if len(s.wake) != 1 {
				t.Errorf("%s: %s is not woken", name, who)
			}
			if got, resync := waiting(t, s); !resync {
				t.Errorf("%s: %s is told %v", name, who, got)
			}
			s.Restart()
			s.Begin(h.Revision())
		}
		next := c.revision + 1
		h.Publish([]Change{put("c", next)}, next)
		for who, s := range map[string]*Subscriber{"subscriber": s, "who is reading": reading} {
			if got, resync := waiting(t, s); resync || !slices.Equal(got, []int64{next}) || h.Revision() != next {
				t.Errorf("%s: %s is told %v, resync %v", name, who, got, resync)
			}
		}
		if back, err := h.Subscribe(everyPolicy, c.revision-1); err != nil {
			t.Error(err)
		} else if _, resync := waiting(t, back); !resync {
			t.Errorf("%s: resumed from before", name)
		} else {
			back.Close()
		}
	}
}

// TestResumeTooEarly: a replica that has published nothing yet does not know what was removed
// since a token.
func TestResumeTooEarly(t *testing.T) {
	h := NewHub(10, 10)
	s, err := h.Subscribe(everyPolicy, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, resync := waiting(t, s); !resync {
		t.Error("resumed from before the first listing")
	}
}

// TestStateIsRight: however slow a subscriber is, in the end it has the state, and it gets no version twice. It moves
// between a replica that hears every change and one that now and then lists what it has missed.
func TestStateIsRight(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		log := [][]Change{nil, nil} // by revision; the first two are none
		type replica struct {
			hub   *Hub
			at    int64
			state map[string]int64
		}
		var replicas [2]*replica
		for i := range replicas {
			replicas[i] = &replica{NewHub(rapid.IntRange(1, 6).Draw(t, "queue"), rapid.IntRange(1, 8).Draw(t, "remembered")), 1, map[string]int64{}}
			replicas[i].hub.PublishListing(nil, 1, false)
		}
		learn := func(state map[string]int64, changes []Change) {
			for _, c := range changes {
				if c.Removed {
					delete(state, c.Name)
				} else {
					state[c.Name] = c.Version
				}
			}
		}
		follow := func(r *replica) {
			for r.at++; r.at < int64(len(log)); r.at++ {
				learn(r.state, log[r.at])
				r.hub.Publish(log[r.at], r.at)
			}
			r.at--
		}
		relist := func(r *replica) {
			before := maps.Clone(r.state)
			at := r.at
			r.at = int64(len(log)) - 1
			for _, c := range log[at+1:] {
				learn(r.state, c)
			}
			var changes []Change
			for _, n := range all {
				is, there := r.state[n]
				switch was, known := before[n]; {
				case there && was != is:
					changes = append(changes, put(n, is))
				case known && !there:
					changes = append(changes, Change{Ref: policy(n), Revision: r.at, Removed: true})
				}
			}
			r.hub.PublishListing(changes, r.at, false)
		}
		known := map[string]int64{}
		on := replicas[0]
		s, err := on.hub.Subscribe(everyPolicy, 0)
		if err != nil {
			t.Fatal(err)
		}
		read := func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			changes, resync, _ := s.Next(ctx, rapid.IntRange(1, 3).Draw(t, "limit"))
			if resync {
				s.Restart()
				known = maps.Clone(on.state)
				s.Begin(on.at)
			}
			for _, c := range changes {
				if !c.Removed && c.Version <= known[c.Name] {
					t.Fatalf("%s at %d is told again", c.Name, c.Version)
				}
			}
			learn(known, changes)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				revision := int64(len(log))
				var changes []Change
				for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 3, rapid.ID).Draw(t, "names") {
					c := put(n, revision)
					c.Removed = rapid.Bool().Draw(t, "removed")
					changes = append(changes, c)
				}
				log = append(log, changes)
				follow(replicas[0])
			case 2:
				since := s.Floor()
				s.Close()
				on = replicas[rapid.IntRange(0, 1).Draw(t, "replica")]
				if s, err = on.hub.Subscribe(everyPolicy, since); err != nil {
					t.Fatal(err)
				}
			case 3:
				follow(replicas[1])
			case 4:
				relist(replicas[1])
			default:
				read()
			}
		}
		log = append(log, []Change{put("a", int64(len(log)))})
		follow(replicas[0])
		if rapid.Bool().Draw(t, "listed at last") {
			relist(replicas[1])
		} else {
			follow(replicas[1])
		}
		for range 80 {
			read()
		}
		if !maps.Equal(known, on.state) {
			t.Fatalf("knows %v of %v", known, on.state)
		}
		s.Close()
		for _, r := range replicas {
			if len(r.hub.index) != 0 || r.hub.count != 0 {
				t.Fatalf("%d topics, %d subscribers are left", len(r.hub.index), r.hub.count)
			}
		}
	})
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(10, 10)
		h.Publish(nil, 1)
		s := caughtUp(t, h, everyPolicy...)
		got := make(chan []Change)
		go func() {
			changes, _, err := s.Next(t.Context(), 10)
			if err != nil {
				t.Error(err)
			}
			got <- changes
		}()
		synctest.Wait()
		h.Publish([]Change{put("a", 2)}, 2)
		if changes := <-got; len(changes) != 1 {
			t.Errorf("%+v", changes)
		}
		ended := make(chan error)
		go func() { _, _, err := s.Next(t.Context(), 10); ended <- err }()
		synctest.Wait()
		h.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		if _, err := h.Subscribe(everyPolicy, 0); !errors.Is(err, ErrClosed) {
			t.Errorf("subscribed to a closed hub: %v", err)
		}
	})
}

// TestHandled: a revision is handled when all changes up to it were taken, and the subscriber comes for more.
func TestHandled(t *testing.T) {
	h := NewHub(10, 10)
	h.Publish(nil, 1)
	s := caughtUp(t, h, everyPolicy...)
	expect := func(what string, revision int64, want bool) {
		t.Helper()
		if s.Handled(revision) != want {
			t.Errorf("%s: %d is handled: %v", what, revision, !want)
		}
	}
	expect("nothing has changed", 1, true)
	expect("not published", 2, false)
	h.Publish([]Change{put("a", 2)}, 2)
	h.Publish([]Change{put("a", 3)}, 3)
	expect("in the queue, in a later form", 2, false)
	waiting(t, s)
	expect("taken", 3, false)
	waiting(t, s)
	expect("handled", 3, true)
	for i := range int64(11) {
		h.Publish([]Change{put(fmt.Sprint(i), 4+i)}, 4+i)
	}
	expect("too much", 3, false)
	waiting(t, s)
	expect("reads everything", 3, false)
	s.Restart()
	s.Begin(h.Revision())
	expect("has read everything", 14, false)
	waiting(t, s)
	expect("comes for more", 14, true)
}

// TestLongReason: what is cut of a reason is whole characters.
func TestLongReason(t *testing.T) {
	l, a := NewLedger(1, time.Minute), policy("a")
	l.Enter("one")
	l.Ack("one", &resource.Ack{Ref: a, Version: 1, State: resource.Refused, Reason: strings.Repeat("配", MaxReason)}, time.Unix(1000, 0))
	if got := l.Rollout(a, 1, 1).Holdings[0].Reason; got == "" || len(got) > MaxReason || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}

func TestLedger(t *testing.T) {
	l := NewLedger(6, time.Minute)
	now := time.Unix(1000, 0)
	a := policy("a")
	sent := func(client string, version int64) {
		l.Sent(client, &Change{Ref: a, Version: version}, now)
	}
	ack := func(client string, version int64, state resource.AckState) bool {
		return l.Ack(client, &resource.Ack{Ref: a, Version: version, State: state, Reason: "because"}, now)
	}
	for _, client := range []string{"1", "2", "3", "4"} {
		l.Enter(client)
		sent(client, 1)
		if client != "4" && !ack(client, 1, resource.Applied) {
			t.Errorf("%s: an ACK is no news", client)
		}
		sent(client, 2)
	}
	if !ack("1", 2, resource.Applied) || ack("1", 2, resource.Applied) || !ack("2", 2, resource.Refused) || ack("nobody", 2, resource.Applied) || ack("3", 1, resource.Applied) {
		t.Error("news is not told from what is none")
	}
	l.Leave("3", now)
	sent("1", 2) // again, after a reconnect
	got := l.Rollout(a, 2, 3)
	if got.Clients != 4 || got.Applied != 1 || got.Refused != 1 || got.Pending != 2 || !maps.Equal(got.Versions, map[int64]int{0: 1, 1: 2, 2: 1}) {
		t.Errorf("%+v", got)
	}
	if h := got.Holdings; len(h) != 3 || h[0].Client != "2" || h[0].Reason != "because" || h[0].Running != 1 || h[1].Client != "3" || h[1].Connected || !h[2].Connected {
		t.Errorf("%+v", got.Holdings)
	}

	l.Sweep(now.Add(time.Minute))
	if got := l.Rollout(a, 2, 10); got.Clients != 3 {
		t.Errorf("who is away stays: %+v", got)
	}
	l.Sent("1", &Change{Ref: a, Removed: true}, now)
	if got := l.Rollout(a, 2, 10); got.Clients != 2 {
		t.Errorf("what was removed is held: %+v", got)
	}
	for i := range 10 {
		l.Sent("1", &Change{Ref: policy(fmt.Sprint(i)), Version: 1}, now)
	}
	if n := l.Holdings(); n != 6 {
		t.Errorf("%d holdings", n)
	}
	if got := l.Rollout(a, 2, 10); got.Unrecorded != 6 {
		t.Errorf("%+v", got)
	}
}

// TestForget: what is forgotten leaves its room to what comes.
func TestForget(t *testing.T) {
	l := NewLedger(1, time.Hour)
	l.Enter("one")
	for version := range int64(3) {
		c := Change{Ref: put("a", 1).Ref, Version: version + 1}
		l.Sent("one", &c, time.Time{})
		if got := l.Rollout(c.Ref, c.Version, 1); got.Clients != 1 || got.Unrecorded != 0 {
			t.Errorf("version %d: %+v", c.Version, got)
		}
		l.Forget()
		if got := l.Rollout(c.Ref, c.Version, 1); got.Clients != 0 {
			t.Errorf("version %d is not forgotten: %+v", c.Version, got)
		}
	}
}
