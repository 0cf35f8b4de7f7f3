//go:build !linux

// Package sockets observes TCP from the kernel's side, which dyno does on Linux only.
package sockets

import (
	"context"

	"dyno/observe"
)

// A Config says whose connections to observe.
type Config struct {
	Name, Address string
	PID           int
}

// Connections cannot be made.
type Connections struct{ observe.Observer }

// NewConnections fails.
func NewConnections(_ context.Context, c Config) (*Connections, error) {
	return nil, observe.NeedsLinux(c.Name)
}

// Missing returns nothing.
func (*Connections) Missing() []error { return nil }

// Counters cannot be made.
type Counters struct{ observe.Observer }

// NewCounters fails.
func NewCounters(name string, _ int) (*Counters, error) { return nil, observe.NeedsLinux(name) }
