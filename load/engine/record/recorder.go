// Package record holds what an engine records: counts and times of requests, connections and events.
// Each worker writes to a Recorder of its own. A Collector merges the intervals of all workers while
// the load runs. A Result is the sum at the end.
package record

import (
	"encoding/binary"
	"time"

	"dyno/internal/sums"
	"dyno/load/engine/clock"
	"dyno/load/wire"
)

// A Window is the measured part of a load, on the engine's clock.
type Window struct {
	Start, End int64
	started    bool
}

// Has tells whether a time lies in the window.
func (w *Window) Has(t int64) bool { return t >= w.Start && t < w.End }

// A Part says what a request belongs to.
type Part uint8

// The parts of a load.
const (
	Outside Part = iota // the warm-up
	Inside              // the window, in which it was due
	Carried             // the window, when which began it was due and unanswered
	parts
)

// PartOf returns what a request belongs to that is due at a time.
func (w *Window) PartOf(due int64) Part {
	switch {
	case w.Has(due):
		return Inside
	case due < w.Start && w.started:
		return Carried
	}
	return Outside
}

// statusCodes bounds the codes that are counted apart: those of HTTP, and those by which WebSocket closes connections. The
// others count as 0.
const statusCodes = 5000

// A Request is the record of a request until it has ended.
type Request struct {
	Intended int64  // when it was due
	Ready    int64  // when a connection was at hand for it
	Written  int64  // when it was written
	Trace    uint64 // the end of its trace id; 0 without
	First    int64  // when the first byte came back; 0 before
	User     int32  // with users, whose it is
	Status   int16  // of the response; wire.NoStatus where there is none
	Part     Part
	Resends  uint8 // how often it was sent once more
}

// A Recorder records what one worker sees. The worker's thread alone uses it, until it has ended.
// Recording what was recorded before allocates nothing.
type Recorder struct {
	Window Window

	counts    [parts]Counts
	handed    [parts]Outcomes // of these, what was handed over to the collector
	silences  Silences
	completed uint64 // good responses that ended in the window
	received  uint64 // bytes that arrived in the window
	redirects uint64 // that were followed, of requests of the window
	messages  uint64 // of responses, that arrived in the window
	finished  int64  // when the last of the window's requests ended
	ends      Ends
	tokens    Tokens // of answers of language models
	departs   map[string]uint64
	failures  Texts
	steps     []stepFigures
	slowest   Slowest
	traces    [8]byte // the beginning of the trace ids

	collector *Collector
	interval  *buffer
	origin    int64 // zero of the time line
	rotate    int64 // when the interval's buffer is due to be handed over
}

// NewRecorder returns the recorder of a worker. The window has the given length.
func NewRecorder(c *Collector, worker int, window time.Duration) *Recorder {
	for range buffers - 1 {
		c.free[worker] <- newBuffer(worker)
	}
	return &Recorder{
		silences: NewSilences(window), departs: map[string]uint64{}, failures: Texts{},
		collector: c, interval: newBuffer(worker),
	}
}

// Begin sets the phases when the load begins.
func (r *Recorder) Begin(origin, windowStart, windowEnd int64) {
	r.origin, r.Window = origin, Window{Start: windowStart, End: windowEnd}
	r.silences.Begin(origin)
	r.interval.start = origin
	r.rotate = origin + int64(r.collector.interval)
}

// Time records a time.
func (r *Recorder) Time(t Tag, d int64) { r.interval.latency[t].Record(d) }

// Schedule counts a request that is due, and returns what it belongs to.
func (r *Recorder) Schedule(due int64) Part {
	part := r.Window.PartOf(due)
	r.counts[part].Scheduled++
	r.silences.Due(due)
	return part
}

// Sent counts a request that is given to a connection, or to the attempt to open one.
func (r *Recorder) Sent(part Part) { r.counts[part].Sent++ }

// Drop counts a request that is not sent. Starved says that no connection could be opened because dyno is
// out of descriptors, ports or memory.
func (r *Recorder) Drop(part Part, starved bool) {
	c := &r.counts[part]
	c.Dropped++
	if starved {
		c.Unsent++
	}
}

// BeginWindow notes that the window begins: Carry moves unanswered requests into it.
func (r *Recorder) BeginWindow() { r.Window.started = true }

// Carry moves a request into the window that was due before it and is unanswered.
func (r *Recorder) Carry(part *Part, sent bool) {
	from, to := &r.counts[*part], &r.counts[Carried]
	*part = Carried
	from.Scheduled--
	to.Scheduled++
	if sent {
		from.Sent--
		to.Sent++
	}
}

