package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A step is what a client did with a lock or a counter. Kinds are acquire, release, read, end and add.
type step struct {
	client    int
	kind, key string
	session   string // whose lock; of a read, who has it
	outcome   outcome
	number    int64 // the token, or the counter's value
	call, ret int64
}

// A held lock is its session and token; a session that ended has none any more. A counter has only the number.
type held struct {
	session string
	number  int64
	last    int64  // the largest token so far
	ended   string // sessions that have, each with a space behind it
}

// lockModel is one lock or counter. Tokens grow, and a lock has one session. What is of unknown outcome happens at any
// time, or after everything.
var lockModel = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		is, o := state.(held), input.(step)
		switch o.kind {
		case "add":
			is.number++
			return o.outcome == unknown || o.number == is.number, is
		case "end":
			is.ended += o.session + " "
			if is.session == o.session {
				is.session = ""
			}
			return true, is
		case "read":
			return o.session == is.session && is.knows(o.number), is.with(o.number)
		case "release":
			mine := is.session == o.session
			if mine && o.outcome != refused {
				is.session = ""
			}
			return o.outcome == unknown || mine == (o.outcome == done), is
		}
		ended := strings.Contains(is.ended, o.session+" ")
		free := is.session == "" && !ended
		switch {
		case o.outcome == refused:
			return is.session != "" && is.session != o.session, is
		case is.session == o.session:
			return o.outcome == unknown || is.knows(o.number), is.with(o.number)
		case free && (o.outcome == unknown || o.number > is.last):
			is.session, is.number = o.session, 0
			return true, is.with(o.number)
		}
		return o.outcome == unknown, is
	},
}

// knows reports whether the lock may have a token: that of an acquisition of unknown outcome is not known yet.
func (h held) knows(token int64) bool {
	return h.session == "" && token == 0 || h.number == token && token > 0 || h.session != "" && h.number == 0 && token > h.last
}

func (h held) with(token int64) held {
	if token > 0 {
		h.number, h.last = token, token
	}
	return h
}

// judgeLocks returns what is wrong with steps.
func judgeLocks(steps []step, patience time.Duration) []string {
	byKey := map[string][]porcupine.Operation{}
	for _, s := range steps {
		byKey[s.key] = append(byKey[s.key], porcupine.Operation{ClientId: s.client, Input: s, Call: s.call, Return: s.ret})
	}
	return explain(lockModel, byKey, patience)
}

// explain returns the histories that no order explains.
func explain(model porcupine.Model, byKey map[string][]porcupine.Operation, patience time.Duration) (faults []string) {
	for key, part := range byKey {
		if got := porcupine.CheckOperationsTimeout(model, part, patience); got != porcupine.Ok {
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			text := fmt.Sprintf("%s: %s: no order explains what clients were told:\n", key, got)
			for _, p := range part {
				text += fmt.Sprintf("  %+v\n", p.Input)
			}
			faults = append(faults, text)
		}
	}
	return faults
}

