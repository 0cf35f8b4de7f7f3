package engine

import (
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/thread"
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
	c := w.config
	switch {
	case c.Clock == config.ClockArrival, c.Clock == config.ClockAuto && (c.Schedule != nil || c.Subscribers != nil):
		w.stampArrivals()
	case c.Clock == config.ClockAuto:
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