// EndWindow notes what there is when the window ends.
func (r *Recorder) EndWindow() { r.silences.Note(r.Window.End, &r.Window) }

// Finished returns when the last of the window's requests ended; 0 if none has.
func (r *Recorder) Finished() int64 { return r.finished }

// Ends returns how the window's good responses and events ended so far.
func (r *Recorder) Ends() Ends { return r.ends }

// Silences returns when the target said nothing in answer to requests.
func (r *Recorder) Silences() *Silences { return &r.silences }

// Tokens returns the sums of the answers of language models.
func (r *Recorder) Tokens() *Tokens { return &r.tokens }

// Redirects returns how many redirects requests of the window followed.
func (r *Recorder) Redirects() *uint64 { return &r.redirects }

// Received counts bytes that arrived at a time.
func (r *Recorder) Received(n int, at int64) {
	if r.Window.Has(at) {
		r.received += uint64(n) //nolint:gosec // not negative
	}
}

// Message counts a message of a response that arrived at a time.
func (r *Recorder) Message(at int64) {
	if r.Window.Has(at) {
		r.messages++
	}
}

// Messages returns how many messages of responses arrived in the window.
func (r *Recorder) Messages() *uint64 { return &r.messages }

// Redirect counts a redirect that is followed.
func (r *Recorder) Redirect(part Part) {
	if part == Inside {
		r.redirects++
	}
}

// Deviations counts a response by each way in which it departed from its protocol.
func (r *Recorder) Deviations(d wire.Deviations) {
	if d != 0 {
		d.Names(func(name string) { r.departs[name]++ })
	}
}

// Response notes the status of a response, and how it departed from its protocol.
func (r *Recorder) Response(x *Request, c wire.Client) {
	x.Status = StatusOf(c)
	if d, ok := c.(wire.Deviant); ok && x.Part == Inside {
		r.Deviations(d.Deviations())
	}
}

// StatusOf returns the status of a client's response.
func StatusOf(c wire.Client) int16 {
	if client, ok := c.(wire.StatusCoder); ok {
		return int16(min(uint(client.Status()), statusCodes)) //nolint:gosec // bounded
	}
	return wire.NoStatus
}

// Succeed records a good response to a request of a step, NoStep without users. The first of the
// request and those to which it was redirected was written at a time; others tells whether more
// requests are unanswered.
func (r *Recorder) Succeed(x *Request, written int64, step int, at clock.Reading, others bool) {
	if r.Window.Has(at.Arrived) {
		r.completed++
		if step != NoStep {
			r.steps[step].completed++
		}
	}
	r.counts[x.Part].OK++
	r.silences.Answered(at.Read, &r.Window, others)
	if x.Part != Inside {
		return
	}
	if step != NoStep {
		r.steps[step].ok++
	}
	r.countStatus(x)
	r.finished = max(r.finished, at.Arrived)
	r.recordTimes(x, written, step, at)
	r.Ended(at)
}

// Fail records a request that failed, or was given up.
func (r *Recorder) Fail(x *Request, written int64, step int, now int64, err error) {
	kind := wire.KindOf(err)
	r.silences.failing++
	counts := &r.counts[x.Part]
	counts.ByKind[kind]++
	if x.Part != Outside {
		r.failures.Count(err)
	}
	switch kind {
	case wire.Timeout:
		counts.Timeouts++
	case wire.Unfinished:
		counts.Unfinished++
	case wire.Generator:
		counts.Generator++
	default:
		counts.Errors++
	}
	if x.Part != Inside {
		return
	}
	if step != NoStep {
		r.steps[step].byKind[kind]++
	}
	if kind == wire.Status || kind == wire.Assertion {
		r.countStatus(x)
	}
	r.finished = max(r.finished, now)
	if kind == wire.Timeout || kind == wire.Unfinished {
		r.recordTimes(x, written, step, clock.At(now))
		r.Time(GivenUp, now-x.Intended)
		r.Time(GivenUpService, now-written)
		return
	}
	r.Time(Failed, now-x.Intended)
}

