package engine

import (
	"fmt"
	"math"
	"time"

	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// Users who carry out a scenario. A user is no connection: each request goes over
// whichever connection is free, as in an open loop, or waits for one. In a closed loop there
// is a fixed number of users, who send, wait, think and send again. In an open loop an
// arrival is an iteration: of the user that has waited longest, or of a new one. It is dropped if
// there are as many users as there may be. The iteration's other requests are due when the last
// response is there and the pause is over. Each step has counts and times of its own over the whole
// window, and they add up to the whole. A body is looked at where it was read; one that comes in
// pieces is put together in memory that later responses use again.

// defaultUsers is how many users an open loop has at most.
const defaultUsers = 10_000

// MaxUsers bounds the users of one engine.
const MaxUsers = 1_000_000

// Users are those who carry out a scenario.
type Users struct {
	Scenario *scenario.Scenario

	// Count is how many there are in a closed loop, and the most there may be in an open
	// one, where an arrival for which there is none is dropped. Default: one for each exchange
	// that the connections carry at once, and 10,000 in an open loop.
	Count int

	// Answers says of which steps, by their number, the responses are answers of language
	// models. Their tokens are counted for each of them. Nil: of none.
	Answers []bool

	// Restart replaces users of a closed loop who have ended with new ones. In
	// an open loop they always are.
	Restart bool
}

func (u Users) withDefaults(c *Config) Users {
	switch {
	case u.Count != 0:
	case c.Schedule != nil:
		u.Count = max(1, share(defaultUsers, c.Shard.Index, c.Shard.Count))
	default:
		u.Count = c.Connections * c.Streams
	}
	return u
}

func (u *Users) faults(c *Config) (faults []error) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("engine: "+format, args...))
	}
	if u.Scenario == nil {
		fault("users: want a scenario that they carry out")
	}
	if u.Scenario != nil && u.Answers != nil && len(u.Answers) != len(u.Scenario.Steps()) {
		fault("users: %d steps are said to be answers or not, and there are %d", len(u.Answers), len(u.Scenario.Steps()))
	}
	if u.Answers != nil && c.Messages == nil {
		fault("users: answers of language models consist of messages, which are not timed")
	}
	if u.Count < c.Workers || u.Count > MaxUsers {
		fault("users %d: want at least one for each of %d workers, and at most %d", u.Count, c.Workers, MaxUsers)
	}
	if c.Subscribers != nil {
		fault("users: want none together with subscribers")
	}
	return faults
}

// A userPool is a worker's share of the users.
type userPool struct {
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
	timed    []uint8           // by step: its list, from 1; 0: it has no time of its own
	lists    []timedList
	response scenario.Response

	// Of the window.
	iterations uint64
	arrivals   uint64 // of an open loop
	turnedAway uint64 // those of them that found no user
	ended      uint64 // in the whole load: users who have ended
}

// A user is one of the users, and the response to its request.
type user struct {
	script   *scenario.User
	request  scenario.Request // the last one; its memory is used again
	failures uint8            // in a row, without a complete response
	over     bool             // it has ended

	// Of the response.
	wants    bool // its content
	borrowed bool // the body stands in memory of somebody else's
	headed   bool // mux: the header has come
	limit    int  // how much of the content is kept
	size     int64
	body     []byte // the content's beginning
	fields   []wire.MuxField
	values   []byte // of the fields
}

// newUserPool returns the share of worker n, whose recorder is to know its steps.
func (e *engine) newUserPool(n int, rec *record.Recorder) *userPool {
	c := &e.config
	if c.Users == nil || n >= min(c.Workers, c.Connections) {
		return nil
	}
	s := c.Users.Scenario
	r := &userPool{worker: s.Worker(c.shard(n), c.Seed), steps: s.Steps(), limit: share(c.Users.Count, n, c.Workers), restart: c.Users.Restart}
	r.trailers = len(s.TrailerNames()) > 0
	for i := range r.steps {
		rec.AddStep(r.steps[i].Name, c.Users.Answers != nil && c.Users.Answers[i])
	}
	if c.Schedule == nil {
		for range r.limit {
			r.all = append(r.all, user{script: r.worker.User()})
		}
		return r
	}
	r.free.Limit = r.limit
	return r
}

