package generator

import (
	"time"

	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// StartLead is how long before the warm-up all parts learn when it begins.
const StartLead = 50 * time.Millisecond

// The bounds of the exchange.
const (
	// partGrace is how long a part may take beyond the time that its work needs.
	partGrace = 30 * time.Second
	// maxPartLine bounds a line of the exchange. A million sources with their uncertain numbers could
	// need some hundred MiB, but a million publishers make no sense.
	maxPartLine = 64 << 20
	// maxReports is more than the number of messages from a part, without intervals.
	maxReports = 8
	// beats is how often each side sends something in the time that it may be silent.
	beats = 4
)

// A partPlan is the work of a part: a portion of a variant's load, whose run-time variables
// are filled in.
type partPlan struct {
	Variant  *plan.Variant
	Seed     uint64
	Portion  Portion
	Warmup   time.Duration
	Window   time.Duration
	Interval time.Duration
	Times    record.TagSet // that its intervals have
	Silence  time.Duration // how long there may be no order until dyno is lost; 0: until the orders end
	Observe  bool          // the machine: who ordered the part does not see it
}

// A partReport is a message from a part. One of its fields is set, but for what belongs to a result
// or to a failure. One without fields says that the part is there.
type partReport struct {
	Party     *config.Party    `json:"party,omitempty"`
	Interval  *record.Interval `json:"interval,omitempty"` // with the latencies that the plan asks for
	Published *publications    `json:"published,omitempty"`
	Result    *record.Result   `json:"result,omitempty"` // without latencies: the log follows
	Log       int64            `json:"log,omitempty"`    // the length of the log, in bytes
	Began     int64            `json:"began,omitempty"`  // of a result: by CLOCK_MONOTONIC of the part's machine
	Observed  *Observed        `json:"observed,omitempty"`
	Failed    string           `json:"failed,omitempty"`
	// Unreachable is the address if Failed says why it could not be reached.
	Unreachable string `json:"unreachable,omitempty"`
	Refused     bool   `json:"refused,omitempty"` // Failed says what goes beyond the limits
}

// A partOrder is a message to a part. One of its fields is set, or none: dyno is there.
type partOrder struct {
	Plan      *partPlan     `json:"plan,omitempty"`
	Start     *startSignal  `json:"start,omitempty"`
	Published *publications `json:"published,omitempty"`
	Stop      bool          `json:"stop,omitempty"` // at once: the run is interrupted
}

type startSignal struct {
	At  int64 // by CLOCK_MONOTONIC of the part's machine
	All config.Party
}

type publications struct{ Sources []wire.Source }

var _ config.Barrier = (*participant)(nil)
