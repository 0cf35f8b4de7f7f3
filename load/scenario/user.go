package scenario

import (
	"bytes"
	"errors"
	"html"
	"math/bits"
	"net/url"
	"regexp"
	"time"

	"dyno/internal/contentcoding"
	"dyno/load/feed"
	"dyno/load/jsonpath"
	"dyno/load/pace"
	"dyno/load/scenario/cookie"
	"dyno/load/scenario/template"
	"dyno/load/wire"
)

// A Worker holds what the users of one worker of the engine share: their part of the data
// and of the counters, and memory to work in. It and its users are for one goroutine at a
// time.
type Worker struct {
	s       *Scenario
	seed    uint64
	users   uint64 // so far
	started uint64 // iterations
	flows   uint64 // that have users of workers of their own
	only    uint64 // the worker's, where there are several

	template template.Worker
	cursors  []*feed.Cursor
	dry      []bool   // by flow: a user of it has found no row
	left     choice   // of the flows that are not dry; no weights: there is none
	ordered  []uint64 // by flow: steps carried out so far, if they go in order
	misses   []uint64
	failed   uint64 // log-ins
	err      error

	decoded  []byte // a JSON string of a response
	coding   []byte // of a response's body
	plain    Response
	varying  []byte // what stands in the places of a body that is encoded
	places   [][]byte
	expected []byte // what an assertion compares with
}

// Seeds of the users' flows, of their own numbers and of the feeds, which must have
// nothing in common.
const (
	seedFlows = iota + 1
	seedUsers
	seedFeeds
)

// Worker returns a worker with its shard of users, counters and data. With other shards of
// as many, in this process or others, and the same seed it shares them out: no row,
// counter or user number is used twice. Worker panics if the shard is not valid.
func (s *Scenario) Worker(shard pace.Shard, seed uint64) *Worker {
	if err := shard.Validate(); err != nil {
		panic("scenario: " + err.Error())
	}
	w := &Worker{
		s: s, seed: pace.Mix(seed), flows: 1,
		template: template.Worker{Shard: shard, Counters: make([]uint64, s.counters)}, misses: make([]uint64, len(s.misses)),
		dry: make([]bool, len(s.flows)), left: s.users, ordered: make([]uint64, len(s.flows)),
	}
	for i, f := range s.feeds {
		w.cursors = append(w.cursors, f.table.Cursor(shard, f.order, pace.Mix(w.seed+seedFeeds)+uint64(i), f.end))
	}
	return w
}

// Only has all users carry out one flow, as other workers have those of the other flows. It is called before there are
// any.
func (w *Worker) Only(flow int) {
	w.flows, w.only = uint64(len(w.dry)), uint64(flow) //nolint:gosec // a few
	for i := range w.dry {
		w.dry[i] = i != flow
	}
	w.left = w.s.users.without(w.dry)
}

// Users returns how many users there have been, those who were restarted counted each time.
func (w *Worker) Users() uint64 { return w.users }

// Dry tells whether all flows of the worker have ended for want of rows: no user of it can
// go on, and no new one can begin.
func (w *Worker) Dry() bool { return len(w.left.sums) == 0 }

// end notes that a flow has ended for want of a row: the worker's next users take the other ones, by
// their weights.
func (w *Worker) end(flow int32) {
	if w.err != nil { // no flow goes on with a file that has changed
		w.left = choice{}
		return
	}
	if !w.dry[flow] {
		w.dry[flow] = true
		w.left = w.s.users.without(w.dry)
	}
}

// Err returns why data can no longer be read; nil as long as it can. Users that need it come to their
// end.
func (w *Worker) Err() error { return w.err }

// A Miss says how often an extraction found nothing.
type Miss struct {
	Step  int // the step's number
	Name  string
	Count uint64
}

// Misses appends the counts of all extractions, in the order of the steps. Those that are 0
// are among them.
func (w *Worker) Misses(dst []Miss) []Miss {
	for i, m := range w.s.misses {
		m.Count = w.misses[i]
		dst = append(dst, m)
	}
	return dst
}

// FailedLogins returns how often a user had to begin again with the steps that are carried out once.
func (w *Worker) FailedLogins() uint64 { return w.failed }