// take returns a user for an iteration that is due; none where there are as many as may be.
func (r *userPool) take() int32 {
	if r.free.Len() > 0 {
		return r.free.Pop()
	}
	if len(r.all) == r.limit {
		return none
	}
	r.all = append(r.all, user{script: r.worker.User()})
	return int32(len(r.all) - 1) //nolint:gosec // bounded by MaxUsers
}

// startUsers has the users of a closed loop begin.
func (w *worker) startUsers(at int64) {
	if w.cursor != nil {
		return
	}
	for n := range w.users.all {
		w.users.active++
		w.alarms.Set(at, int32(n)) //nolint:gosec // bounded by MaxUsers
	}
}

// startIteration makes a user carry out the iteration of an arrival.
func (w *worker) startIteration(intended int64) {
	n, measured := w.users.take(), w.rec.Window.PartOf(intended) == record.Inside
	if measured {
		w.users.arrivals++
	}
	if n == none {
		if measured {
			w.users.turnedAway++
		}
		w.rec.Drop(w.schedule(intended), w.starved)
		return
	}
	w.users.active++
	w.sendNext(n, intended, true)
}

// sendNext makes a user send the next request, which is due at a time: that of an arrival, or
// when the pause after the last one is over. It is the time, too, that the user knows.
func (w *worker) sendNext(n int32, intended int64, arrival bool) {
	r := w.users
	if intended >= w.rec.Window.End || (w.remaining == 0 && intended >= w.rec.Window.Start) {
		r.active--
		return
	}
	u := &r.all[n]
	send, err := w.nextRequest(n, u, intended, arrival)
	if !send {
		return
	}
	request := waiter{intended: intended, user: n, part: w.schedule(intended)}
	i := none
	if err == nil {
		i = w.idle()
	}
	switch {
	case err != nil:
		now := w.sockets.Clock.Now()
		w.failWaiting(request, now, err)
		w.failUser(n, now)
	case i != none:
		w.send(i, &w.conns[i], request, intended)
	case w.waiting.Push(request):
		w.openOneMore()
	default:
		w.dropRequest(request)
		w.failUser(n, w.sockets.Clock.Now())
	}
}

// A user whose steps are all skipped pauses after mostIdle iterations in a row.
const (
	mostIdle  = 100
	idlePause = 10 * time.Millisecond
)

// nextRequest makes a user prepare the next request. It returns false if there is none for now: the
// user has ended, the iteration of an arrival is over because its last steps were skipped, or the
// user pauses after many such iterations.
func (w *worker) nextRequest(n int32, u *user, intended int64, arrival bool) (send bool, failed *wire.Error) {
	r := w.users
	for range mostIdle {
		ok, err := u.script.Next(w.engine.epoch+intended, &u.request)
		if len(u.request.Skipped) > 0 && w.rec.Window.PartOf(intended) == record.Inside {
			for _, step := range u.request.Skipped {
				w.rec.Skip(step)
			}
		}
		switch {
		case !ok:
			w.endUser(u, intended)
			if r.worker.Dry() || !arrival && (!r.restart || w.cursor != nil) {
				w.releaseUser(n)
				return false, nil
			}
			u.script.Restart()
			u.over = false
		case !u.request.Idle:
			return true, err
		default:
			w.countIteration(intended)
			if w.cursor != nil {
				w.releaseUser(n)
				return false, nil
			}
		}
	}
	if w.cursor != nil {
		w.releaseUser(n)
	} else {
		w.alarms.Set(w.sockets.Clock.Now()+int64(idlePause), n)
	}
	return false, nil
}

