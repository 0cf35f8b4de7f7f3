//go:build !linux

package offcpu

import (
	"dyno/observe"
	"dyno/observe/profile/symbol"
)

// A Profiler cannot be made.
type Profiler struct{}

// Start fails: the waits are those that Linux's kernel tells.
func Start(int, *symbol.Cache) (*Profiler, error) { return nil, observe.NeedsLinux("off-CPU") }

// Stop fails.
func (*Profiler) Stop() (*Result, error) { return nil, observe.NeedsLinux("off-CPU") }