// recordTimes records the times of a request that ended, or was given up.
func (r *Recorder) recordTimes(x *Request, written int64, step int, at clock.Reading) {
	l := &r.interval.latency
	l[Response].Record(at.Arrived - x.Intended)
	l[Service].Record(at.Arrived - written)
	l[ServiceRead].Record(at.Read - written)
	l[SendLag].Record(written - x.Intended)
	l[GeneratorLag].Record(written - max(x.Intended, x.Ready))
	if x.First != 0 {
		l[FirstByte].Record(x.First - written)
	}
	if x.Trace != 0 {
		r.noteSlow(x, written, at.Arrived)
	}
	if step != NoStep {
		f := &r.steps[step]
		f.response.Record(at.Arrived - x.Intended)
		f.service.Record(at.Arrived - written)
	}
}

// noteSlow keeps the trace id of an ended request that is among the slowest.
func (r *Recorder) noteSlow(x *Request, written, end int64) {
	slow := Slow{Written: written, Response: time.Duration(end - x.Intended), Service: time.Duration(end - written), Status: x.Status}
	copy(slow.Trace[:], r.traces[:])
	binary.BigEndian.PutUint64(slow.Trace[8:], x.Trace)
	r.slowest.add(slow)
	if buffer := &r.interval.slowest; buffer.Response < slow.Response {
		*buffer = slow
	}
}

// Traces sets how the trace ids of this worker's requests begin.
func (r *Recorder) Traces(beginning [8]byte) { r.traces = beginning }

// countStatus counts the status of a response to a request of the window.
func (r *Recorder) countStatus(x *Request) {
	switch n := x.Status; {
	case n == wire.NoStatus:
	case n < 0 || n >= statusCodes:
		r.interval.status[0]++
	default:
		r.interval.status[n]++
	}
}

// Ended counts a good response, or an event, of the window by how it ended.
func (r *Recorder) Ended(at clock.Reading) {
	r.ends.count(at)
	if at.Stamp == clock.Stamped {
		r.Time(ReadDelay, at.Read-at.Arrived)
	}
}

// Shared counts an event that ended by arrival and was followed by more in the same read. Its stamp
// may be too late by a time.
func (r *Recorder) Shared(late int64) {
	r.ends.Shared++
	r.Time(SharedStamp, late)
}

// Unstamped notes why nothing can end by arrival.
func (r *Recorder) Unstamped(why error) { r.ends.Fault = why.Error() }

// Delivered counts an event that arrived.
func (r *Recorder) Delivered() { r.interval.delivered++ }

// Answer records a good response that is the answer of a language model.
func (r *Recorder) Answer(x *Request, step int, at clock.Reading, a *Answer, goal Goal) {
	var figures *answerFigures
	if step != NoStep {
		figures = r.steps[step].answers
	}
	if r.Window.Has(at.Arrived) {
		counted := Tokens{Count: uint64(a.Tokens), Prompt: uint64(a.Prompt)}
		if counted.Prompt == 0 {
			counted.NoPrompt = 1
		}
		if goal.holds(a.First, a.Each) {
			counted.Within = 1
		}
		r.tokens.add(&counted)
		if figures != nil {
			figures.add(&counted)
		}
	}
	if x.Part != Inside {
		return
	}
	r.Time(FirstToken, a.First)
	if a.Several {
		r.Time(TokenTime, a.Each)
	}
	if figures == nil {
		return
	}
	figures.first.Record(a.First)
	if a.Several {
		figures.each.Record(a.Each)
	}
}

// NextInterval returns when the interval's buffer is due to be handed over.
func (r *Recorder) NextInterval() int64 { return r.rotate }

// Rotate hands the written buffer to the collector and takes an empty one. With none back yet, this
// interval becomes longer.
func (r *Recorder) Rotate(now int64, open int) {
	length := int64(r.collector.interval)
	r.rotate = now - (now-r.origin)%length + length
	select {
	case empty := <-r.collector.free[r.interval.worker]:
		r.handOver(now, open)
		empty.start = now
		r.interval = empty
	default:
	}
}

// End hands over the last buffer.
func (r *Recorder) End(now int64, open int) {
	// An interruption before the first request is due comes before the first interval.
	r.handOver(max(now, r.interval.start), open)
}

func (r *Recorder) handOver(end int64, open int) {
	r.interval.end, r.interval.open = end, open
	r.interval.measured, r.interval.warmup = Outcomes{}, Outcomes{}
	for part := range r.counts {
		ended := r.counts[part].since(&r.handed[part])
		r.handed[part] = r.counts[part].Outcomes
		if Part(part) == Outside { //nolint:gosec // there are three
			sums.Add(&r.interval.warmup, &ended)
		} else {
			sums.Add(&r.interval.measured, &ended)
		}
	}
	r.collector.full <- r.interval
}
