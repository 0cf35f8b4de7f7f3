// Package observe records what happens during the load: what the target, the
// generator and the machine use and suffer, on the run's time line.
//
// An Observer fills one row of numbers whenever it is asked. A Recorder asks all
// of them at every tick, and exactly at both ends of the measured window:
//
//	tree, err := observe.NewTreeBelow("target", supervisor)
//	…
//	rec, err := observe.NewRecorder(observe.Config{Origin: start}, tree, machine)
//	rec.Start()
//	from := rec.Mark()
//	…                     // the measured window
//	to := rec.Mark()
//	err = rec.Stop()
//	cpu := rec.Window(from, to).Delta("target_cpu_seconds")
//
// Every observer is optional. A constructor that cannot work on this machine returns an *Unavailable
// with the reason and the remedy. The run goes on without it. A value that is not known is NaN, and an
// empty cell in CSV: never zero, never a guess.
package observe

import (
	"errors"

	"dyno/internal/texts"
)

// An Observer reads one thing. Its methods are called by one goroutine at a time.
type Observer interface {
	// Name is the prefix of its columns.
	Name() string
	// Columns says what Observe fills in; it never changes.
	Columns() []Column
	// Observe reads now. It sets every cell of row, which has one for each column. Unknown values are
	// NaN. The error says why they are not.
	Observe(row []float64) error
	// Close releases what the observer holds.
	Close() error
}

// A Kind says how the values of a column are summed up.
type Kind uint8

// The kinds.
const (
	Gauge   Kind = iota // a level at the moment of reading
	Counter             // only grows: the difference of two readings counts
	Peak                // the largest since the previous reading
)

// ReadAt ends the name of an observer's column that says when the values of its row were read.
// Such an observer tells what a program says of itself: a program that is started again counts
// from the beginning.
const ReadAt = "read_at_seconds"

// A Column is one series of numbers.
type Column struct {
	Name string // without the observer's; units as in Prometheus: …_seconds, …_bytes
	Kind Kind
	Help string // one sentence, what it is and how exact
}

// An Unavailable says why an observer cannot work here, or a profile cannot be taken.
type Unavailable struct {
	Observer string // or the profile
	Profile  bool
	Reason   texts.Message
	Remedy   texts.Message // what the user can do; of no kind if that is not known
	Err      error         // the system's error; may be nil
}

func (u *Unavailable) Error() string { return u.AsMessage().String() }

// AsMessage returns the error as a message.
func (u *Unavailable) AsMessage() texts.Message {
	what, kind, helped := "observer", "unavailable.observer", "unavailable.observer.help"
	if u.Profile {
		what, kind, helped = "taken", "unavailable.profile", "unavailable.profile.help"
	}
	if u.Remedy.Kind != "" {
		return texts.New(helped, what, u.Observer).With("why", u.Reason).With("help", u.Remedy)
	}
	return texts.New(kind, what, u.Observer).With("why", u.Reason)
}

// Unwrap returns the system's error.
func (u *Unavailable) Unwrap() error { return u.Err }

// NeedsLinux returns the error of an observer that this system does not have.
func NeedsLinux(observer string) *Unavailable {
	return &Unavailable{Observer: observer, Reason: texts.New("unavailable.system"), Err: errors.ErrUnsupported}
}

// unreadable returns the error of an observer that cannot read a file of the kernel. help is the kind of the remedy.
func unreadable(observer string, err error, help string) *Unavailable {
	if errors.Is(err, errors.ErrUnsupported) {
		return NeedsLinux(observer)
	}
	return &Unavailable{Observer: observer, Reason: texts.Verbatim(err.Error()), Remedy: texts.New(help), Err: err}
}