// A User is one user's way through the scenario.
type User struct {
	w      *Worker
	number uint64 // which no other user of any shard has
	flow   *flow

	step    *step // whose response is awaited; nil: none is
	at      int   // in the list of the flow
	loops   bool  // the loop's
	over    bool
	started bool // the iteration, which has its number

	failures uint8         // of the log-in, in a row
	retry    time.Duration // the pause before the log-in is tried again; 0: the last one has not failed

	state  template.State
	rows   uint32 // bit i: its values come from a row of feed i
	chosen int32  // the flow's number
	jar    cookie.Jar
	path   []byte // of the request under way, for its cookies
}

// User returns the worker's next user.
func (w *Worker) User() *User {
	u := &User{w: w, state: template.State{Worker: &w.template, Values: make([][]byte, len(w.s.initial))}}
	u.Restart()
	return u
}

// Restart makes of u the worker's next user, at its beginning, as if it were new: its number, its flow,
// its data and its cookies are. It takes a flow that is not dry, unless all are.
func (u *User) Restart() {
	w := u.w
	u.number = w.template.Shard.At(w.users)
	w.users++
	u.state.RNG = pace.NewRNG(w.seed+seedUsers, u.number)
	u.state.User, u.state.Iteration, u.started = u.number*w.flows+w.only+1, 0, false
	flows := w.left
	if w.Dry() {
		flows = w.s.users
	}
	u.chosen = int32(flows.pick(spread(pace.Mix(w.seed+seedFlows), u.number))) //nolint:gosec // a few
	u.flow = &w.s.flows[u.chosen]
	u.step, u.at, u.loops, u.over, u.rows = nil, 0, false, false, 0
	u.failures, u.retry = 0, 0
	for i, text := range w.s.initial {
		u.state.Values[i] = append(u.state.Values[i][:0], text...)
	}
	u.jar.Clear()
}

// A Request is what a user sends next. The caller owns it, and the zero value is ready to use: Next
// fills it in and uses its memory again. Its bytes stay until then, so that a request can be sent again
// if the server refused it unseen.
type Request struct {
	Step    int           // its number, as in Scenario.Steps
	Outline int           // its number, as in Scenario.Outlines
	Parts   [][]byte      // what varies, in the order that Outline says
	Think   time.Duration // the step's pause; Pause makes the user's from it
	Skipped []int         // the numbers of the steps that were skipped before this one
	Idle    bool          // there is nothing to send: the last steps of the iteration were skipped

	text []byte // the parts, one after the other
}

// A Response is what an engine says of a complete response.
type Response struct {
	Status int
	Header []HeaderField // those that Scenario.HeaderNames asks for, each as often as it came
	Body   []byte        // if the step wants it, its first bytes, up to MaxBody
	Size   int64         // of the whole body in bytes

	// Decoded says that the body is decoded, whatever the Content-Encoding in Header.
	Decoded bool
}

// A HeaderField is a header field of a response. Its Name is a number, as in
// Scenario.HeaderNames.
type HeaderField = wire.MuxField

// Next makes the user's next request, at the Unix time now in nanoseconds. It returns false when the
// user has ended: there is no step left, or no row of data that it needs (see Worker.Err). An error, of
// kind generator, means that the request cannot be sent: it counts as one that failed, and Failed must
// be called as after any other. A request that is Idle is none: the iteration is over.
func (u *User) Next(now int64, r *Request) (ok bool, err *wire.Error) {
	if u.step != nil {
		u.Failed()
	}
	u.state.Now, u.retry = now, 0
	r.Skipped, r.Idle = r.Skipped[:0], false
	number := u.choose()
	if number < 0 || u.over {
		return false, nil
	}
	if !u.started {
		u.started, u.state.IterationOfAll = true, u.w.template.Shard.At(u.w.started)
		u.w.started++
	}
	st := &u.w.s.steps[number]
	for st.condition != nil {
		if !u.take(st.asks) {
			return false, nil
		}
		if st.condition.Holds(&u.state) {
			break
		}
		r.Skipped = append(r.Skipped, number)
		if r.Idle = u.advance(false); r.Idle {
			return true, nil
		}
		if number = u.choose(); number < 0 {
			return false, nil
		}
		st = &u.w.s.steps[number]
	}
	if !u.take(st.feeds) {
		return false, nil
	}
	u.step = st
	r.Step, r.Outline = number, number
	err = u.render(st, r)
	r.Think = st.think.Draw(&u.state.RNG)
	return true, err
}

