//go:build !linux

package loop

import (
	"errors"
	"math"
	"syscall"
	"time"
)

// Event loops need Linux. Elsewhere, making one is an error.

// Readiness.
const (
	In, Out, End, Hangup, Error = 1 << iota, 1 << iota, 1 << iota, 1 << iota, 1 << iota

	Stream = In | Out | End | Hangup | Error
)

// Keys that a Slab never hands out.
const (
	KeyWake uint64 = math.MaxUint64 - iota
	KeyTick
)

// A Poller cannot be made.
type Poller struct{}

// NewPoller fails.
func NewPoller() (*Poller, error) { return nil, errors.ErrUnsupported }

func (*Poller) Close()                        {}
func (*Poller) Tick(time.Duration) error      { return errors.ErrUnsupported }
func (*Poller) Wake()                         {}
func (*Poller) Add(int, uint64, uint32) error { return errors.ErrUnsupported }
func (*Poller) Wait(bool) (int, error)        { return 0, errors.ErrUnsupported }
func (*Poller) Park() (int, error)            { return 0, errors.ErrUnsupported }
func (*Poller) Event(int) (uint64, uint32)    { return 0, 0 }

// Send fails.
func Send(int, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }

// Recv fails.
func Recv(int, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }

// Close has nothing to close.
func Close(int) {}

// Reset has nothing to close.
func Reset(int) {}
