//go:build !linux

// Package sysctl sets kernel settings, which only Linux has.
package sysctl

import (
	"errors"
	"fmt"
)

// Settings cannot be made.
type Settings struct{}

// Set fails.
func Set(map[string]string) (*Settings, error) {
	return nil, fmt.Errorf("sysctl: dyno changes kernel settings on Linux only: leave them out: %w", errors.ErrUnsupported)
}

// Found returns nothing.
func (*Settings) Found() map[string]string { return nil }

// Restore has nothing to restore.
func (*Settings) Restore() error { return nil }