// Dry tells whether the user has ended for lack of a row of data. No user of its flow and worker finds
// that row then.
func (u *User) Dry() bool { return u.over }

// Extracted returns the values of all variables that steps set.
func (u *User) Extracted() map[string]string {
	values := map[string]string{}
	for i := range u.w.s.steps {
		for _, e := range u.w.s.steps[i].extractions {
			values[e.Variable] = string(u.state.Values[e.value])
		}
	}
	return values
}

// Between tells whether the user is between two iterations. Steps that are carried out once belong to
// the first iteration. For an engine that starts one iteration per arrival, the arrival is then
// complete.
func (u *User) Between() bool { return u.step == nil && u.at == 0 }

// choose returns the number of the next step, or -1 if there is none.
func (u *User) choose() int {
	f := u.flow
	if !u.loops {
		if u.at < len(f.once) {
			return f.once[u.at]
		}
		u.loops, u.at = true, 0
	}
	switch {
	case len(f.loop) == 0:
		return -1
	case f.mix != nil:
		return f.loop[f.mix.pick(u.state.RNG.Uint64())]
	case f.inTurn:
		// Each worker goes through all steps, starting from its own, so that a slow worker leaves none
		// out.
		next := uint64(u.w.template.Shard.Index) + u.w.ordered[u.chosen] //nolint:gosec // a few
		u.w.ordered[u.chosen]++
		return f.loop[next%uint64(len(f.loop))]
	default:
		return f.loop[u.at]
	}
}

// take sees to it that there are rows of the feeds whose bits are set. Without one the user ends.
func (u *User) take(feeds uint32) bool {
	if u.fill(feeds &^ u.rows) {
		return true
	}
	u.over = true
	u.w.end(u.chosen)
	return false
}

// fill takes rows of the feeds whose bits are set.
func (u *User) fill(feeds uint32) bool {
	for ; feeds != 0; feeds &= feeds - 1 {
		i := bits.TrailingZeros32(feeds)
		cursor := u.w.cursors[i]
		row, ok := cursor.Next()
		if ok {
			for _, c := range u.w.s.feeds[i].columns {
				u.state.Values[c.value] = row.Append(u.state.Values[c.value][:0], c.number)
			}
		}
		if err := cursor.Err(); err != nil {
			u.w.err, ok = err, false
		}
		if !ok {
			return false
		}
		u.rows |= 1 << i
	}
	return true
}

// render makes the parts of a request.
func (u *User) render(st *step, r *Request) (err *wire.Error) {
	text, parts := r.text[:0], r.Parts[:0]
	if st.outline.VariesPath {
		text = st.path.Append(text, &u.state)
		parts = append(parts, text)
		if st.path.Raw() && !checkPath(text) {
			err = st.badPath
		}
	}
	path := len(text)
	for i := range st.header {
		f, begin := &st.header[i], len(text)
		text = f.value.Append(text, &u.state)
		parts = append(parts, text[begin:])
		if !checkValue(text[begin:], u.w.s.inValue) && err == nil {
			err = f.bad
		}
	}
	if s := u.w.s; s.cookies {
		r.Outline = 2 * r.Step
		if u.path = append(u.path[:0], st.outline.Path...); st.outline.VariesPath {
			u.path = append(u.path, text[:path]...)
		}
		u.path, _, _ = bytes.Cut(u.path, []byte("?"))
		begin := len(text)
		if text = st.cookie.value.Append(text, &u.state); !checkValue(text[begin:], s.inValue) && err == nil {
			err = st.cookie.bad
		}
		own := len(text)
		if own > begin {
			text = append(text, "; "...)
		}
		kept := len(text)
		if text = u.jar.AppendHeader(text, u.path, &s.site, u.state.Now); len(text) == kept {
			text = text[:own]
		}
		if len(text) > begin {
			parts = append(parts, text[begin:])
			r.Outline++
		}
	}
	if st.outline.VariesBody {
		begin := len(text)
		if st.encoder == nil {
			text = st.body.Append(text, &u.state)
		} else {
			var bad error
			if text, bad = u.encode(text, st); bad != nil && err == nil {
				err = st.badBody
			}
		}
		parts = append(parts, text[begin:])
	}
	// Parts are cut out of the text when it has stopped growing.
	at := 0
	for i := range parts {
		end := at + len(parts[i])
		parts[i] = text[at:end:end]
		at = end
	}
	r.text, r.Parts = text, parts
	return err
}

