package record

import (
	"errors"
	"time"

	"dyno/internal/sums"
	"dyno/load/engine/clock"
	"dyno/load/hist"
)

// CPUTime is processor time.
type CPUTime struct{ User, System time.Duration }

// Total is user and system time together.
func (t CPUTime) Total() time.Duration { return t.User + t.System }

// Sub returns the time that was used since o.
func (t CPUTime) Sub(o CPUTime) CPUTime {
	return CPUTime{User: t.User - o.User, System: t.System - o.System}
}

// A Result is what one Run saw.
type Result struct {
	Start       time.Time     // when the warm-up began: zero of the time line
	Began       time.Duration `sum:"max"` // on the time line: when the last worker found that it had begun
	WindowStart time.Duration `sum:"-"`   // on the time line
	Window      time.Duration `sum:"max"` // the window's actual length
	Interrupted bool          // the context ended the measurement before its time

	Counts    Counts  // of the requests of the window: those due in it
	Carried   Counts  // of those due before it that were unanswered when it began
	AllCounts Counts  // of all requests, the warm-up's too
	Completed uint64  // good responses that ended inside the window
	Received  uint64  // bytes that arrived inside the window, TLS and framing included
	Tokens    *Tokens // of those, where they are answers of language models; nil elsewhere
	Redirects *uint64 // that requests of the window followed; nil where none are
	Messages  *uint64 // of responses, that arrived in the window; nil where they do not consist of messages

	Latency   [Tags]*hist.Histogram `sum:"-"` // of the window
	Intervals []Interval            `sum:"-"`
	Status    map[int]uint64        // responses to requests of the window by status code, for protocols that have one
	Failures  map[string]uint64     // failures of requests of the window and of those carried into it by text, the first 32 texts

	// Deviations counts responses that departed from their protocol and could be read, by
	// wire.Deviations' names. They answer requests of the window, or open a subscription at any time.
	Deviations map[string]uint64

	GoAways map[string]uint64 // connections that peers ended by GOAWAY for an error, by its text, bounded in the same way, warm-up included

	Slowest Slowest `sum:"-"` // of the window's requests that carried a trace id

	Steps []StepResult `sum:"-"` // of the users' scenario; nil without
	Users UsersResult  `sum:"-"` // the zero value without

	Ends        Ends
	Connections Connections
	Addresses   []Address     `sum:"-"` // that the target's name stands for
	Handshakes  Handshakes    `sum:"-"`
	Silence     Silence       `sum:"-"` // of the requests
	Streams     Streams       // the zero value without subscribers
	Process     CPUTime       // this process, over the window
	Workers     CPUTime       // its workers, over the window
	Spun        time.Duration // the part of the workers' time that was spent polling before a start
}

// Throughput returns good responses per second of the window.
func (r *Result) Throughput() float64 { return r.perSecond(r.Completed) }

// Deliveries returns events per second of the window, over all subscribers that are
// not slow.
func (r *Result) Deliveries() float64 { return r.perSecond(r.Streams.Delivered) }

func (r *Result) perSecond(n uint64) float64 {
	if r.Window <= 0 {
		return 0
	}
	return float64(n) / r.Window.Seconds()
}

// Merge adds what another engine saw of the same load to the result. Both have the same time line.
// Figures of the other's process, such as CPU time, are added up, too.
func (r *Result) Merge(o *Result) error {
	if !r.Start.Equal(o.Start) {
		return errors.New("engine: two results with different beginnings")
	}
	sums.Add(r, o) // windows may differ: a number of requests may have ended them apart
	r.AddAddresses(o.Addresses)
	r.Handshakes.Add(&o.Handshakes)
	for _, x := range o.Slowest {
		r.Slowest.add(x)
	}
	if err := r.mergeSteps(o); err != nil {
		return err
	}
	if o.Connections.Requested > 0 {
		r.Silence.merge(&o.Silence)
	}
	r.Streams.Silence.merge(&o.Streams.Silence)
	for tag, h := range o.Latency {
		r.Latency[tag].Merge(h)
	}
	r.Intervals = mergeIntervals(r.Intervals, o.Intervals)
	return nil
}

// NewResult returns a result without figures. The warm-up began at start.
func NewResult(start time.Time, warmup time.Duration) *Result {
	return &Result{
		Start: start, WindowStart: warmup, Status: map[int]uint64{},
		Failures: map[string]uint64{}, GoAways: map[string]uint64{}, Deviations: map[string]uint64{},
	}
}

// AddWorker adds what a worker has recorded, by its clock. The worker has ended.
func (r *Result) AddWorker(w *Recorder, c *clock.Clock) {
	for part := range w.counts {
		sums.Add(&r.AllCounts, &w.counts[part])
	}
	ends := w.Ends()
	ends.Steps, ends.Uncertainty = c.Steps(), c.Uncertainty()
	if c.Stamping() && ends.ByArrival == 0 && ends.ByRead > 0 && ends.Late+ends.Early+ends.Stale == 0 {
		ends.Fault = "the kernel stamped nothing that arrived"
	}
	sums.Add(r, &Result{
		Counts: w.counts[Inside], Carried: w.counts[Carried], Completed: w.completed, Received: w.received,
		Ends: ends, Deviations: w.departs,
	})
	w.failures.AddTo(r.Failures)
	for _, x := range w.slowest {
		x.Written -= w.origin
		r.Slowest.add(x)
	}
	r.addSteps(w.steps)
}

// AddIntervals adds what a collector has collected, which has returned.
func (r *Result) AddIntervals(c *Collector) {
	r.Intervals = c.intervals
	for i := range r.Intervals {
		for code, n := range r.Intervals[i].Status {
			r.Status[code] += n
		}
	}
	r.Latency = c.latency
}
