// Package users makes users carry out a scenario: what each sends next, when, and what becomes of the
// response. It knows neither connections nor the loop that sends the requests.
//
// A user is no connection: each request goes over
// whichever connection is free, as in an open loop, or waits for one. In a closed loop there
// is a fixed number of users, who send, wait, think and send again. In an open loop an
// arrival is an iteration: of the user that has waited longest, or of a new one. It is dropped if
// there are as many users as there may be. The iteration's other requests are due when the last
// response is there and the pause is over. Each step has counts and times of its own over the whole
// window, and they add up to the whole. A body is looked at where it was read; one that comes in
// pieces is put together in memory that later responses use again.
package users

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// Max bounds the users of one engine.
const Max = 1_000_000

// A Config says who carries out a scenario.
type Config struct {
	Scenario *scenario.Scenario

	// Count is the number of users in a closed loop. In an open loop it is the most users; an arrival
	// without a free one is dropped. Default: one for each exchange that the connections carry at once,
	// and 10,000 in an open loop.
	Count int

	// Answers says, by step number, which responses are answers of language models. Their tokens are
	// counted for each of them. Nil: none.
	Answers []bool

	// Restart replaces users of a closed loop who have ended with new ones. In
	// an open loop they always are.
	Restart bool

	// Flow is the flow of the scenario that all users carry out, from 1. Default 0: each takes one by weight.
	Flow int

	// Iterations are how many users of a closed loop begin in the window, and IterationsEach how many each of them
	// begins. Then the load ends. Default 0: no such limit.
	Iterations, IterationsEach uint64

	// Observe is called by a worker's thread with each response that a user has got, and with what is wrong with it.
	// It keeps nothing of the response. Default none.
	Observe func(u *scenario.User, r *scenario.Response, failure error)
}

// Validate reports every fault of the configuration at once. With defaults, it is for a number of
// workers.
func (c *Config) Validate(workers int) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("engine: "+format, args...))
	}
	if c.Scenario == nil {
		fault("users: want a scenario that they carry out")
	}
	if c.Scenario != nil && c.Answers != nil && len(c.Answers) != len(c.Scenario.Steps()) {
		fault("users: %d steps are said to be answers or not, and there are %d", len(c.Answers), len(c.Scenario.Steps()))
	}
	if c.Count < workers || c.Count > Max {
		fault("users %d: want at least one for each of %d workers, and at most %d", c.Count, workers, Max)
	}
	return errors.Join(faults...)
}

// A Pool is a worker's share of the users. The worker's thread alone uses it.
type Pool struct {
	rec   *record.Recorder
	clock *clock.Clock
	epoch int64 // the clock's zero, in Unix time
	open  bool  // an arrival is an iteration

	observe func(*scenario.User, *scenario.Response, error)
	worker  *scenario.Worker
	steps   []scenario.Info
	all     []user // those that there have been so far
	limit   int
	restart bool
	active  int // users with a request or a pause before one

	free     queue.FIFO[int32] // open loop: users who wait for an arrival, the longest wait first
	spare    [][]byte          // buffers for content, that no response needs
	collects bool              // clients are wire.Collectors
	trailers bool              // a step looks at trailing metadata
	pauses   queue.Timers      // of those who pause
	response scenario.Response

	left      uint64 // iterations that users may still begin in the window
	each      uint64 // and how many each user may
	bounded   bool   // there is a limit to either
	iterating int    // users in an iteration

	// Counts of the window.
	iterations uint64
	arrivals   uint64 // of an open loop
	turnedAway uint64 // arrivals dropped because no user was free
	ended      uint64 // in the whole load: users who have ended
}

// A user is one of the scenario's users, and the response to its request.
type user struct {
	script    *scenario.User
	request   scenario.Request // the last one; its memory is used again
	failures  uint8            // in a row, without a complete response
	over      bool             // it has ended
	iterating bool             // it is in an iteration
	started   uint64           // iterations in the window

	// State of the response.
	wants    bool // its content
	borrowed bool // the body stands in memory that others own
	headed   bool // mux: the header has come
	limit    int  // how much of the content is kept
	size     int64
	body     []byte // the content's beginning
	fields   []wire.MuxField
	values   []byte // of the fields
}