// encode appends the step's body, encoded.
func (u *User) encode(dst []byte, st *step) ([]byte, error) {
	w := u.w
	w.varying, w.places = st.body.AppendPlaces(w.varying[:0], w.places[:0], &u.state)
	return st.encoder.Append(dst, w.places)
}

// Failed tells that the last request has got no response, or could not be sent. Without
// a request under way it does nothing.
func (u *User) Failed() { u.leave(true) }

// Response takes in the response to the last request, at the Unix time now in nanoseconds, and judges
// it: nil if it is what the step expects, else an error of kind status or assertion. It keeps nothing
// of r. Without a request under way it does nothing.
func (u *User) Response(now int64, r *Response) *wire.Error {
	st := u.step
	if st == nil {
		return nil
	}
	u.state.Now = now
	if u.w.s.cookies {
		for i := range r.Header {
			if r.Header[i].Name == u.w.s.setCookie {
				u.jar.Set(r.Header[i].Value, u.path, &u.w.s.site, now)
			}
		}
	}
	err := u.judge(st, r)
	u.leave(err != nil)
	return err
}

// leave goes on to the next step.
func (u *User) leave(failed bool) {
	st := u.step
	if st == nil {
		return
	}
	u.step = nil
	if failed && u.w.s.once {
		u.at, u.loops = 0, true // no step is left
		return
	}
	if !u.loops && failed {
		u.at = 0
		u.jar.Clear()
		u.backOff()
		return
	}
	u.advance(failed && st.ends)
}

// advance goes on to the next step, and tells whether the iteration is over.
func (u *User) advance(ends bool) bool {
	u.at++
	switch {
	case !u.loops:
		if u.at == len(u.flow.once) {
			u.failures = 0
		}
	case u.flow.mix != nil || u.flow.inTurn || u.at == len(u.flow.loop) || ends:
		u.at = 0
		u.rows &= u.w.s.kept
		u.started = false
		u.state.Iteration++
		return true
	}
	return false
}

// The pauses after log-ins that fail.
const (
	firstRetry = 100 * time.Millisecond // doubled by each further failure in a row
	lastRetry  = 5 * time.Second
)

// backOff draws the pause before the log-in is tried again. It varies by half, so that users whose
// log-ins failed together do not return together.
func (u *User) backOff() {
	u.w.failed++
	d := min(firstRetry<<u.failures, lastRetry)
	u.failures = min(u.failures+1, 6) // by then it is the longest
	u.retry = d/2 + time.Duration(u.state.Below(uint64(d/2)+1))
}

// Pause returns the user's pause between the end of the exchange r and its next request: as the step
// says, and longer after a log-in that failed.
func (u *User) Pause(r *Request) time.Duration { return max(r.Think, u.retry) }

// LoggedOut tells whether the user's last log-in has failed, and the next one has not begun.
func (u *User) LoggedOut() bool { return u.retry > 0 }

// judge holds a response against what the step expects, and extracts from it.
func (u *User) judge(st *step, r *Response) *wire.Error {
	switch s := u.w.s; {
	case s.bodyOnly:
	case len(st.status) > 0:
		if !accepted(st.status, r.Status) {
			return st.statusError
		}
	case s.calls != nil:
		if r.Status != 0 {
			return s.calls.Error(r.Status)
		}
	case r.Status >= 400:
		return wire.StatusError(min(r.Status, 999))
	}
	if st.looks {
		if r.Size > int64(len(r.Body)) {
			return st.tooLarge
		}
		var err *wire.Error
		if r, err = u.w.decode(st, r); err != nil {
			return err
		}
	}
	for i := range st.assertions {
		if err := u.check(&st.assertions[i], r); err != nil {
			return err
		}
	}
	var failure *wire.Error
	for i := range st.extractions {
		if err := u.extract(&st.extractions[i], r); err != nil && failure == nil {
			failure = err
		}
	}
	return failure
}

