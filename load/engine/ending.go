package engine

import (
	"time"

	"dyno/load/engine/clock"
)

// A Clock says what ends a response: its last byte's arrival at this machine, or its
// being read.
type Clock uint8

// The clocks.
const (
	// ClockAuto is by arrival in an open loop and with subscribers. In a closed loop
	// each worker reads for the first three quarters of the warm-up, or of the window for
	// 100 ms if there is no warm-up. If it had no use for a quarter of its CPU's time, it
	// goes on by arrival, and else by reading, which costs less.
	ClockAuto Clock = iota
	ClockArrival
	ClockRead
)

var clockNames = [...]string{"auto", "arrival", "read"}

// String returns the clock's name as it stands in plans.
func (c Clock) String() string {
	if int(c) < len(clockNames) {
		return clockNames[c]
	}
	return "unknown"
}

// idleEnough is the share of its CPU's time that a worker of a closed loop may use in
// the warm-up and still take stamps: above it, what they cost is in the throughput.
const idleEnough = 0.75

// trialRun is how long a worker reads before it decides, without a warm-up.
const trialRun = int64(100 * time.Millisecond)

// Ends says how the good responses, and the events, of the window ended.
type Ends struct {
	ByArrival uint64 // when the kernel stamped their last segment
	ByRead    uint64 // when they were read: no stamp was asked for, or none came

	// Those of ByRead whose stamp was refused. Late ones were after the read, early ones
	// before the request's write; both are the real-time clock's doing. Stale ones are of
	// segments that the kernel held back for one that was lost or overtaken: the worker
	// has found the socket empty since, and segments had come out of order.
	Late, Early, Stale uint64

	// Shared are those of ByArrival that were followed by more in the same read. Their
	// stamp may be too late, by no more than the tag SharedStamp holds.
	Shared uint64

	Steps       uint64        // of the real-time clock, as far as workers saw them
	Uncertainty time.Duration // of the conversion of stamps to the engine's clock, at most
	Fault       string        // why no stamps could be asked for, where they should have been
}

// endings is how what this worker saw of the window ended.
func (w *worker) endings() Ends {
	e := w.ends
	e.Steps, e.Uncertainty = w.clock.Steps(), w.clock.Uncertainty()
	if w.clock.Stamping() && e.ByArrival == 0 && e.ByRead > 0 && e.Late+e.Early+e.Stale == 0 {
		e.Fault = "the kernel stamped nothing that arrived"
	}
	return e
}

func (a *Ends) add(o Ends) {
	a.ByArrival += o.ByArrival
	a.ByRead += o.ByRead
	a.Late += o.Late
	a.Early += o.Early
	a.Stale += o.Stale
	a.Shared += o.Shared
	a.Steps += o.Steps
	a.Uncertainty = max(a.Uncertainty, o.Uncertainty)
	if a.Fault == "" {
		a.Fault = o.Fault
	}
}

// count enters one that ended by a reading.
func (a *Ends) count(r clock.Reading) {
	switch r.Stamp {
	case clock.Stamped:
		a.ByArrival++
		return
	case clock.Late:
		a.Late++
	case clock.Early:
		a.Early++
	case clock.Stale:
		a.Stale++
	}
	a.ByRead++
}

// chooseClock decides what the configuration leaves open, in a closed loop not yet.
func (w *worker) chooseClock() {
	c := &w.engine.config
	switch {
	case c.Clock == ClockArrival, c.Clock == ClockAuto && (c.Schedule != nil || c.Subscribers != nil):
		w.stampArrivals()
	case c.Clock == ClockAuto:
		w.undecided = true
	}
}

// decideClock decides by how the warm-up went.
func (w *worker) decideClock(now int64) {
	w.undecided = false
	if float64(threadCPU().Total()-w.cpuAtStart) <= idleEnough*float64(now-w.origin) {
		w.stampArrivals()
	}
}

// stampArrivals has responses end by their arrival from now on, where that is possible.
func (w *worker) stampArrivals() {
	if err := w.clock.StartStamping(w.endpoint.family); err != nil {
		w.ends.Fault = err.Error()
	}
}