// A Share is what one worker has of the users.
type Share struct {
	Config
	IsBounded bool // there are no more than the share of the Iterations, which may be none
	Shard     pace.Shard
	Seed      uint64
	Open      bool  // an arrival is an iteration
	Epoch     int64 // the clock's zero, in Unix time
	Clock     *clock.Clock
	Recorder  *record.Recorder
}

// New returns the pool of a worker's users.
func New(s *Share) *Pool {
	p := &Pool{
		rec: s.Recorder, clock: s.Clock, epoch: s.Epoch, open: s.Open, observe: s.Observe, worker: s.Scenario.Worker(s.Shard, s.Seed), steps: s.Scenario.Steps(),
		limit: s.Count, restart: s.Restart, trailers: len(s.Scenario.TrailerNames()) > 0, pauses: queue.NewTimers(s.Count),
		left: math.MaxUint64, each: cmp.Or(s.IterationsEach, math.MaxUint64), bounded: s.IsBounded || s.IterationsEach > 0,
	}
	if s.IsBounded {
		p.left = s.Iterations
	}
	if s.Flow > 0 {
		p.worker.Only(s.Flow - 1)
	}
	for i := range p.steps {
		p.rec.AddStep(p.steps[i].Name, s.Answers != nil && s.Answers[i])
	}
	if p.open {
		p.free.Limit = p.limit
		return p
	}
	for range p.limit {
		p.all = append(p.all, user{script: p.worker.User()})
	}
	return p
}

// HaveCollected says that the clients put the content of responses together themselves.
func (p *Pool) HaveCollected() { p.collects = true }

// Count returns how many users there are, or may be in an open loop.
func (p *Pool) Count() int { return p.limit }

// Timeouts returns the time that each step has for its response; 0 where it has none of its own.
func (p *Pool) Timeouts() []time.Duration {
	timeouts := make([]time.Duration, len(p.steps))
	for i, s := range p.steps {
		timeouts[i] = s.Timeout
	}
	return timeouts
}

// Step returns the step that a user is at.
func (p *Pool) Step(n int32) int { return p.all[n].request.Step }

// Request returns the request that a user has prepared last.
func (p *Pool) Request(n int32) *scenario.Request { return &p.all[n].request }

// Active tells whether a user has a request, or a pause before one.
func (p *Pool) Active() bool { return p.active > 0 }

// Finished tells whether the users have carried out as many iterations as they may.
func (p *Pool) Finished() bool { return p.bounded && p.active == 0 }

// Iterating tells whether any user is in an iteration.
func (p *Pool) Iterating() bool { return p.iterating > 0 }

// IsBetween tells whether a user is between two iterations.
func (p *Pool) IsBetween(n int32) bool { return !p.all[n].iterating }

// Dry tells whether all flows have run out of rows.
func (p *Pool) Dry() bool { return p.worker.Dry() }

// Err returns what was wrong with the users' data; nil if nothing was.
func (p *Pool) Err() error { return p.worker.Err() }

// Start makes the users of a closed loop begin.
func (p *Pool) Start(at int64) {
	for n := range p.all {
		p.active++
		p.Pause(int32(n), at) //nolint:gosec // bounded by the number of users
	}
}

// Arrive returns a user for the iteration of an arrival: one who waits for one, a new one, or
// queue.None where there are as many as may be.
func (p *Pool) Arrive(intended int64) int32 {
	measured := p.rec.Window.PartOf(intended) == record.Inside
	if measured {
		p.arrivals++
	}
	var n int32
	switch {
	case p.free.Len() > 0:
		n = p.free.Pop()
	case len(p.all) < p.limit:
		n = int32(len(p.all)) //nolint:gosec // bounded by the number of users
		p.all = append(p.all, user{script: p.worker.User()})
	default:
		if measured {
			p.turnedAway++
		}
		return queue.None
	}
	p.active++
	return n
}

// A user whose steps are all skipped pauses after mostIdle iterations in a row.
const (
	mostIdle  = 100
	idlePause = 10 * time.Millisecond
)