// decode returns a response with the body that its own decodes to.
func (w *Worker) decode(st *step, r *Response) (*Response, *wire.Error) {
	if w.s.coding < 0 || r.Decoded {
		return r, nil
	}
	coding := w.coding[:0]
	for i := range r.Header {
		if r.Header[i].Name == w.s.coding {
			coding = append(append(coding, r.Header[i].Value...), ',')
		}
	}
	w.coding = coding
	if len(coding) == 0 {
		return r, nil
	}
	body, err := contentcoding.Decode(r.Body, string(coding), st.info.MaxBody)
	var unknown *contentcoding.UnknownError
	switch {
	case errors.Is(err, contentcoding.ErrTooLarge):
		return nil, st.tooLarge
	case errors.As(err, &unknown):
		return nil, st.unknownCoding
	case err != nil:
		return nil, st.notDecoded
	}
	w.plain = *r
	w.plain.Body, w.plain.Size = body, int64(len(body))
	return &w.plain, nil
}

func accepted(ranges []StatusRange, status int) bool {
	for _, r := range ranges {
		if status >= r.First && status <= r.Last {
			return true
		}
	}
	return false
}

// A finder finds a part of a response.
type finder struct {
	path      *jsonpath.Path // of a value in the body, or nil
	header    int            // the number of a field's name, or -1; without either: the body
	trailing  bool           // it is in the metadata after the messages
	malformed *wire.Error    // the body is no JSON
}

// number gives an entry's name in trailing metadata its number, after those of headers.
func (f *finder) number(behind int) {
	if f.trailing {
		f.header += behind
	}
}

// find returns the part; a value of JSON as it is written. Of several header fields of the name it is the first, or the
// first that matches a pattern.
func (f *finder) find(r *Response, pattern *regexp.Regexp) (text []byte, result jsonpath.Result) {
	switch {
	case f.path != nil:
		return f.path.Find(r.Body)
	case f.header < 0:
		return r.Body, jsonpath.Found
	}
	for i := range r.Header {
		if r.Header[i].Name == f.header && (pattern == nil || pattern.Match(r.Header[i].Value)) {
			return r.Header[i].Value, jsonpath.Found
		}
	}
	return nil, jsonpath.Missing
}

// text returns what a part that was found says.
func (u *User) text(f *finder, part []byte) []byte {
	if f.path == nil || len(part) == 0 || part[0] != '"' {
		return part
	}
	u.w.decoded = jsonpath.AppendText(u.w.decoded[:0], part)
	return u.w.decoded
}

// check holds a response against an assertion.
func (u *User) check(a *assertion, r *Response) *wire.Error {
	part, result := a.find(r, nil)
	if result == jsonpath.Malformed {
		return a.malformed
	}
	ok := result == jsonpath.Found
	if ok && !a.Exists {
		u.w.expected = a.value.Append(u.w.expected[:0], &u.state)
		switch text := u.text(&a.finder, part); {
		case a.pattern != nil:
			ok = a.pattern.Match(text)
		case a.Equals != nil:
			ok = bytes.Equal(text, u.w.expected)
		default:
			ok = bytes.Contains(text, u.w.expected)
		}
	}
	if !ok {
		return a.failure
	}
	return nil
}

// extract sets a variable.
func (u *User) extract(e *extraction, r *Response) *wire.Error {
	part, result := e.find(r, e.pattern)
	found := result == jsonpath.Found
	var text []byte
	switch {
	case found && e.As == "json":
		text = part
	case found:
		text = u.text(&e.finder, part)
	}
	if found && e.pattern != nil {
		at := e.pattern.FindSubmatchIndex(text)
		if found = at != nil && at[2*e.group] >= 0; found {
			text = text[at[2*e.group]:at[2*e.group+1]]
		}
	}
	switch {
	case !found:
	case e.Decode == "html":
		text = []byte(html.UnescapeString(string(text)))
	case e.Decode == "form":
		text = hiddenFields(text)
	case e.Decode == "url":
		if plain, err := url.PathUnescape(string(text)); err == nil { // else it is not encoded
			text = []byte(plain)
		}
	}
	switch {
	case found && len(text) > MaxValue:
		return e.large
	case found:
		u.state.Values[e.value] = append(u.state.Values[e.value][:0], text...)
		return nil
	}
	u.w.misses[e.misses]++
	switch {
	case e.Default != nil:
		u.state.Values[e.value] = append(u.state.Values[e.value][:0], *e.Default...)
	case e.Keep:
	case result == jsonpath.Malformed:
		return e.malformed
	default:
		return e.nothing
	}
	return nil
}
