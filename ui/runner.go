package ui

import (
	"time"

	"dyno/results/rundir"
)

// A Runner starts runs. It is declared here because this package must not import what
// measures.
type Runner interface {
	// Start starts a run and returns when its process exists. Until Wait returns, one
	// goroutine calls tell with the run's events; tell returns at once.
	Start(l Launch, onEvent func(Event)) (Execution, error)
}

// A Launch is a run to start, checked as far as possible.
type Launch struct {
	File  string            // of the experiment, as a path of this process
	Dir   string            // the run folder to create
	Short bool              // in its short form
	Set   map[string]string // overrides, by name
}

// An Execution is a run in progress.
type Execution interface {
	// Stop makes the run end in order and keep what was measured. A second call ends it
	// at once. Stop does not wait.
	Stop() error
	// Wait returns when the process is gone. It is called once.
	Wait() Outcome
}

// An Outcome is how a run ended.
type Outcome struct {
	Code    int    `json:"code"`              // dyno's exit code
	Message string `json:"message,omitempty"` // its output on standard error; only the end if that is long
}

// An Event is one event of a run: one field is set.
type Event struct {
	Begin  *Begin    `json:"begin,omitempty"`
	Second *Second   `json:"second,omitempty"`
	End    *TrialEnd `json:"end,omitempty"`
}

// A Begin is a trial that begins.
type Begin struct {
	Number  int      `json:"number"`       // from 1
	Of      int      `json:"of,omitempty"` // the last one's number; 0: not known
	Round   int      `json:"round"`        // from 1; 0 for a pilot
	Rounds  int      `json:"rounds"`       // the most there may be
	Variant string   `json:"variant"`
	Purpose string   `json:"purpose,omitempty"` // as in rundir.Trial
	Rate    *float64 `json:"rate_per_second,omitempty"`
}

// A Second is what happened in a second of a trial, or in the remaining time at its end.
type Second struct {
	At         time.Time          `json:"at"`             // its end
	Trial      int                `json:"trial"`          // its number
	Elapsed    float64            `json:"trial_seconds"`  // its end, since the trial's load began
	Seconds    float64            `json:"length_seconds"` // how long it was
	Throughput float64            `json:"throughput_per_second"`
	Failed     int64              `json:"failed"`           // requests that are measured; in the warm-up, its own
	Latency    map[string]Latency `json:"latency,omitzero"` // by clock: response, service, delivery; nil in the warm-up, empty in a second of the window without an answer
}

// A Latency has the quantiles, in seconds, beyond which there is at least one value.
type Latency struct {
	P50  float64  `json:"p50_seconds"`
	P90  *float64 `json:"p90_seconds,omitempty"`
	P99  *float64 `json:"p99_seconds,omitempty"`
	P999 *float64 `json:"p999_seconds,omitempty"`
	Max  float64  `json:"max_seconds"`
}

// A TrialEnd is a trial that has ended.
type TrialEnd struct {
	Number     int              `json:"number"`
	Round      int              `json:"round"`
	Variant    string           `json:"variant"`
	Purpose    string           `json:"purpose,omitempty"`
	Complete   bool             `json:"complete"`
	Error      string           `json:"error,omitempty"`
	Throughput *float64         `json:"throughput_per_second,omitempty"`
	Failed     int64            `json:"failed"`
	Latency    rundir.Quantiles `json:"latency"` // by the clock named
	Clock      string           `json:"clock"`
	Flags      []rundir.Flag    `json:"flags"`
}
