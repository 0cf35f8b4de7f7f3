package subscribe

import (
	"errors"
	"fmt"
	"math"
	"time"

	"dyno/load/options"
	"dyno/load/wire"
)

// Bounds of one engine's subscribers.
const (
	Max              = 1_000_000
	MaxReceiveBuffer = 64 << 20

	maxRamp = 24 * time.Hour
)

// A Config says of connections on which events arrive without end, carried by the
// same threads as the requests. ConnectTimeout bounds their connecting, and Timeout how
// long the response's head may take. The requests may be the events' publishers; where
// they are wire.Stampers, delivery is timed and every event accounted for. The zero value
// of a field takes the default named in its comment.
type Config struct {
	Count int // subscribers over all workers

	// NewStreams is called once per worker. It returns the maker of that worker's streams, which gets
	// the subscriber's number, from 0, among all.
	NewStreams func(worker int) func(subscriber int) wire.Stream

	// Ramp is how many subscribers begin to connect per second, before the warm-up.
	// 0 is as fast as the bound on connections under way allows.
	Ramp float64

	// MinBackoff is the pause before reconnecting when the server has not named one. Either doubles
	// with each failure in a row, up to MaxBackoff. A pause of our own is drawn from its upper half.
	// The server's pause is only shortened by MaxBackoff. It is drawn from up to half as much again, so
	// that subscribers do not return in step.
	options.Backoff

	// Slow of the subscribers, those with the lowest numbers, read no more than SlowRate bytes per
	// second; with 0 they read nothing once their stream is open. Their socket has the smallest receive
	// buffer. Their events are counted apart from the others', and are in no latency.
	Slow     int
	SlowRate int

	// ReceiveBuffer is SO_RCVBUF of the others, in bytes, as asked: the kernel
	// doubles and bounds it. Default 0: the kernel's own.
	ReceiveBuffer int
}

// WithDefaults returns the configuration with defaults for unset fields.
func (c Config) WithDefaults() Config {
	c.Backoff = c.Backoff.WithDefaults(true)
	return c
}

// RampTime is how long it takes until the last has begun to connect.
func (c Config) RampTime() time.Duration {
	if c.Ramp == 0 {
		return 0
	}
	return time.Duration(float64(c.Count) / c.Ramp * float64(time.Second))
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("engine: subscribers: "+format, args...))
	}
	if c.Count < 1 || c.Count > Max {
		fault("count %d: want 1 to %d", c.Count, Max)
	}
	if c.NewStreams == nil {
		fault("streams: want a maker of streams")
	}
	if !(c.Ramp >= 0) || math.IsInf(c.Ramp, 0) {
		fault("ramp %v: want 0 connections per second or more", c.Ramp)
	} else if c.Ramp > 0 && float64(c.Count)/c.Ramp > maxRamp.Seconds() {
		fault("ramp %v: want at least %v per second, so that %d have begun within %v", c.Ramp, float64(c.Count)/maxRamp.Seconds(), c.Count, maxRamp)
	}
	if c.MinBackoff < time.Millisecond {
		fault("shortest back-off %v: want at least 1ms", c.MinBackoff)
	}
	if c.MaxBackoff < c.MinBackoff {
		fault("longest back-off %v: want at least the shortest, %v", c.MaxBackoff, c.MinBackoff)
	}
	if c.Slow < 0 || c.Slow > c.Count {
		fault("slow %d: want 0 to %d, the count", c.Slow, c.Count)
	}
	if c.SlowRate < 0 {
		fault("slow rate %d: want 0 bytes per second or more", c.SlowRate)
	}
	if c.ReceiveBuffer < 0 || c.ReceiveBuffer > MaxReceiveBuffer {
		fault("receive buffer %d: want 0 to %d bytes", c.ReceiveBuffer, MaxReceiveBuffer)
	}
	return errors.Join(faults...)
}
