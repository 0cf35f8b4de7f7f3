//go:build !linux

package sockdiag

import (
	"context"
	"errors"
	"time"
)

// A Conn cannot be made.
type Conn struct{}

// Open fails.
func Open(int, time.Duration) (*Conn, error) { return nil, errors.ErrUnsupported }

// Dump fails.
func (*Conn) Dump(context.Context, Request, func(*Socket) error) error { return errors.ErrUnsupported }

// Close does nothing.
func (*Conn) Close() {}
