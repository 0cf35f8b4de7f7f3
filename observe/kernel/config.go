package kernel

import (
	"errors"
	"fmt"
	"slices"
)

// A Config says what to observe.
type Config struct {
	// Name is the prefix of the columns. It must not be the name of an
	// observe.Tree of the same Recorder: both have run_queue_wait_seconds.
	Name string
	// Root is a process. All processes below it are observed, but not itself.
	Root int
	// Ports are the TCP ports on which the target listens. Without any, connections are
	// not observed.
	Ports []uint16

	// These have a cost and can be left out, with their columns.
	SystemCalls bool // a hook where any system call of the machine begins
	Accepts     bool // a hook where any system call of the machine ends
	Connections bool // hooks where connections change, and at retransmits
	RunQueue    bool // a hook at every context switch of the machine
}

// DefaultConfig observes everything below root.
func DefaultConfig(name string, root int, ports ...uint16) Config {
	return Config{Name: name, Root: root, Ports: ports, SystemCalls: true, Accepts: true, Connections: true, RunQueue: true}
}

// Validate reports every fault at once: the field, its value, what would be right.
func (c Config) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("name: empty: want the prefix of the columns"))
	}
	if c.Root < 1 {
		errs = append(errs, fmt.Errorf("root: %d: want the id of a process", c.Root))
	}
	for i, p := range c.Ports {
		if p == 0 {
			errs = append(errs, fmt.Errorf("ports[%d]: 0: want from 1 to 65535", i))
		} else if slices.Contains(c.Ports[:i], p) {
			errs = append(errs, fmt.Errorf("ports[%d]: %d: named twice: want each once", i, p))
		}
	}
	if !c.SystemCalls && !c.Accepts && !c.Connections && !c.RunQueue {
		errs = append(errs, errors.New("system calls, accepts, connections, run queue: all off: want at least one on"))
	}
	return errors.Join(errs...)
}

// asks returns what the configuration wants to count.
func (c Config) asks() (f facility) {
	f = missedEvents
	if c.SystemCalls {
		f |= callTotals | callNumbers
	}
	if c.Accepts {
		f |= acceptCalls
	}
	if c.Connections {
		f |= connections | retransmits
	}
	if c.RunQueue {
		f |= waitTimes
	}
	return f
}
