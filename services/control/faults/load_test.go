package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What clients do.
const (
	clients     = 8
	watchers    = 6
	pace        = 10 * time.Millisecond // of a client's operations, while answers keep up
	attemptTime = 2 * time.Second       // of one attempt
	attempts    = 5                     // of a write that may be repeated

	// Clients go on to other resources after a number of writes, so that the history of each is
	// kept whole.
	keysTogether   = 8
	writesTogether = 1500
)

// A load is clients and watchers, and what they were told.
type load struct {
	start   time.Time
	seed    uint64
	callers []*caller     // of each replica
	asked   atomic.Int64  // writes
	changed chan struct{} // holds one

	mu         sync.Mutex // guards what follows
	operations []operation
	made       [clients]int64 // writes of each that were acknowledged
	invalid    []string       // what nobody should be told
	watches    map[string][]sight
	newest     map[string]map[string]int64 // by watcher: versions by key
}

func newLoad(t *testing.T, c *cluster, seed uint64) *load {
	t.Helper()
	l := &load{start: time.Now(), seed: seed, changed: make(chan struct{}, 1), watches: map[string][]sight{}, newest: map[string]map[string]int64{}}
	for i := range size {
		l.callers = append(l.callers, newCaller(c.http[i]))
	}
	t.Cleanup(func() {
		for _, c := range l.callers {
			c.close()
		}
	})
	return l
}

func (l *load) now() int64 { return int64(time.Since(l.start)) }

// keys are all that were written so far.
func (l *load) keys() (keys []string) {
	for set := range l.asked.Load()/writesTogether + 1 {
		for i := range keysTogether {
			keys = append(keys, keyOf(set, i))
		}
	}
	return keys
}

func keyOf(set int64, i int) string {
	return []string{"config", "policy"}[i%2] + fmt.Sprintf("/k%d-%d", set, i)
}

// note writes down an operation.
func (l *load) note(o operation, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.invalid != "" {
		l.invalid = append(l.invalid, fmt.Sprintf("client %d: %s", o.client, a.invalid))
	}
	l.operations = append(l.operations, o)
	if o.client < clients && o.value != "" && o.outcome == done {
		l.made[o.client]++
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// A holding is what a client knows of a resource.
type holding struct {
	state
	tag string
}

// client reads and writes until ctx ends.
func (l *load) client(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(n))) //nolint:gosec // a number of a client
	at := n % size
	known := map[string]holding{}
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	asking := context.WithoutCancel(ctx) // what was begun is brought to its end
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if random.IntN(20) == 0 {
			at = random.IntN(size)
		}
		key := keyOf(l.asked.Load()/writesTogether, random.IntN(keysTogether))
		o := operation{client: n, key: key}
		var a answer
		if random.IntN(5) < 2 {
			o.call = l.now()
			a = l.callers[at].get(asking, key)
		} else {
			l.asked.Add(1)
			o.value = fmt.Sprintf("%d.%d", n, i)
			a, at = l.write(asking, &o, known, at, random)
		}
		o.ret, o.outcome, o.seen, o.revision = l.now(), a.outcome, a.seen, a.revision
		l.note(o, a)
		if o.value != "" && a.outcome == done && random.IntN(2) == 0 {
			// Another replica knows it, too, and at once.
			elsewhere := operation{client: n, key: key, call: l.now()}
			found := l.callers[(at+1+random.IntN(size-1))%size].get(asking, key)
			elsewhere.ret, elsewhere.outcome, elsewhere.seen = l.now(), found.outcome, found.seen
			l.note(elsewhere, found)
		}
		switch a.outcome {
		case done:
			known[key] = holding{a.seen, a.tag}
		case refused:
			delete(known, key)
		default:
			delete(known, key)
			at = (at + 1) % size
		}
	}
}

// write makes a write, mostly on condition of the version that the client knows. After an unknown outcome it repeats
// every second one with the same key.
func (l *load) write(ctx context.Context, o *operation, known map[string]holding, at int, random *rand.Rand) (answer, int) {
	d := demand{key: o.key, value: o.value}
	if h, ok := known[o.key]; ok && random.IntN(3) > 0 {
		o.on = &h.state
		d.tag, d.mustBeNew = h.tag, h.version == 0
	}
	if random.IntN(2) == 0 {
		d.idempotency = "key-" + o.value
	}
	o.call = l.now()
	a := l.callers[at].put(ctx, d)
	uncertain := false
	for try := 1; d.idempotency != "" && try < attempts && (a.outcome == unknown || a.outcome == undone); try++ {
		uncertain = uncertain || a.outcome == unknown
		pause(ctx, 10*pace)
		at = (at + 1) % size
		a = l.callers[at].put(ctx, d)
	}
	if uncertain && a.outcome == undone {
		a.outcome = unknown
	}
	return a, at
}