// TestJudgeLocks: what can be is taken for right, and what cannot is refused.
func TestJudgeLocks(t *testing.T) {
	acquire := func(from, to int64, session string, o outcome, token int64) step {
		return step{kind: "acquire", key: "l", session: session, outcome: o, number: token, call: from, ret: to}
	}
	release := func(from, to int64, session string, o outcome) step {
		return step{kind: "release", key: "l", session: session, outcome: o, call: from, ret: to}
	}
	end := func(from int64, session string) step {
		return step{kind: "end", key: "l", session: session, call: from, ret: math.MaxInt64}
	}
	read := func(from, to int64, session string, token int64) step {
		return step{kind: "read", key: "l", session: session, number: token, outcome: done, call: from, ret: to}
	}
	add := func(from, to int64, o outcome, value int64) step {
		return step{kind: "add", key: "c", outcome: o, number: value, call: from, ret: to}
	}
	for name, c := range map[string]struct {
		steps []step
		right bool
	}{
		"one after the other":     {[]step{acquire(0, 1, "a", done, 5), acquire(2, 3, "b", refused, 0), release(4, 5, "a", done), acquire(6, 7, "b", done, 6), read(8, 9, "b", 6)}, true},
		"repeated":                {[]step{acquire(0, 1, "a", unknown, 0), acquire(2, 3, "a", done, 5), acquire(4, 5, "a", done, 5)}, true},
		"of unknown outcome":      {[]step{acquire(0, math.MaxInt64, "a", unknown, 0), acquire(2, 3, "b", refused, 0), read(4, 5, "a", 5), end(4, "a"), acquire(6, 7, "b", done, 6)}, true},
		"never made":              {[]step{acquire(0, math.MaxInt64, "a", unknown, 0), acquire(2, 3, "b", done, 5), read(4, 5, "b", 5)}, true},
		"a session ends":          {[]step{acquire(0, 1, "a", done, 5), end(0, "a"), acquire(2, 3, "b", done, 6), read(4, 5, "b", 6)}, true},
		"free":                    {[]step{read(0, 1, "", 0), release(2, 3, "a", refused)}, true},
		"counted":                 {[]step{add(0, 1, done, 1), add(0, 1, done, 2), add(2, math.MaxInt64, unknown, 0), add(4, 5, done, 4)}, true},
		"held twice":              {[]step{acquire(0, 1, "a", done, 5), acquire(2, 3, "b", done, 6)}, false},
		"held after its end":      {[]step{acquire(0, 1, "a", done, 5), end(0, "a"), acquire(2, 3, "b", done, 6), acquire(4, 5, "a", done, 5)}, false},
		"back after its end":      {[]step{acquire(0, 1, "a", done, 5), end(0, "a"), acquire(2, 3, "b", done, 6), release(4, 5, "b", done), acquire(6, 7, "a", done, 7)}, false},
		"a token that is smaller": {[]step{acquire(0, 1, "a", done, 5), release(2, 3, "a", done), acquire(4, 5, "b", done, 4)}, false},
		"another token":           {[]step{acquire(0, 1, "a", done, 5), acquire(2, 3, "a", done, 6)}, false},
		"refused by nobody":       {[]step{acquire(0, 1, "a", refused, 0)}, false},
		"stale read":              {[]step{acquire(0, 1, "a", done, 5), release(2, 3, "a", done), read(4, 5, "a", 5)}, false},
		"released by another":     {[]step{acquire(0, 1, "a", done, 5), release(2, 3, "b", done)}, false},
		"counted twice":           {[]step{add(0, 1, done, 1), add(2, 3, done, 3)}, false},
		"lost":                    {[]step{add(0, 1, done, 1), add(2, 3, done, 1)}, false},
	} {
		if faults := judgeLocks(c.steps, time.Minute); (len(faults) == 0) != c.right {
			t.Errorf("%s: %q", name, faults)
		}
	}
}

// What clients of locks do.
const (
	lockClients = 4
	locksAtOnce = 2
	sessionTTL  = 3 // seconds: faults last about as long
	stepsOfLock = 400
)

// lockLoad is clients of locks and counters.
type lockLoad struct {
	*load
	mu      sync.Mutex // guards what follows
	steps   []step
	token   map[string]int64  // the largest that the server of the test took, by lock
	wrong   []string          // tokens that should not be
	holders map[string]string // whose each token is, with its lock
	fates   map[outcome]int
	ended   int
}

func newLockLoad(l *load) *lockLoad {
	return &lockLoad{load: l, token: map[string]int64{}, holders: map[string]string{}, fates: map[outcome]int{}}
}

func (l *lockLoad) add(steps ...step) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, steps...)
	for _, s := range steps {
		if s.kind == "end" {
			l.ended++
		} else {
			l.fates[s.outcome]++
		}
	}
	return len(l.steps)
}

