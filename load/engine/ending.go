package engine

import (
	"time"

	"dyno/load/engine/thread"
)

// A Clock says what ends a response: its last byte's arrival at this machine, or its
// being read.
type Clock uint8

// The clocks.
const (
	// ClockAuto is by arrival in an open loop and with subscribers. In a closed loop each worker reads
	// for the first three quarters of the warm-up. Without a warm-up it reads for 100 ms of the window.
	// If a quarter of its CPU's time was idle, it goes on by arrival. Otherwise it stays with reading,
	// which costs less.
	ClockAuto Clock = iota
	ClockArrival
	ClockRead
)

// A worker of a closed loop takes stamps if the warm-up used at most this share of its CPU's time:
// above it, what they cost is in the throughput.
const idleEnough = 0.75

// trialRun is how long a worker reads before it decides, without a warm-up.
const trialRun = int64(100 * time.Millisecond)

// A clockChoice is the open decision on how responses end.
type clockChoice struct {
	undecided  bool          // whether they end by arrival is seen in the warm-up
	decision   int64         // when it is due
	cpuAtStart time.Duration // of this thread
}

// chooseClock decides what the configuration leaves open, in a closed loop not yet.
func (w *worker) chooseClock() {
	c := &w.engine.config
	switch {
	case c.Clock == ClockArrival, c.Clock == ClockAuto && (c.Schedule != nil || c.Subscribers != nil):
		w.stampArrivals()
	case c.Clock == ClockAuto:
		w.choice.undecided = true
	}
}

// decideClock decides by how the warm-up went.
func (w *worker) decideClock(now int64) {
	w.choice.undecided = false
	if float64(thread.CPU().Total()-w.choice.cpuAtStart) <= idleEnough*float64(now-w.phases.origin) {
		w.stampArrivals()
	}
}

// stampArrivals has responses end by their arrival from now on, where that is possible.
func (w *worker) stampArrivals() {
	if err := w.sockets.StartStamping(); err != nil {
		w.rec.Unstamped(err)
	}
}
