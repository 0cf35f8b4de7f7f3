package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Instances with checks. A third of their servers always answers, a third refuses from some moment on, and a third
// refuses now and then.
const (
	checkedInstances = 12
	lookPace         = 3 * pace
	flipPause        = time.Second / 2 // at most
)

// A target is the server of an instance, as its checks find it.
type target struct {
	flips  []int64 // when it began to refuse, and to answer again, in turns: not before the instance was shown as healthy
	shown  int64   // when that was first; before, it is critical
	checks int
	last   int64         // when it was last checked
	pause  time.Duration // the longest between two checks
}

func (t target) refuses() bool { return len(t.flips)%2 == 1 }

// A look is the health of an instance that a replica showed. from and to are the times of the request and the response.
type look struct {
	replica, instance int
	critical          bool
	from, to          int64
}

// judgeChecks returns what is wrong with looks:
//
//   - an instance whose server has always answered is never critical after it was healthy;
//   - one whose server refuses from some moment on is never healthy after it was critical, at any replica.
func judgeChecks(looks []look, targets []target) (faults []string) {
	lost := map[int]int64{} // the first response after the server's end that shows the instance as critical
	for _, l := range looks {
		t := targets[l.instance]
		switch {
		case len(t.flips) == 0 && l.critical && t.shown > 0 && l.from > t.shown:
			faults = append(faults, fmt.Sprintf("replica %d shows instance %d as critical at %d: its server has always answered", l.replica, l.instance, l.to))
		case len(t.flips) == 1 && l.critical && l.from > t.flips[0]:
			if first, ok := lost[l.instance]; !ok || l.to < first {
				lost[l.instance] = l.to
			}
		}
	}
	for _, l := range looks {
		if first, ok := lost[l.instance]; ok && !l.critical && l.from > first {
			faults = append(faults, fmt.Sprintf("replica %d shows instance %d as healthy at %d, and it was critical at %d: its server refuses all along", l.replica, l.instance, l.to, first))
		}
	}
	return faults
}

// unsettled returns which instances have not been checked since a time, or are not shown by a replica as they are since then.
func unsettled(looks []look, targets []target, since int64) (list []string) {
	newest := map[[2]int]look{}
	for _, l := range slices.Backward(looks) {
		if l.to <= since {
			break
		}
		if at := [2]int{l.replica, l.instance}; l.from > since && newest[at].from == 0 {
			newest[at] = l
		}
	}
	for n, t := range targets {
		if t.last <= since {
			list = append(list, fmt.Sprintf("instance %d is not checked any more", n))
		}
		for replica := range size {
			if l, ok := newest[[2]int{replica, n}]; !ok || l.critical != t.refuses() {
				list = append(list, fmt.Sprintf("replica %d shows instance %d as critical: %v, and its server refuses: %v", replica, n, l.critical, t.refuses()))
			}
		}
	}
	return list
}

