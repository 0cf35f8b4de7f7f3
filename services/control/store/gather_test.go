package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// usual is what a group of the embedded etcd may have.
var usual = capacity{256, maxGroupBytes, embeddedOps}

func TestDue(t *testing.T) {
	const ms = time.Millisecond
	came := func(at ...time.Duration) (waiting []*pending) {
		for _, a := range at {
			waiting = append(waiting, &pending{at: a, size: 100, request: Request{Then: make([]Op, 2)}})
		}
		return waiting
	}
	since := func(began ...time.Duration) []time.Duration { return began }
	many := came(make([]time.Duration, pipelineThreshold)...)
	large := came(ms, ms)
	large[0].size = maxGroupBytes
	for _, c := range []struct {
		name           string
		before, queued int
		back, now      time.Duration
		waiting        []*pending
		underway       []time.Duration
		most           capacity
		begin          bool
		wait           time.Duration
	}{
		{"nobody", 10, 10, 0, ms, nil, nil, usual, false, 0},
		{"the first ever", 0, 0, 0, 0, came(0), nil, usual, true, 0},
		{"one who is alone", 1, 0, 0, ms, came(ms), nil, usual, true, 0},
		{"few", 2, 1, 0, ms, came(ms), nil, usual, true, 0},
		{"many are expected", 8, 4, 0, ms, came(ms), nil, usual, false, idleGap},
		{"and were, long ago", 8, 4, 0, 10 * ms, came(10 * ms), nil, usual, true, 0},
		{"and have come", 2, 2, 0, ms, came(ms, ms, ms, ms), nil, usual, true, 0},
		{"nobody comes any more", 8, 4, 0, ms + idleGap, came(ms, ms), nil, usual, true, 0},
		{"an answer just came", 8, 4, 2 * ms, 2 * ms, came(ms, ms), nil, usual, false, idleGap},
		{"one after the other", 8, 4, 0, 3 * ms, came(ms/2, 3*ms), nil, usual, false, ms / 2},
		{"for long enough", 8, 4, 0, maxDelay + ms, came(ms, maxDelay+ms), nil, usual, true, 0},
		{"a large batch", 1000, 0, 0, ms, many, nil, usual, true, 0},
		{"a large batch next to a group", 1000, 0, 0, ms, many, since(0), usual, true, 0},
		{"less next to a group", 8, 0, 0, 4 * ms, many[1:], since(3 * ms), usual, false, stallAfter - ms},
		{"next to one that hangs", 1, 0, 0, stallAfter, came(stallAfter), since(0), usual, true, 0},
		{"next to two, one of which hangs", 1, 0, 0, stallAfter, came(stallAfter), since(2*ms, 0), capacity{256, maxGroupBytes, embeddedOps}, false, 2 * ms},
		{"as many bytes as a group may have", 8, 0, 0, ms, large, since(0), usual, true, 0},
		{"as many operations", 8, 0, 0, ms, came(ms, ms, ms), since(0), capacity{64, maxGroupBytes, 8}, true, 0},
		{"fewer operations", 8, 0, 0, ms, came(ms, ms), since(0), capacity{64, maxGroupBytes, 8}, false, stallAfter - ms},
		{"as many as a group may have", 8, 0, 0, ms, came(ms, ms), since(0), capacity{2, maxGroupBytes, embeddedOps}, true, 0},
		{"no lane", 8, 0, 0, ms, many, since(0, 0, 0), usual, false, 0},
	} {
		g := gathering{maxInflight: 3, most: c.most, before: c.before, queued: c.queued, back: c.back, underway: c.underway}
		if begin, wait := g.due(c.now, c.waiting); begin != c.begin || wait != c.wait {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, begin, wait, c.begin, c.wait)
		}
	}
}

// simulate is an etcd that takes a millisecond for a group, and clients that make changes at times;
// those of a closed loop make the next one soon after each answer. It returns the sizes of groups,
// and how often one began because time had passed.
func simulate(arrivals []time.Duration, closed bool, groups int) (sizes []int, late int) {
	const commit, turnaround = time.Millisecond, 50 * time.Microsecond
	type flight struct {
		began time.Duration
		size  int
	}
	var (
		g        = gathering{maxInflight: 2, most: usual}
		now      time.Duration
		waiting  []*pending
		underway []flight
	)
	for len(sizes) < groups && len(arrivals)+len(waiting)+len(underway) > 0 {
		begin, wait := g.due(now, waiting)
		if begin {
			size := min(len(waiting), usual.requests)
			underway = append(underway, flight{now, size})
			g.began(now, size)
			sizes, waiting = append(sizes, size), waiting[size:]
			continue
		}
		next, timed := time.Duration(1<<62), wait > 0
		if timed {
			next = now + wait
		}
		if len(arrivals) > 0 && arrivals[0] <= next {
			next, timed = arrivals[0], false
		}
		if len(underway) > 0 && underway[0].began+commit <= next {
			next, timed = underway[0].began+commit, false
		}
		if timed {
			late++
		}
		now = next
		for len(arrivals) > 0 && arrivals[0] <= now {
			waiting = append(waiting, &pending{at: arrivals[0]})
			arrivals = arrivals[1:]
		}
		if len(underway) > 0 && underway[0].began+commit <= now {
			g.ended(underway[0].began, now)
			g.queued = len(waiting)
			if closed {
				for i := range underway[0].size {
					arrivals = append(arrivals, now+time.Duration(i+1)*turnaround)
				}
				slices.Sort(arrivals)
			}
			underway = underway[1:]
		}
	}
	return sizes, late
}

