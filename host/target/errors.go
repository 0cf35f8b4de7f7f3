package target

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons why a target failed. A *Failure wraps one of these.
var (
	ErrNotFound  = errors.New("program not found")
	ErrPortInUse = errors.New("address already in use")
	ErrNotReady  = errors.New("not ready in time")
	ErrExited    = errors.New("exited")
	ErrPlacement = errors.New("cannot be placed as asked") // CPUs, cgroup, priority, NUMA node
)

// A Failure says why a target could not be started, or why it ended.
type Failure struct {
	Target string   // the target's name
	Reason error    // ErrNotFound, ErrPortInUse, ErrNotReady, ErrExited, ErrPlacement, or the system's error
	Detail string   // the details, such as "exit status 1" or "searched PATH …"
	Tail   []string // the target's last lines of output, at most 20
	Code   int      // the exit status of one that ended by itself; 0 where it had none
}

func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "target %s: %v", f.Target, f.Reason)
	if f.Detail != "" {
		fmt.Fprintf(&b, ": %s", f.Detail)
	}
	if len(f.Tail) > 0 {
		b.WriteString("; last output:")
		for _, line := range f.Tail {
			b.WriteString("\n    ")
			b.WriteString(line)
		}
	}
	return b.String()
}

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Reason }