// Next makes a user prepare the next request, which is due at a time. It returns false if there is none
// for now: the user has ended, remaining steps of an arrival's iteration were skipped, or the user
// pauses after many such iterations.
func (p *Pool) Next(n int32, intended int64, arrival bool) (send bool, failed *wire.Error) {
	u := &p.all[n]
	for range mostIdle {
		if !u.iterating && !p.begin(u, intended) {
			p.release(n)
			return false, nil
		}
		ok, err := u.script.Next(p.epoch+intended, &u.request)
		if len(u.request.Skipped) > 0 && p.rec.Window.PartOf(intended) == record.Inside {
			for _, step := range u.request.Skipped {
				p.rec.Skip(step)
			}
		}
		switch {
		case !ok:
			p.end(u, intended)
			if p.worker.Dry() || !arrival && (!p.restart || p.open) {
				p.release(n)
				return false, nil
			}
			u.script.Restart()
			u.over = false
		case !u.request.Idle:
			return true, err
		default:
			p.countIteration(u, intended)
			if p.open {
				p.release(n)
				return false, nil
			}
		}
	}
	if p.open {
		p.release(n)
	} else {
		p.Pause(n, p.clock.Now()+int64(idlePause))
	}
	return false, nil
}

// end notes that a user has ended. One who has no step left has carried out all of
// them, which is its iteration.
func (p *Pool) end(u *user, now int64) {
	if u.over {
		return
	}
	u.over = true
	p.ended++
	if u.script.Dry() {
		p.leave(u)
	} else {
		p.countIteration(u, now)
	}
}

// begin makes a user begin an iteration, unless there were enough.
func (p *Pool) begin(u *user, intended int64) bool {
	if p.rec.Window.PartOf(intended) == record.Inside {
		if p.left == 0 || u.started == p.each {
			return false
		}
		p.left--
		u.started++
	}
	u.iterating = true
	p.iterating++
	return true
}

// leave makes a user leave its iteration.
func (p *Pool) leave(u *user) {
	if u.iterating {
		u.iterating = false
		p.iterating--
	}
}

// countIteration counts an iteration that has ended.
func (p *Pool) countIteration(u *user, now int64) {
	p.leave(u)
	if p.rec.Window.Has(now) {
		p.iterations++
	}
}

// release ends an iteration for which there is nothing left to do.
func (p *Pool) release(n int32) {
	p.active--
	if p.open && !p.worker.Dry() {
		p.free.Push(n)
	}
}

// Stop notes that a user sends no more.
func (p *Pool) Stop(n int32) {
	p.leave(&p.all[n])
	p.active--
}

// Renew replaces a user who has left with a new one.
func (p *Pool) Renew(n int32) {
	p.leave(&p.all[n])
	if !p.worker.Dry() {
		p.all[n].script.Restart()
	}
}

// Fail tells a user that its request got no response.
func (p *Pool) Fail(n int32) { p.all[n].script.Failed() }

// Ended notes that the request of a user has ended, with a complete response or without. It returns
// how long the user pauses, unless its iteration is over and the next one is another arrival's.
func (p *Pool) Ended(n int32, now int64, answered bool) (pause int64, goesOn bool) {
	u := &p.all[n]
	if answered {
		u.failures = 0
	} else {
		u.failures = min(u.failures, math.MaxUint8-1) + 1
	}
	if u.script.Between() {
		p.countIteration(u, now)
		if p.open {
			p.active--
			p.free.Push(n)
			return 0, false
		}
	}
	return int64(u.script.Pause(&u.request)), true
}

// Failures returns how many requests of a user in a row had no complete response.
func (p *Pool) Failures(n int32) uint8 { return p.all[n].failures }

// Pause makes a user pause until a time.
func (p *Pool) Pause(n int32, until int64) { p.pauses.Set(n, until) }

// NextPause returns when the first pause is over: the end of time if there is none.
func (p *Pool) NextPause() int64 { return p.pauses.Next() }

// EndPause ends the first pause, and returns whose it was and until when. A user must pause.
func (p *Pool) EndPause() (n int32, until int64) { return p.pauses.Pop() }

// PrepareResponse makes ready for the response to a user's request, be it sent the first time or once
// more.
func (p *Pool) PrepareResponse(n int32) {
	u := &p.all[n]
	p.giveBack(u)
	info := &p.steps[u.request.Step]
	u.wants, u.limit, u.size = info.WantsBody, info.MaxBody, 0
	u.headed, u.fields, u.values = false, u.fields[:0], u.values[:0]
}

