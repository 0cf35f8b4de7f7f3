//go:build !linux

package kernel

import "dyno/observe"

// New fails: dyno observes the kernel of Linux.
func New(c Config) (*Observer, error) { return nil, observe.NeedsLinux(c.Name) }
