package store

import (
	"context"
	"errors"
	"time"
)

// ErrStale says that the directory has changed since the version that a change is based on.
var ErrStale = errors.New("the directory has changed meanwhile")

// A Row is one item of the directory: a key, a team, a user or a limit. This package does not read its body.
type Row struct {
	Kind, ID string
	Version  int64  // of the directory, from this change on
	Body     string // "" says that the item was deleted
}

// An Audit says who changed what. It has no secret, and no hash of one.
type Audit struct {
	Version       int64 // of the directory, from this change on
	At            time.Time
	By, Action    string
	Kind, ID      string
	Before, After string // JSON; "" is nothing
}

// A Directory keeps the items that several gateways change. Its version grows by one with each change.
type Directory interface {
	// Rows returns up to most rows that were changed after a version, in the order of their changes.
	Rows(ctx context.Context, after int64, most int) ([]Row, error)
	// Change keeps a row and what the audit says of it, if the version is still the one before theirs. The error is
	// ErrStale if it is not. After any other error the outcome is unknown.
	Change(ctx context.Context, r Row, a Audit) error
	// Audits returns up to most changes before a version, the newest first.
	Audits(ctx context.Context, before int64, most int) ([]Audit, error)
	// Await waits until another gateway may have changed something, or ctx ends. One caller at a time may wait.
	Await(ctx context.Context)
}