// TestJudgeChecks: what can be is taken for right, and what cannot is refused.
func TestJudgeChecks(t *testing.T) {
	shows := func(critical bool, from, to int64) look { return look{critical: critical, from: from, to: to} }
	for name, c := range map[string]struct {
		flips []int64
		looks []look
		right bool
	}{
		"always healthy":                     {nil, []look{shows(false, 1, 2), shows(false, 3, 4)}, true},
		"critical until the first check":     {nil, []look{shows(true, 0, 1), shows(true, 1, 3), shows(false, 1, 2)}, true},
		"refuses, and is critical":           {[]int64{5}, []look{shows(false, 1, 2), shows(false, 6, 7), shows(true, 8, 9), shows(true, 10, 11)}, true},
		"two at once, while it changes":      {[]int64{5}, []look{shows(true, 6, 9), shows(false, 7, 8)}, true},
		"answers again":                      {[]int64{5, 10}, []look{shows(true, 6, 7), shows(false, 8, 9), shows(true, 11, 12)}, true},
		"critical without a reason":          {nil, []look{shows(false, 1, 2), shows(true, 3, 4)}, false},
		"healthy after it was critical":      {[]int64{5}, []look{shows(true, 6, 7), shows(false, 8, 9)}, false},
		"healthy elsewhere, a little before": {[]int64{5}, []look{shows(false, 8, 9), shows(true, 6, 7), shows(true, 10, 11)}, false},
	} {
		if faults := judgeChecks(c.looks, []target{{flips: c.flips, shown: 2}}); (len(faults) == 0) != c.right {
			t.Errorf("%s: %q", name, faults)
		}
	}
	for name, c := range map[string]struct {
		target target
		shown  [size]bool
		at     int64
		want   int
	}{
		"healthy":              {target{last: 6}, [size]bool{}, 7, 0},
		"critical":             {target{flips: []int64{4}, last: 6}, [size]bool{true, true, true}, 7, 0},
		"not at one replica":   {target{flips: []int64{4}, last: 6}, [size]bool{true, false, true}, 7, 1},
		"not checked any more": {target{last: 5}, [size]bool{}, 7, 1},
		"not shown any more":   {target{last: 6}, [size]bool{}, 5, size},
	} {
		var looks []look
		for replica, critical := range c.shown {
			looks = append(looks, shows(critical, c.at, c.at))
			looks[replica].replica = replica
		}
		if got := unsettled(looks, []target{c.target}, 5); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// checkLoad is instances with checks, their servers, and who looks at them.
type checkLoad struct {
	*load
	mu      sync.Mutex // guards what follows
	targets [checkedInstances]target
	still   bool // servers do not change what they answer
	looks   []look
}

// newCheckLoad begins to answer checks. The servers are on the replicas' own machines: a replica that is cut off reaches them.
func newCheckLoad(t *testing.T, c *cluster, l *load) *checkLoad {
	t.Helper()
	one := &checkLoad{load: l}
	listeners, err := c.listenNextToReplicas()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: one, ReadHeaderTimeout: attemptTime}
	var served sync.WaitGroup
	for _, at := range listeners {
		served.Go(func() { _ = server.Serve(at) }) // it is closed
	}
	t.Cleanup(func() {
		_ = server.Close() // nobody asks any more
		served.Wait()
	})
	return one
}

// ServeHTTP answers a check.
func (l *checkLoad) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || n < 0 || n >= checkedInstances {
		http.NotFound(w, r)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one, now := &l.targets[n], l.now()
	if one.checks > 0 {
		one.pause = max(one.pause, time.Duration(now-one.last))
	}
	one.checks, one.last = one.checks+1, now
	if one.refuses() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// register registers the instances, each at one replica.
func (l *checkLoad) register(ctx context.Context, c *cluster) {
	host, port, _ := net.SplitHostPort(c.checked) // it is the test's
	for n := range checkedInstances {
		l.insist(ctx, n%size, http.MethodPut, fmt.Sprint("/v1/services/checked/instances/", n),
			fmt.Sprintf(`{"address":%q,"port":%s,"checks":[{"type":"http","path":"/%d","interval_seconds":1,"timeout_seconds":1}]}`, host, port, n))
	}
}

// flip changes what servers answer, until ctx ends.
func (l *checkLoad) flip(ctx context.Context) {
	random := rand.New(rand.NewPCG(l.seed, 2000)) //nolint:gosec // a number of a client
	for {
		pause(ctx, time.Duration(1+random.Int64N(int64(flipPause))))
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		n := random.IntN(checkedInstances)
		if one := &l.targets[n]; one.shown > 0 && !l.still && (n%3 == 2 || n%3 == 1 && len(one.flips) == 0) {
			one.flips = append(one.flips, l.now())
		}
		l.mu.Unlock()
	}
}

// watch looks at what a replica shows, until ctx ends.
func (l *checkLoad) watch(ctx context.Context, replica int) {
	for ; ctx.Err() == nil; pause(ctx, lookPace) {
		from := l.now()
		out, _, doc := l.ask(ctx, replica, http.MethodGet, "/v1/services/checked/instances?limit=100", "", "")
		to := l.now()
		var items []struct{ ID, Health string }
		if out != done || json.Unmarshal(doc["items"], &items) != nil {
			continue
		}
		l.mu.Lock()
		for _, i := range items {
			n, _ := strconv.Atoi(i.ID) // the test's own
			critical := i.Health == "critical"
			if one := &l.targets[n]; !critical && one.shown == 0 {
				one.shown = to
			}
			l.looks = append(l.looks, look{replica, n, critical, from, to})
		}
		l.mu.Unlock()
	}
}

// setStill has servers stay as they are, or go on to change.
func (l *checkLoad) setStill(still bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.still = still
}

// settle waits until all instances have been checked since a time, and all replicas show them as they are.
func (l *checkLoad) settle(ctx context.Context, since int64) (faults []string) {
	l.setStill(true)
	defer l.setStill(false)
	l.await(ctx, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		faults = unsettled(l.looks, l.targets[:], since)
		return len(faults) == 0
	})
	return faults
}

// summary says what was checked and judged.
func (l *checkLoad) summary() string {
	checks, longest, changes := 0, time.Duration(0), 0
	for _, t := range l.targets {
		checks += t.checks
		longest = max(longest, t.pause)
	}
	shown := map[int]bool{}
	for _, one := range slices.SortedFunc(slices.Values(l.looks), func(a, b look) int { return int(a.to - b.to) }) {
		if before, ok := shown[one.instance]; ok && before != one.critical {
			changes++
		}
		shown[one.instance] = one.critical
	}
	return fmt.Sprintf("checks: %d made of %d instances, %v apart at most, %d changes of health in %d answers", checks, checkedInstances, longest.Round(time.Millisecond), changes, len(l.looks))
}
