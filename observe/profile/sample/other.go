//go:build !linux

package sample

import "dyno/observe"

// A Sampler cannot be made.
type Sampler struct{}

// Start fails: only Linux's kernel takes the samples.
func Start(Config) (*Sampler, error) { return nil, observe.NeedsLinux("cpu samples") }

// Stop fails.
func (*Sampler) Stop() (*Result, error) { return nil, observe.NeedsLinux("cpu samples") }
