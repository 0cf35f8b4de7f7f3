package generator

import (
	"context"
	"io"
	"os"
	"time"

	"dyno/host/child"
)

// A Carrier starts processes that carry parts of a load, on this machine or on another one.
type Carrier interface {
	// Start starts a process with this package's Role.
	Start(ctx context.Context) (Process, error)
}

// A Process carries a part of a load: its orders are written to it, and its reports are read
// from it.
type Process interface {
	io.ReadWriter
	// CloseWrite ends the orders, and thereby the process. Its last reports can still be read.
	CloseWrite() error
	// Kill ends the process, and every Read and Write. It may be called more than once, and
	// at the same time as the other methods.
	Kill()
	// Wait waits until the process has ended, and releases it. It is called once, after the last
	// Read.
	Wait() error
	// At translates an instant of CLOCK_MONOTONIC into the clock of the process's machine, and bounds
	// the error, in nanoseconds.
	At(ours int64) (theirs, within int64)
	// Drift compares the clocks once more, after the load. It bounds the error of what At returned for
	// an instant before it, from then until now. An error says that the clocks cannot be compared.
	Drift(ctx context.Context, ours, theirs int64) (within int64, err error)
	// Silence is how long the process, and the coordinator, may be silent until the other is
	// lost. Both send something more often than that. 0: the end of one ends what the other reads.
	Silence() time.Duration
	// String names the process in errors.
	String() string
}

// A LostError says that a process is gone, cannot be reached, or was not started. It carried a part of
// a load, or ran its target on an agent's machine. Its work is unknown.
type LostError struct{ Err error }

func (e *LostError) Error() string { return e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }

// A Clock is the time of day on another machine, compared with this one's when a load began.
type Clock struct {
	Offset time.Duration // by which it is ahead
	Error  time.Duration // by which the offset may be wrong at most
	// Drifted is by how much the offset may be another at any time of the load: its error, and what both clocks came apart.
	Drifted time.Duration
}

// Local starts processes on this machine.
type Local struct {
	Limits *Limits     // nil: none
	User   *child.User // whose rights the processes have; nil: this process's
}

var _ Carrier = Local{}

// Start implements Carrier. The process's standard error goes to this one's.
func (l Local) Start(context.Context) (Process, error) {
	var args []string
	if l.Limits != nil {
		text, err := l.Limits.argument()
		if err != nil {
			return nil, err
		}
		args = []string{text}
	}
	command := Role(nil).Command(os.Environ(), args...)
	child.SetUser(command, l.User)
	if l.Limits != nil {
		command.Dir = l.Limits.Files
	}
	p, err := child.Start(command)
	return localProcess{p}, err
}

type localProcess struct{ *child.Process }

var _ Process = localProcess{}

func (localProcess) At(ours int64) (int64, int64) { return ours, 0 }
func (localProcess) Silence() time.Duration       { return 0 }
func (localProcess) String() string               { return "a process that carries a part of the load" }

func (localProcess) Drift(context.Context, int64, int64) (int64, error) { return 0, nil }