// idle returns a connection that can carry one more request, or none. One that said so may
// learn otherwise from the bytes that are being read: it is asked again after those.
func (w *worker) idle() int32 {
	for k := len(w.idles); k > 0; k = len(w.idles) {
		i := w.idles[k-1]
		c := &w.conns[i]
		if w.free(c) > 0 {
			return i
		}
		w.removeIdle(c)
	}
	return none
}

// endUser notes that a user has ended. One who has no step left has carried out all of
// them, which is its iteration.
func (w *worker) endUser(u *user, now int64) {
	r := w.users
	if u.over {
		return
	}
	u.over = true
	r.ended++
	if !u.script.Dry() {
		w.countIteration(now)
	}
}

// countIteration counts an iteration that has ended.
func (w *worker) countIteration(now int64) {
	if w.rec.Window.Has(now) {
		w.users.iterations++
	}
}

// releaseUser ends an iteration for which there is nothing left to do. When no flow has rows any
// more, the arrivals of an open loop end, too.
func (w *worker) releaseUser(n int32) {
	r := w.users
	r.active--
	switch {
	case w.cursor == nil:
	case r.worker.Dry():
		w.due = never
	default:
		r.free.Push(n)
	}
}

// failWaiting accounts for a request that fails without a connection.
func (w *worker) failWaiting(r waiter, now int64, err error) {
	x := exchange{Request: record.Request{
		Intended: r.intended, Ready: now, Written: now, Part: r.part, Resends: r.resends, User: r.user, Status: record.NoStatus,
	}}
	if r.resends == 0 {
		w.rec.Sent(x.Part)
	}
	w.fail(&x, &w.conns[0], now, err)
}

// dropRequest accounts for a user's request that is not sent.
func (w *worker) dropRequest(r waiter) {
	w.rec.DropOf(w.users.stepOf(r.user), r.part, w.starved)
}

// stepOf returns the step that a user is at.
func (r *userPool) stepOf(n int32) int { return r.all[n].request.Step }

// failUser continues the user whose request got no response.
func (w *worker) failUser(n int32, now int64) {
	w.users.all[n].script.Failed()
	w.continueUser(n, now, false)
}

// continueUser continues the user whose request has ended, with a complete response or
// without. Users without one pause after failures in a row, as the others of a closed loop
// do, and never go on at once: the next failure would be a deeper call.
func (w *worker) continueUser(n int32, now int64, answered bool) {
	u := &w.users.all[n]
	if answered {
		u.failures = 0
	} else {
		u.failures = min(u.failures, math.MaxUint8-1) + 1
	}
	if u.script.Between() {
		w.countIteration(now)
		if w.cursor != nil {
			w.users.active--
			w.users.free.Push(n)
			return
		}
	}
	switch pause := int64(u.script.Pause(&u.request)); {
	case answered && pause == 0:
		w.sendNext(n, now, false)
	case answered:
		w.alarms.Set(now+pause, n)
	default:
		w.alarms.Set(now+max(pause, int64(w.backoff(u.failures))), n)
	}
}

// prepareResponse makes ready for the response to a user's request, be it sent the first time or once
// more.
func (r *userPool) prepareResponse(u *user) {
	r.giveBack(u)
	info := &r.steps[u.request.Step]
	u.wants, u.limit, u.size = info.WantsBody, info.MaxBody, 0
	u.headed, u.fields, u.values = false, u.fields[:0], u.values[:0]
}

// request puts together the request of an exchange whose connection carries one at a time.
func (w *worker) request(x *exchange, c *connection) []byte {
	switch {
	case w.follower != nil:
		outline, parts := w.followed(x.number)
		return c.client.(wire.Composer).Compose(outline, parts)
	case w.users == nil:
		return c.client.Request()
	}
	r := &w.users.all[x.User].request
	return c.client.(wire.Composer).Compose(r.Outline, r.Parts)
}

