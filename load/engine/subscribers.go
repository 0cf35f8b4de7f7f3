package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"dyno/load/wire"
)

// Bounds of what one engine may be asked for in subscribers.
const (
	MaxSubscribers   = 1_000_000
	MaxReceiveBuffer = 64 << 20

	maxRamp = 24 * time.Hour
)

// Subscribers are connections on which events arrive without end, carried by the
// same threads as the requests. ConnectTimeout bounds their connecting, and Timeout how
// long the response's head may take. The requests may be the events' publishers; where
// they are wire.Stampers, delivery is timed and every event accounted for. The zero value
// of a field takes the default named in its comment.
type Subscribers struct {
	Count int // subscribers over all workers

	// NewStreams is called once per worker and returns the maker of that worker's
	// streams, which is given the subscriber's number, from 0, among all.
	NewStreams func(worker int) func(subscriber int) wire.Stream

	// Ramp is how many subscribers begin to connect per second, before the warm-up.
	// 0 is as fast as the bound on connections under way allows.
	Ramp float64

	// MinBackoff is the pause before reconnecting when the server has not named
	// one. Either doubles with each failure in a row, up to MaxBackoff. A pause of
	// our own is drawn from its upper half. One that the server asked for is never
	// cut short, but for MaxBackoff, and drawn from up to half as much again, so
	// that subscribers do not return in step. Defaults 1 s and 64 s.
	MinBackoff, MaxBackoff time.Duration

	// Slow of the subscribers, those with the lowest numbers, read no more than
	// SlowRate bytes per second; with 0 they read nothing once their stream is open.
	// Their socket has the smallest receive buffer. What they receive is counted
	// apart from the others' and is in no latency.
	Slow     int
	SlowRate int

	// ReceiveBuffer is SO_RCVBUF of the others, in bytes, as asked: the kernel
	// doubles and bounds it. Default 0: the kernel's own.
	ReceiveBuffer int
}

func (s Subscribers) withDefaults() Subscribers {
	if s.MinBackoff == 0 {
		s.MinBackoff = time.Second
	}
	if s.MaxBackoff == 0 {
		s.MaxBackoff = max(64*time.Second, s.MinBackoff)
	}
	return s
}

// ramp is how long it takes until the last has begun to connect.
func (s Subscribers) ramp() time.Duration {
	if s.Ramp == 0 {
		return 0
	}
	return time.Duration(float64(s.Count) / s.Ramp * float64(time.Second))
}

func (s Subscribers) validate() error {
	s = s.withDefaults()
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("engine: subscribers: "+format, args...))
	}
	if s.Count < 1 || s.Count > MaxSubscribers {
		fault("count %d: want 1 to %d", s.Count, MaxSubscribers)
	}
	if s.NewStreams == nil {
		fault("streams: want a maker of streams")
	}
	if !(s.Ramp >= 0) || math.IsInf(s.Ramp, 0) {
		fault("ramp %v: want 0 connections per second or more", s.Ramp)
	} else if s.Ramp > 0 && float64(s.Count)/s.Ramp > maxRamp.Seconds() {
		fault("ramp %v: want at least %v per second, so that %d have begun within %v", s.Ramp, float64(s.Count)/maxRamp.Seconds(), s.Count, maxRamp)
	}
	if s.MinBackoff < time.Millisecond {
		fault("shortest back-off %v: want at least 1ms", s.MinBackoff)
	}
	if s.MaxBackoff < s.MinBackoff {
		fault("longest back-off %v: want at least the shortest, %v", s.MaxBackoff, s.MinBackoff)
	}
	if s.Slow < 0 || s.Slow > s.Count {
		fault("slow %d: want 0 to %d, the count", s.Slow, s.Count)
	}
	if s.SlowRate < 0 {
		fault("slow rate %d: want 0 bytes per second or more", s.SlowRate)
	}
	if s.ReceiveBuffer < 0 || s.ReceiveBuffer > MaxReceiveBuffer {
		fault("receive buffer %d: want 0 to %d bytes", s.ReceiveBuffer, MaxReceiveBuffer)
	}
	return errors.Join(faults...)
}
