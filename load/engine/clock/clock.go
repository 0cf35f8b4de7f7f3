// Package clock tells the time of an engine, and when bytes arrived.
//
// The kernel stamps a segment when the network's driver hands it over (SO_TIMESTAMPING, software). This
// process may read it much later. A response ends at that stamp: a generator that wakes up late
// lengthens no service time.
//
// The stamp belongs to the read, not to a protocol: recvmsg(2) returns it together with the bytes. It
// is the stamp of the last segment whose bytes were copied. The kernel joins small segments that wait
// in a socket. The joined segment bears the latest stamp. So a response that is last in its read ends
// by its own stamp. If more followed in the same read, it ends by a later stamp, but never later than
// the read.
package clock

import "time"

// A Reading says when bytes were read, on the engine's clock, and when they had
// arrived. Without a stamp that can be believed, both are the same.
type Reading struct {
	Read, Arrived int64
	Stamp         Stamp
	More          bool // there was more in it that cannot be taken in yet: the beginning of a record
}

// A Stamp says what became of a reading's time stamp.
type Stamp uint8

// Outcomes of a stamp.
const (
	Unstamped Stamp = iota // none was asked for, or none came
	Stamped
	Late  // refused: it is later than the read
	Early // refused: it is earlier than the write of the request that the bytes answer
	Stale // refused: the socket has been empty since
)

// At returns the reading of bytes without a stamp.
func At(now int64) Reading { return Reading{Read: now, Arrived: now} }

// refused is the reading without its stamp, for a reason.
func (r Reading) refused(why Stamp) Reading {
	return Reading{Read: r.Read, Arrived: r.Read, Stamp: why}
}

// After is the reading if it did not arrive before a time, and else refused as early.
func (r Reading) After(t int64) Reading {
	if r.Stamp == Stamped && r.Arrived < t {
		return r.refused(Early)
	}
	return r
}

// A Clock is an engine's time as one thread reads it, and the time of arrivals.
type Clock struct {
	base time.Time // its zero
	stamps
}

// New returns a clock whose zero is base, which holds the monotonic clock's time.
func New(base time.Time) Clock { return Clock{base: base} }