// TestGroupSizes: clients that wait for their answers come to share groups, and no group waits for
// nobody; where changes come at a rate, groups become as large as maxDelay allows.
func TestGroupSizes(t *testing.T) {
	for _, clients := range []int{1, 2, 3, 4, 7, 16, 50} {
		arrivals := make([]time.Duration, clients)
		for i := range arrivals {
			arrivals[i] = time.Duration(i) * 90 * time.Microsecond
		}
		sizes, late := simulate(arrivals, true, 200)
		if late > 2 {
			t.Errorf("%d clients: %d groups waited for nobody", clients, late)
		}
		if clients >= minBatch && slices.Max(sizes[100:]) != clients {
			t.Errorf("%d clients: groups of %d at most", clients, slices.Max(sizes[100:]))
		}
	}
	for _, c := range []struct {
		rate        float64
		least, most int
	}{{100, 1, 1}, {1000, 1, 2}, {5000, 9, 30}, {20_000, 40, 128}} {
		random := rand.New(rand.NewPCG(1, 2))
		var arrivals []time.Duration
		for at := 0.0; len(arrivals) < 20_000; at += random.ExpFloat64() / c.rate {
			arrivals = append(arrivals, time.Duration(at*1e9))
		}
		sizes, _ := simulate(arrivals, false, 1<<30)
		slices.Sort(sizes)
		if median := sizes[len(sizes)/2]; median < c.least || median > c.most {
			t.Errorf("%v/s: the median group has %d changes, want %d to %d", c.rate, median, c.least, c.most)
		}
	}
}

// watched tells of every transaction before it is carried out.
type watched struct {
	txns
	answered func(*pb.TxnRequest)
}

func (w watched) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	w.answered(in)
	return w.txns.Txn(ctx, in, opts...)
}

// queued waits until n requests wait for the group in flight.
func queued(t *testing.T, s *Store, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(s.queue) < n; {
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", len(s.queue), n)
		}
	}
}

// TestGathered: what comes while a group is on its way goes to etcd together.
func TestGathered(t *testing.T) {
	s := opened(t, func(c *Config) { c.MaxInflightTxns = 1 })
	const waiting = 10
	entered, release := make(chan struct{}), make(chan struct{})
	var (
		once sync.Once
		mu   sync.Mutex // guards changes
	)
	var changes []int
	s.txns = watched{s.txns, func(in *pb.TxnRequest) {
		once.Do(func() { close(entered); <-release })
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, len(in.Success)-2) // without the entry and the head
	}}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { set(t, s, "s/first", "1") })
	<-entered
	for i := range waiting {
		wg.Go(func() { set(t, s, fmt.Sprintf("s/%d", i), "1") })
	}
	queued(t, s, waiting)
	close(release)
	wg.Wait()
	if !slices.Equal(changes, []int{1, waiting}) {
		t.Errorf("transactions of %v changes", changes)
	}
}

// TestHangingGroup: a group that hangs does not hold up what comes behind it.
func TestHangingGroup(t *testing.T) {
	s := opened(t, nil)
	entered, release := make(chan struct{}), make(chan struct{})
	var hangs atomic.Bool
	s.txns = watched{s.txns, func(*pb.TxnRequest) {
		if hangs.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
	}}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(release)
	wg.Go(func() { set(t, s, "s/first", "1") })
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 20 {
		if o, err := s.Apply(ctx, Request{Then: []Op{{Key: fmt.Sprintf("s/%d", i)}}}); err != nil || !o.Done {
			t.Fatalf("%+v, %v", o, err)
		}
	}
}

// away is an etcd that does not answer.
type away struct {
	txns
	groups *atomic.Int64 // that it was sent, attempt by attempt
}

func (a away) Txn(ctx context.Context, _ *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	a.groups.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestWaitingBehindOthers: where etcd does not answer, nobody waits for all who came before.
func TestWaitingBehindOthers(t *testing.T) {
	s := opened(t, func(c *Config) { c.MaxInflightTxns, c.GroupRequests, c.Timeout = 1, 1, 300*time.Millisecond })
	var groups atomic.Int64
	s.txns = away{s.txns, &groups}
	const clients = 50
	var wg sync.WaitGroup
	var unsent atomic.Int64
	for i := range clients {
		wg.Go(func() {
			_, err := s.Apply(t.Context(), Request{Then: []Op{{Key: fmt.Sprintf("s/%d", i)}}})
			switch {
			case errors.Is(err, ErrUnavailable):
				unsent.Add(1)
			case !errors.Is(err, ErrUncertain):
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if n := groups.Load(); n > clients || unsent.Load() < clients/2 {
		t.Errorf("%d attempts, %d of %d were not sent", n, unsent.Load(), clients)
	}
}
