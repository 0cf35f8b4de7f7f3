// Package conditions simulates the network of somebody else on a connection: delay,
// jitter, little bandwidth, stalls, resets and readers that do not keep up. A relay
// copies each direction through Profile.Copy. Everything random follows from a seed, the
// number of the connection and the position in its stream, so runs with the same seed
// have the same network.
//
// A byte goes through these steps in order: it waits until the slow reader reads it,
// passes the token bucket of the bandwidth, travels for the delay, and leaves unless the
// line stalls. Bytes never overtake each other. A delay does not lower the throughput:
// many chunks travel at the same time, and only when they fill the buffer is the sender
// held back.
//
// The rules are in Shaper, which has neither clock nor socket. Copy carries them out.
// Go's timers may be up to a millisecond late, and are never early. So what Copy releases
// may be late by as much; the lateness does not add up.
package conditions

import (
	"errors"
	"fmt"
	"time"
)

// A Direction is one of the two halves of a relayed connection.
type Direction uint8

// The directions, named after the destination of the bytes.
const (
	ToServer Direction = iota
	ToClient
)

func (d Direction) String() string {
	switch d {
	case ToServer:
		return "to_server"
	case ToClient:
		return "to_client"
	}
	return fmt.Sprintf("direction(%d)", uint8(d))
}

// The distributions of the jitter.
const (
	Uniform = "uniform"
	Normal  = "normal"
)

// A Profile is the network between a client and a server. The zero value leaves the
// network as it is. It is only read, and any number of connections may use it at the same
// time.
type Profile struct {
	// Seed makes everything random repeatable.
	Seed uint64 `yaml:"seed,omitempty" json:"seed,omitempty"`

	// Epoch is the start of the periods of StallEvery. With it, all connections stall
	// together; without it (zero), each counts from its own start.
	Epoch time.Time `yaml:"epoch,omitempty" json:"epoch,omitzero"`

	ToServer Link `yaml:"to_server,omitempty" json:"to_server,omitzero"`
	ToClient Link `yaml:"to_client,omitempty" json:"to_client,omitzero"`
}

// A Link is one direction of the network. A zero field is a condition that is off.
type Link struct {
	// Delay is how long a byte travels. Jitter varies the delay of each chunk: with the
	// uniform distribution (the default) by up to ±Jitter, which may not be more than
	// Delay; with the normal distribution by a standard deviation of Jitter, cut off at
	// zero and at Delay + 4·Jitter. A late chunk makes those after it late, as in a TCP
	// stream.
	Delay        time.Duration `yaml:"delay,omitempty" json:"delay,omitempty"`
	Jitter       time.Duration `yaml:"jitter,omitempty" json:"jitter,omitempty"`
	Distribution string        `yaml:"distribution,omitempty" json:"distribution,omitempty"`

	// Bandwidth is the long-term rate. In any span of t seconds at most Burst +
	// Bandwidth·t bytes enter the line. Without a Burst, a chunk enters when its last
	// byte would have been serialized.
	Bandwidth Rate `yaml:"bandwidth,omitempty" json:"bandwidth,omitempty"`
	Burst     Size `yaml:"burst,omitempty" json:"burst,omitempty"`

	// StallEvery and StallFor: at the start of each period but the first,
	// nothing leaves the line for StallFor. StallChance: at each Segment of the
	// stream the line stalls for StallFor with this probability. They may be
	// combined.
	StallEvery  time.Duration `yaml:"stall_every,omitempty" json:"stall_every,omitempty"`
	StallFor    time.Duration `yaml:"stall_for,omitempty" json:"stall_for,omitempty"`
	StallChance float64       `yaml:"stall_chance,omitempty" json:"stall_chance,omitempty"`

	// ResetAfter: the connection is reset once this many bytes have been given to the
	// receiving side's kernel, which may still discard some of them. ResetChance: it is
	// reset before each Segment of the stream with this probability. The earlier of the
	// two counts.
	ResetAfter  Size    `yaml:"reset_after,omitempty" json:"reset_after,omitempty"`
	ResetChance float64 `yaml:"reset_chance,omitempty" json:"reset_chance,omitempty"`

	// ReadRate is the rate at which the relay reads, however much there is to read, so
	// that the sender finds its TCP window full.
	ReadRate Rate `yaml:"read_rate,omitempty" json:"read_rate,omitempty"`

	// Segment is the unit of the chances, in bytes of the stream (default 1 KiB). The
	// size of reads does not matter: the same events happen at the same positions.
	Segment Size `yaml:"segment,omitempty" json:"segment,omitempty"`

	// Buffer bounds the bytes that wait and travel in this direction of one connection;
	// when they fill it, reading pauses. The default is what Bandwidth carries in Delay,
	// Jitter and 10 ms, plus 64 KiB. Without a Bandwidth it is 4 MiB, which limits the
	// throughput to 4 MiB/d with a delay of d. Memory is allocated as it is needed.
	Buffer Size `yaml:"buffer,omitempty" json:"buffer,omitempty"`
}