// guard is a resource that locks guard: it refuses smaller tokens. No token is of two sessions.
func (l *lockLoad) guard(key, session string, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := fmt.Sprint(key, " ", token)
	if had := l.holders[of]; had != "" && had != session {
		l.wrong = append(l.wrong, fmt.Sprintf("token %s is of sessions %s and %s", of, had, session))
	}
	l.holders[of] = session
	if token < l.token[key] {
		return // refused: the lock has been lost meanwhile
	}
	l.token[key] = token
}

func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // "" without one
	return text
}

// client uses locks and counters until ctx ends, with one session after the other.
func (l *lockLoad) client(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(1000+n))) //nolint:gosec // a number of a client
	asking := context.WithoutCancel(ctx)
	var session string
	alive := map[string]int64{} // the call of the session's last successful step, by lock
	renewed := int64(0)         // the call of its last renewal
	steps := 0
	over := func(by int64) {
		for key, call := range alive {
			l.add(step{client: n, kind: "end", key: key, session: session, call: max(call, renewed), ret: by})
		}
		session, alive, renewed = "", map[string]int64{}, 0
	}
	defer over(math.MaxInt64)
	for i := 0; ctx.Err() == nil; i++ {
		pause(ctx, 2*pace)
		at := random.IntN(size)
		if session == "" {
			if out, _, doc := l.ask(asking, at, "POST", "/v1/sessions", fmt.Sprintf(`{"ttl_seconds":%d}`, sessionTTL), ""); out == done {
				session = textOf(doc["id"])
			}
			continue
		}
		if random.IntN(40) == 0 { // it is left alone, and ends by itself
			over(math.MaxInt64)
			continue
		}
		key := fmt.Sprintf("lock%d-%d", steps/stepsOfLock, random.IntN(locksAtOnce))
		s := step{client: n, kind: "acquire", key: key, session: session, call: l.now()}
		ended := false
		switch random.IntN(6) {
		case 0:
			out, _, _ := l.ask(asking, at, "POST", "/v1/sessions/"+session+"/renew", "", "")
			if ended = out == refused; out == done {
				renewed = s.call
			}
			s.kind = ""
		case 1:
			s.kind, s.key, s.session = "add", "counter", ""
			var doc map[string]json.RawMessage
			s.outcome, _, doc = l.ask(asking, at, "POST", "/v1/counters/"+key, `{"add":1}`, fmt.Sprint("add-", n, ".", i))
			_ = json.Unmarshal(doc["value"], &s.number) // checked with the others
			s.key = "counter " + key
		case 2:
			s.kind, s.session = "read", ""
			var doc map[string]json.RawMessage
			s.outcome, _, doc = l.ask(asking, at, "GET", "/v1/locks/"+key, "", "")
			s.session = textOf(doc["session"])
			_ = json.Unmarshal(doc["token"], &s.number) // 0 of none
			if s.outcome == refused {
				s.outcome = done
			} else if s.outcome != done {
				s.kind = ""
			}
		case 3:
			s.kind = "release"
			s.outcome, _, _ = l.ask(asking, at, "DELETE", "/v1/locks/"+key+"?session="+session, "", "")
		default:
			body := fmt.Sprintf(`{"session":%q,"wait_seconds":%v}`, session, float64(random.IntN(3))/20)
			var problem string
			var doc map[string]json.RawMessage
			alive[key] = max(alive[key], 0)
			s.outcome, problem, doc = l.ask(asking, at, "PUT", "/v1/locks/"+key, body, "")
			_ = json.Unmarshal(doc["token"], &s.number) // 0 of none
			if ended = problem == "missing"; ended {
				s.kind = ""
			}
			if s.outcome == done {
				alive[key] = s.call
				l.guard(key, session, s.number)
			}
		}
		s.ret = l.now()
		if s.outcome == unknown && !ended {
			s.ret = math.MaxInt64
		}
		if s.kind != "" && s.outcome != undone {
			steps = l.add(s)
		}
		if ended {
			over(s.ret)
		}
	}
}
