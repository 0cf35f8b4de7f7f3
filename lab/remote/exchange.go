// Package remote starts and observes targets and services on the machines of agents. A Process is this machine's side
// of one. The agent's side is a process with this package's Role. It uses host/target and lab/observation on its
// machine.
//
// Both exchange lines of JSON: orders in one direction, reports in the other. Each order has a number, which its
// report repeats. If the orders end, or stay out for too long, dyno is dead, cut off, or has finished: the agent's
// side then ends its processes. If the reports end, or stay out for too long, the agent is lost.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/observe"
)

// The bounds of the exchange.
const (
	maxLine     = 8 << 20 // the largest holds arguments and environment, or output
	askTimeout  = 30 * time.Second
	readTimeout = 10 * time.Second // for a reading, which delays a recording
	// startTimeout and stopTimeout are added to a process's own times to be ready and to end.
	startTimeout = time.Minute
	stopTimeout  = 15 * time.Second
	endTimeout   = 15 * time.Second // of the agent's side, without orders
	// Silence is how long the agent's side goes on without orders. A machine that is busy with load delays an order
	// by less.
	Silence = 15 * time.Second
	// beats is the number of empty orders in each side's Silence. An empty order shows that dyno lives; its immediate
	// empty report, that the agent does.
	beats = 5
)

// An order is a message to the agent's side. One of its fields is set, next to the number; or none, of a beat.
type order struct {
	Number  int                  `json:"number"`
	Ports   bool                 `json:"ports,omitempty"` // two free ones
	Start   *target.Spec         `json:"start,omitempty"` // once
	Observe *observation.Subject `json:"observe,omitempty"`
	Read    bool                 `json:"read,omitempty"`  // the observers
	Close   bool                 `json:"close,omitempty"` // the observers
	Stop    bool                 `json:"stop,omitempty"`  // what was started
}

// A report is a message from the agent's side: the answer to an order, or an event.
type report struct {
	Number int      `json:"number,omitempty"` // of the answered order; 0: none
	Failed *failure `json:"failed,omitempty"` // why the order was not carried out

	Ports    []int     `json:"ports,omitempty"`
	Observed *observed `json:"observed,omitempty"`
	Row      *row      `json:"row,omitempty"`
	Rest     *rest     `json:"rest,omitempty"` // of the observers, once they are closed

	Output []byte   `json:"output,omitempty"`
	Ended  *failure `json:"ended,omitempty"` // why the process ended without an order
}

// observed describes an observation.Observed.
type observed struct {
	Observers []observer
	Missing   []texts.Message
	Server    target.Listener
	CPUs      int
	Boot      string
}

type observer struct {
	Name    string
	Columns []observe.Column
}

// A row is a reading of all observers.
type row struct {
	At     int64          // by CLOCK_MONOTONIC of the agent's machine
	Cells  []cell         // of all observers
	Faults map[int]string // by observer
}

// A cell is a number that JSON may hold: null is NaN.
type cell float64

// MarshalJSON implements json.Marshaler.
func (c cell) MarshalJSON() ([]byte, error) {
	if v := float64(c); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *cell) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*c = cell(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(c))
}

// rest is the data of an observation.Observed after it is closed.
type rest struct {
	Stalls []stall
	Cost   float64 // in seconds of CPU time
	Faults string
}

// A stall is an observe.Stall.
type stall struct {
	Due  int64 // by CLOCK_MONOTONIC of the agent's machine
	Late time.Duration
}

// A failure is an error, with the parts of a target.Failure.
type failure struct {
	Text    string
	Refused bool   `json:",omitempty"`
	Reason  string `json:",omitempty"` // Target.Reason as text; errors do not encode
	Target  *target.Failure
}

// reasons are the errors that a target.Failure wraps. Its reason begins with the text of one.
var reasons = []error{target.ErrNotFound, target.ErrPortInUse, target.ErrNotReady, target.ErrExited, target.ErrPlacement}

// failureOf describes an error; nil for none.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	_, f.Refused = errors.AsType[*RefusedError](err)
	if of, ok := errors.AsType[*target.Failure](err); ok {
		bare := *of
		bare.Reason = nil
		f.Target, f.Reason = &bare, of.Reason.Error()
	}
	return f
}

// err returns the error that a failure describes; nil for none.
func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.Refused:
		return &RefusedError{errors.New(f.Text)}
	case f.Target == nil:
		return errors.New(f.Text)
	}
	of := *f.Target
	of.Reason = errors.New(f.Reason)
	for _, r := range reasons {
		if rest, ok := strings.CutPrefix(f.Reason, r.Error()); ok {
			of.Reason = fmt.Errorf("%w%s", r, rest)
		}
	}
	return &of
}

// monotonicAt returns the value of CLOCK_MONOTONIC at a time.
func monotonicAt(t time.Time) int64 { return generator.Monotonic() + int64(time.Until(t)) }

// timeAt returns the time at which CLOCK_MONOTONIC had a value.
func timeAt(monotonic int64) time.Time {
	return time.Now().Add(time.Duration(monotonic - generator.Monotonic()))
}