// watcher watches, from one replica after the other, until ctx ends.
func (l *load) watcher(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(clients+n))) //nolint:gosec // a number of a watcher
	name := fmt.Sprint("watcher ", n)
	token := ""
	see := func(s sight, given string) {
		s.at = l.now()
		if s.kind == resync {
			token = ""
		}
		if given != "" {
			token = given
			s.token = revisionOf(given)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watches[name] = append(l.watches[name], s)
		switch s.kind {
		case resync:
			l.newest[name] = map[string]int64{}
		case changed:
			l.newest[name][s.key] = s.version
		}
	}
	for at := n; ctx.Err() == nil; at = random.IntN(size) {
		life, cancel := context.WithTimeout(ctx, time.Duration(300+random.IntN(3000))*time.Millisecond)
		see(sight{kind: started, token: revisionOf(token)}, "")
		_ = l.callers[at%size].watch(life, token, see) // it is cut off, in one way or another
		cancel()
		pause(ctx, 5*pace)
	}
}

// ask sends a request to a replica. problem is the kind of a refusal.
func (l *load) ask(ctx context.Context, at int, method, path, body, key string) (out outcome, problem string, doc map[string]json.RawMessage) {
	r, err := l.callers[at].request(ctx, method, path, body)
	if err != nil {
		panic(err) // all texts are the test's
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.GetBody = nil
	code, _, text, sent := l.callers[at].ask(r)
	_ = json.Unmarshal(text, &doc) // what is no document has no fields
	kind := string(doc["type"])
	switch {
	case !sent:
		return undone, "", nil
	case code == 0 || code == http.StatusGatewayTimeout:
		return unknown, "", nil
	case code < 300:
		return done, "", doc
	case code == http.StatusNotFound || code == http.StatusPreconditionFailed || strings.Contains(kind, ":held"):
		return refused, kind[strings.LastIndexByte(kind, ':')+1 : len(kind)-1], nil
	case code == http.StatusServiceUnavailable || code == http.StatusInsufficientStorage || code == http.StatusConflict:
		return undone, "", nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalid = append(l.invalid, fmt.Sprintf("%s %s: %d %s", method, path, code, text))
	return undone, "", nil
}

// insist repeats a change until a replica makes it, or ctx ends.
func (l *load) insist(ctx context.Context, at int, method, path, body string) {
	for ctx.Err() == nil {
		if out, _, _ := l.ask(ctx, at, method, path, body, ""); out == done {
			return
		}
		pause(ctx, pace)
	}
}

// await waits until something is so, and guards against a hang.
func (l *load) await(ctx context.Context, is func() bool) bool {
	guard := time.NewTimer(time.Minute)
	defer guard.Stop()
	for {
		l.mu.Lock()
		so := is()
		l.mu.Unlock()
		if so {
			return true
		}
		select {
		case <-l.changed:
		case <-time.After(pace):
		case <-guard.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// awaitWrites waits until a write of every client was acknowledged that began after now.
func (l *load) awaitWrites(ctx context.Context) bool {
	l.mu.Lock()
	before := l.made
	l.mu.Unlock()
	return l.await(ctx, func() bool {
		for i, n := range l.made {
			if n < before[i]+2 {
				return false
			}
		}
		return true
	})
}

// end reads everything, from every replica, and returns the versions that there were.
func (l *load) end(t *testing.T) map[string][]version {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	truth := map[string][]version{}
	for _, key := range l.keys() {
		for i := range size {
			o := operation{client: clients + i, key: key, call: l.now()}
			a := l.callers[i].get(ctx, key)
			for ; a.outcome != done && ctx.Err() == nil; a = l.callers[i].get(ctx, key) {
				pause(ctx, pace)
				o.call = l.now()
			}
			o.ret, o.outcome, o.seen = l.now(), a.outcome, a.seen
			l.note(o, a)
			if a.outcome != done {
				t.Errorf("replica %d does not answer in the end: %s", i, a.invalid)
			}
		}
		versions, err := l.callers[0].history(ctx, key)
		for ; err != nil && ctx.Err() == nil; versions, err = l.callers[0].history(ctx, key) {
			pause(ctx, pace)
		}
		if err != nil {
			t.Errorf("history of %s: %v", key, err)
		}
		truth[key] = versions
	}
	return truth
}

// caughtUp reports whether all watchers know the newest version of every resource.
func (l *load) caughtUp(truth map[string][]version) bool {
	if len(l.newest) < watchers {
		return false
	}
	for _, newest := range l.newest {
		for key, versions := range truth {
			if newest[key] != int64(len(versions)) {
				return false
			}
		}
	}
	return true
}
