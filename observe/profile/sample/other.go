//go:build !linux

package sample

import "dyno/observe/profile"

// A Sampler cannot be made.
type Sampler struct{}

// Start fails: the samples are those of Linux's kernel.
func Start(Config) (*Sampler, error) { return nil, profile.NeedsLinux("cpu samples") }

// Stop fails.
func (*Sampler) Stop() (*Result, error) { return nil, profile.NeedsLinux("cpu samples") }
