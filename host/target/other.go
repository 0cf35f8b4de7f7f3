//go:build !linux

package target

import (
	"context"
	"errors"
	"fmt"

	"dyno/host/cgroup"
)

// dyno starts and places programs on Linux only: what holds on to all that a program starts, and ends it, is there.

var errNeedsLinux = fmt.Errorf("dyno starts and places programs on Linux only: start it yourself, and leave that out of the plan: %w", errors.ErrUnsupported)

// AllowedCPUs fails.
func AllowedCPUs() ([]int, error) { return nil, errNeedsLinux }

// SetAffinity fails.
func SetAffinity([]int) error { return errNeedsLinux }

// Ports has none.
type Ports struct{}

// Free fails.
func (*Ports) Free(string) (int, error) { return 0, errNeedsLinux }

// A Process cannot be started.
type Process struct{}

// Start fails.
func Start(_ context.Context, s Spec) (*Process, error) {
	return nil, &Failure{Target: s.Name, Reason: errNeedsLinux}
}

// The methods are never called, because there is no Process.

func (*Process) PID() int                   { return 0 }
func (*Process) Supervisor() int            { return 0 }
func (*Process) Cgroup() (f cgroup.Folders) { return f }
func (*Process) Done() <-chan struct{}      { return nil }
func (*Process) Err() error                 { return errNeedsLinux }
func (*Process) Wait(context.Context) error { return errNeedsLinux }
func (*Process) Usage() (u Usage, ok bool)  { return u, false }
func (*Process) Stop(context.Context) error { return errNeedsLinux }