// The defaults and bounds of a Link.
const (
	DefaultSegment Size = 1 << 10
	DefaultBuffer  Size = 4 << 20
	MaxBuffer      Size = 1 << 30

	maxDuration = time.Hour
)

// link returns the half of the profile for dir.
func (p *Profile) link(dir Direction) *Link {
	if dir == ToServer {
		return &p.ToServer
	}
	return &p.ToClient
}

func (l *Link) active() bool {
	return l.Delay > 0 || l.Jitter > 0 || l.Bandwidth > 0 || l.StallEvery > 0 ||
		l.StallChance > 0 || l.ResetAfter > 0 || l.ResetChance > 0 || l.ReadRate > 0
}

// Validate reports every fault of the profile at once, each with its field, its value and
// what would be right. It changes nothing.
func (p *Profile) Validate() error {
	return errors.Join(p.ToServer.validate(ToServer), p.ToClient.validate(ToClient))
}

func (l *Link) validate(dir Direction) error {
	var faults []error
	fault := func(field string, value any, right string) {
		faults = append(faults, fmt.Errorf("%v.%s: %v: %s", dir, field, value, right))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"delay", l.Delay}, {"jitter", l.Jitter}, {"stall_every", l.StallEvery}, {"stall_for", l.StallFor},
	} {
		if d.value < 0 || d.value > maxDuration {
			fault(d.field, d.value, "want a duration from 0s to 1h")
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"bandwidth", int64(l.Bandwidth)}, {"burst", int64(l.Burst)}, {"reset_after", int64(l.ResetAfter)},
		{"read_rate", int64(l.ReadRate)}, {"segment", int64(l.Segment)},
	} {
		if n.value < 0 {
			fault(n.field, n.value, "want 0 (off) or more")
		}
	}
	for _, c := range []struct {
		field string
		value float64
	}{
		{"stall_chance", l.StallChance}, {"reset_chance", l.ResetChance},
	} {
		if !(c.value >= 0 && c.value <= 1) {
			fault(c.field, c.value, "want a probability from 0 to 1")
		}
	}
	if l.Buffer < 0 || l.Buffer > MaxBuffer {
		fault("buffer", int64(l.Buffer), "want 0 (chosen for you) to 1GiB")
	}
	switch l.Distribution {
	case "", Uniform:
		if l.Jitter > l.Delay {
			fault("jitter", l.Jitter, fmt.Sprintf("want at most the delay, %v, with the uniform distribution", l.Delay))
		}
	case Normal:
	default:
		fault("distribution", fmt.Sprintf("%q", l.Distribution), "want uniform or normal")
	}
	if l.Burst > 0 && l.Bandwidth == 0 {
		fault("burst", int64(l.Burst), "has no effect without a bandwidth: set one, or leave it out")
	}
	stalls := l.StallEvery > 0 || l.StallChance > 0
	if stalls && l.StallFor == 0 {
		fault("stall_for", l.StallFor, "want how long a stall lasts")
	}
	if !stalls && l.StallFor > 0 {
		fault("stall_for", l.StallFor, "has no effect without stall_every or stall_chance")
	}
	if l.StallEvery > 0 && l.StallFor >= l.StallEvery {
		fault("stall_for", l.StallFor, fmt.Sprintf("want less than stall_every, %v, or nothing would ever pass", l.StallEvery))
	}
	return errors.Join(faults...)
}

// segment and buffer return the fields of these names with their defaults.
func (l *Link) segment() int64 {
	if l.Segment > 0 {
		return int64(l.Segment)
	}
	return int64(DefaultSegment)
}

func (l *Link) buffer() int {
	if l.Buffer > 0 {
		return int(l.Buffer)
	}
	if l.Bandwidth == 0 {
		return int(DefaultBuffer)
	}
	travel := (l.Delay + 4*l.Jitter + 10*time.Millisecond).Seconds()
	return int(min(float64(l.Bandwidth)*travel+64<<10, float64(MaxBuffer)))
}