// Collect takes in bytes of a response as the client does, and keeps the content that the user wants.
func (p *Pool) Collect(n int32, c wire.Client, b []byte) (used int, done bool, err error) {
	u := &p.all[n]
	if !u.wants || p.collects {
		return c.Response(b)
	}
	composer := c.(wire.Composer)
	for {
		n, size, done, err := composer.Content(b[used:])
		used += n
		if size == 0 {
			if !done {
				p.hold(u)
			}
			return used, done, err
		}
		p.keep(u, b[used:used+size])
		composer.Take(size)
		used += size
	}
}

// Collected takes the content of a complete response from a client that has put it together.
func (p *Pool) Collected(n int32, c wire.Client) {
	if u := &p.all[n]; u.wants && p.collects {
		body, size := c.(wire.Collector).Collected()
		p.giveBack(u)
		u.body, u.size, u.borrowed = body[:min(len(body), u.limit)], size, true
	}
}

// keep keeps a piece of the content, as far as it is wanted. The first piece is not copied.
func (p *Pool) keep(u *user, b []byte) {
	room := int64(u.limit) - u.size
	u.size += int64(len(b))
	switch b = b[:max(0, min(int64(len(b)), room))]; {
	case len(b) == 0:
	case len(u.body) == 0:
		p.giveBack(u)
		u.body, u.borrowed = b, true
	default:
		p.hold(u)
		u.body = append(u.body, b...)
	}
}

// hold copies the content that stands where other bytes will.
func (p *Pool) hold(u *user) {
	if !u.borrowed {
		return
	}
	var own []byte
	if k := len(p.spare); k > 0 {
		own, p.spare = p.spare[k-1], p.spare[:k-1]
	}
	u.body, u.borrowed = append(own, u.body...), false
}

// giveBack drops the content, whose memory others can use.
func (p *Pool) giveBack(u *user) {
	if !u.borrowed && cap(u.body) > 0 {
		p.spare = append(p.spare, u.body[:0])
	}
	u.body, u.borrowed = nil, false
}

// head keeps the fields of a header or trailer section.
func (u *user) head(fields []wire.MuxField) {
	u.headed = true
	for _, f := range fields {
		begin := len(u.values)
		u.values = append(u.values, f.Value...)
		u.fields = append(u.fields, wire.MuxField{Name: f.Name, Value: u.values[begin:len(u.values):len(u.values)]})
	}
}

// TakeMuxEvent keeps what an event of a mux says of a user's response.
func (p *Pool) TakeMuxEvent(n int32, m wire.Mux, e *wire.MuxEvent) {
	u := &p.all[n]
	ended := e.Kind == wire.MuxEnded
	if e.Kind == wire.MuxHead || ended && (p.trailers || !u.headed && !e.Trailers) {
		u.head(m.Fields())
	}
	if !u.wants {
		return
	}
	if p.keep(u, e.Data); !ended {
		p.hold(u)
	}
}

// Fields returns the fields of the response of a mux.
func (p *Pool) Fields(n int32) []wire.MuxField { return p.all[n].fields }

// Judge gives a user a complete response, and returns what is wrong with it.
func (p *Pool) Judge(n int32, status int16, fields []wire.MuxField, now int64) error {
	u := &p.all[n]
	p.response = scenario.Response{Status: int(status), Header: fields, Body: u.body, Size: u.size, Decoded: p.collects}
	var err error
	if failure := u.script.Response(p.epoch+now, &p.response); failure != nil {
		err = failure
	}
	if p.observe != nil {
		p.observe(u.script, &p.response, err)
	}
	p.giveBack(u)
	return err
}

// Result returns what became of the users.
func (p *Pool) Result() *record.UsersResult {
	u := &record.UsersResult{
		Count: p.limit, Started: p.worker.Users(), Ended: p.ended, Iterations: p.iterations, Arrivals: p.arrivals, TurnedAway: p.turnedAway,
		FailedLogins: p.worker.FailedLogins(), Misses: p.worker.Misses(nil),
	}
	for i := range p.all {
		if !p.open && p.all[i].script.LoggedOut() {
			u.LoggedOut++
		}
	}
	return u
}
