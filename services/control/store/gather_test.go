package store

import (
	"context"
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

func TestDue(t *testing.T) {
	const ms = time.Millisecond
	came := func(at ...time.Duration) (waiting []*pending) {
		for _, a := range at {
			waiting = append(waiting, &pending{at: a})
		}
		return waiting
	}
	many := came(make([]time.Duration, crowd)...)
	for _, c := range []struct {
		name           string
		before, beside int
		back, now      time.Duration
		waiting        []*pending
		underway       int
		begin          bool
		wait           time.Duration
	}{
		{"nobody", 10, 10, 0, ms, nil, 0, false, 0},
		{"the first ever", 0, 0, 0, 0, came(0), 0, true, 0},
		{"one who is alone", 1, 0, 0, ms, came(ms), 0, true, 0},
		{"few", 2, 1, 0, ms, came(ms), 0, true, 0},
		{"many are expected", 8, 4, 0, ms, came(ms), 0, false, lull},
		{"and have come", 2, 2, 0, ms, came(ms, ms, ms, ms), 0, true, 0},
		{"nobody comes any more", 8, 4, 0, ms + lull, came(ms, ms), 0, true, 0},
		{"an answer just came", 8, 4, 2 * ms, 2 * ms, came(ms, ms), 0, false, lull},
		{"one after the other", 8, 4, 0, 3 * ms, came(ms/2, 3*ms), 0, false, ms / 2},
		{"for long enough", 8, 4, 0, linger + ms, came(ms, linger+ms), 0, true, 0},
		{"a crowd", 1000, 0, 0, ms, many, 0, true, 0},
		{"a crowd beside a group", 1000, 0, 0, ms, many, 1, true, 0},
		{"less beside a group", 8, 0, 0, ms, many[1:], 1, false, patience - ms},
		{"beside one that hangs", 8, 0, 0, patience, many[1:], 1, true, 0},
		{"no lane", 8, 0, 0, ms, many, 2, false, 0},
	} {
		g := gathering{lanes: 2, full: crowd, before: c.before, beside: c.beside, back: c.back}
		if begin, wait := g.due(c.now, c.waiting, c.underway); begin != c.begin || wait != c.wait {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, begin, wait, c.begin, c.wait)
		}
	}
}

// TestGroupSizes simulates clients and an etcd that takes a millisecond for a group. Clients that
// wait for their answers shall come to share groups, and no group shall wait for nobody; where
// changes come at a rate, groups shall be as large as linger allows.
func TestGroupSizes(t *testing.T) {
	const commit, turnaround = time.Millisecond, 50 * time.Microsecond
	// simulate returns the sizes of groups, and how often one began because time had passed.
	simulate := func(arrivals []time.Duration, closed bool, groups int) (sizes []int, late int) {
		type flight struct {
			back time.Duration
			size int
		}
		var (
			g        = gathering{lanes: 2, full: crowd}
			now      time.Duration
			waiting  []*pending
			underway []flight
		)
		for len(sizes) < groups && len(arrivals)+len(waiting)+len(underway) > 0 {
			begin, wait := g.due(now, waiting, len(underway))
			if begin {
				size := min(len(waiting), 256)
				underway = append(underway, flight{now + commit, size})
				sizes, g.before, waiting = append(sizes, size), size, waiting[size:]
				continue
			}
			next, timed := time.Duration(1<<62), wait > 0
			if timed {
				next = now + wait
			}
			if len(arrivals) > 0 && arrivals[0] <= next {
				next, timed = arrivals[0], false
			}
			if len(underway) > 0 && underway[0].back <= next {
				next, timed = underway[0].back, false
			}
			if timed {
				late++
			}
			now = next
			for len(arrivals) > 0 && arrivals[0] <= now {
				waiting = append(waiting, &pending{at: arrivals[0]})
				arrivals = arrivals[1:]
			}
			if len(underway) > 0 && underway[0].back <= now {
				g.back, g.beside = now, len(waiting)
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
	for _, clients := range []int{1, 2, 3, 4, 7, 16, 50} {
		arrivals := make([]time.Duration, clients)
		for i := range arrivals {
			arrivals[i] = time.Duration(i) * 90 * time.Microsecond
		}
		sizes, late := simulate(arrivals, true, 200)
		if late > 2 {
			t.Errorf("%d clients: %d groups waited for nobody", clients, late)
		}
		if clients >= siblings && slices.Max(sizes[100:]) != clients {
			t.Errorf("%d clients: groups of %d at most", clients, slices.Max(sizes[100:]))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for rate, least := range map[float64]int{100: 1, 1000: 1, 5000: 10, 20_000: 40} {
		var arrivals []time.Duration
		for at := 0.0; len(arrivals) < 20_000; at += random.ExpFloat64() / rate {
			arrivals = append(arrivals, time.Duration(at*1e9))
		}
		sizes, _ := simulate(arrivals, false, 1<<30)
		slices.Sort(sizes)
		if median := sizes[len(sizes)/2]; median < least || rate <= 1000 && median > 2 {
			t.Errorf("%v/s: the median group has %d changes, want %d or more", rate, median, least)
		}
	}
}

// watched tells of every transaction before it is carried out.
type watched struct {
	txns
	told func(*pb.TxnRequest)
}

func (w watched) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	w.told(in)
	return w.txns.Txn(ctx, in, opts...)
}

// TestGathered: what comes while a group is on its way goes to etcd together.
func TestGathered(t *testing.T) {
	s := opened(t, func(c *Config) { c.Lanes = 1 })
	const beside = 10
	entered, release := make(chan struct{}), make(chan struct{})
	var (
		once sync.Once
		mu   sync.Mutex // guards ops
		ops  []int
	)
	s.txns = watched{s.txns, func(in *pb.TxnRequest) {
		once.Do(func() { close(entered); <-release })
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, len(in.Success)-2) // the entry and the head
	}}
	var wg sync.WaitGroup
	wg.Go(func() { set(t, s, "s/first", "1") })
	<-entered
	for i := range beside {
		wg.Go(func() { set(t, s, fmt.Sprintf("s/%d", i), "1") })
	}
	for len(s.queue) < beside {
		select {
		case <-t.Context().Done():
			t.Fatal("they do not queue")
		default:
		}
	}
	close(release)
	wg.Wait()
	if !slices.Equal(ops, []int{1, beside}) {
		t.Errorf("transactions of %v changes", ops)
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
	wg.Go(func() { set(t, s, "s/first", "1") })
	<-entered
	set(t, s, "s/second", "1")
	close(release)
	wg.Wait()
}
