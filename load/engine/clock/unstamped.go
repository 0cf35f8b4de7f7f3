//go:build !linux || portable

package clock

import (
	"errors"
	"syscall"
	"time"

	"dyno/load/engine/poll"
)

// stamps are the arrival stamps of a clock, which this system does not give.
type stamps struct{}

var errNone = errors.New("this system gives no arrival stamps")

// Stamping tells whether sockets are to tell when segments arrived.
func (stamps) Stamping() bool { return false }

// Steps returns how often the real-time clock was stepped, which matters to stamps alone.
func (stamps) Steps() uint64 { return 0 }

// Uncertainty returns by how much a stamp may be off on this clock, at most.
func (stamps) Uncertainty() time.Duration { return 0 }

// StartStamping returns an error.
func (stamps) StartStamping(int) error { return errNone }

// Close ends the stamps.
func (stamps) Close() {}

// RequestStamps returns an error.
func RequestStamps(int) error { return errNone }

// Read reads what has arrived on a socket.
func (c *Clock) Read(fd int32, p []byte, _ bool, _ int64) (n int, r Reading, errno syscall.Errno) {
	n, errno = poll.Read(fd, p)
	return n, At(c.Now()), errno
}