// collect takes in bytes of a response as the client does, and keeps of its content what the
// user wants.
func (r *userPool) collect(n int32, c wire.Client, p []byte) (used int, done bool, err error) {
	u := &r.all[n]
	if !u.wants || r.collects {
		return c.Response(p)
	}
	composer := c.(wire.Composer)
	for {
		n, size, done, err := composer.Content(p[used:])
		used += n
		if size == 0 {
			if !done {
				r.hold(u)
			}
			return used, done, err
		}
		r.keep(u, p[used:used+size])
		composer.Take(size)
		used += size
	}
}

// collected takes the content of a complete response from a client that has put it together.
func (r *userPool) collected(n int32, c wire.Client) {
	if u := &r.all[n]; u.wants && r.collects {
		body, size := c.(wire.Collector).Collected()
		r.giveBack(u)
		u.body, u.size, u.borrowed = body[:min(len(body), u.limit)], size, true
	}
}

// keep keeps a piece of the content, as far as it is wanted. The first piece is not copied.
func (r *userPool) keep(u *user, p []byte) {
	room := int64(u.limit) - u.size
	u.size += int64(len(p))
	switch p = p[:max(0, min(int64(len(p)), room))]; {
	case len(p) == 0:
	case len(u.body) == 0:
		r.giveBack(u)
		u.body, u.borrowed = p, true
	default:
		r.hold(u)
		u.body = append(u.body, p...)
	}
}

// hold copies the content that stands where other bytes will.
func (r *userPool) hold(u *user) {
	if !u.borrowed {
		return
	}
	var own []byte
	if k := len(r.spare); k > 0 {
		own, r.spare = r.spare[k-1], r.spare[:k-1]
	}
	u.body, u.borrowed = append(own, u.body...), false
}

// giveBack drops the content, whose memory others can use.
func (r *userPool) giveBack(u *user) {
	if !u.borrowed && cap(u.body) > 0 {
		r.spare = append(r.spare, u.body[:0])
	}
	u.body, u.borrowed = nil, false
}

// head keeps the fields of a header, or of what is after the content.
func (u *user) head(fields []wire.MuxField) {
	u.headed = true
	for _, f := range fields {
		begin := len(u.values)
		u.values = append(u.values, f.Value...)
		u.fields = append(u.fields, wire.MuxField{Name: f.Name, Value: u.values[begin:len(u.values):len(u.values)]})
	}
}

// takeMuxEvent keeps what an event of a mux says of a user's response.
func (r *userPool) takeMuxEvent(n int32, m wire.Mux, e *wire.MuxEvent) {
	u := &r.all[n]
	ended := e.Kind == wire.MuxEnded
	if e.Kind == wire.MuxHead || ended && (r.trailers || !u.headed && !e.Trailers) {
		u.head(m.Fields())
	}
	if !u.wants {
		return
	}
	if r.keep(u, e.Data); !ended {
		r.hold(u)
	}
}

// judge gives a user a complete response, and returns what is wrong with it.
func (w *worker) judge(n int32, status int16, fields []wire.MuxField, now int64) error {
	u := &w.users.all[n]
	r := &w.users.response
	*r = scenario.Response{Status: int(status), Header: fields, Body: u.body, Size: u.size}
	failure := u.script.Response(w.engine.epoch+now, r)
	w.users.giveBack(u)
	if failure != nil {
		return failure
	}
	return nil
}

// result returns what became of the users.
func (c *userPool) result() *record.UsersResult {
	u := &record.UsersResult{
		Count: c.limit, Started: c.worker.Users(), Ended: c.ended, Iterations: c.iterations, Arrivals: c.arrivals, TurnedAway: c.turnedAway,
		FailedLogins: c.worker.FailedLogins(), Misses: c.worker.Misses(nil),
	}
	for i := range c.all {
		if isOpen := c.free.Limit > 0; !isOpen && c.all[i].script.LoggedOut() {
			u.LoggedOut++
		}
	}
	return u
}
