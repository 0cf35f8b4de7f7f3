// Package conditions simulates a slow network on a connection: delay, jitter, little bandwidth, stalls, resets and
// slow readers. A relay copies each direction through Profile.Copy. Random choices follow from a seed, the
// connection's number and the position in its stream. So runs with one seed have equal networks.
//
// A byte goes through these steps in order: it waits for the slow reader, passes the token bucket, travels for the
// delay, and leaves unless the line stalls. Bytes never overtake each other. A delay does not lower the throughput:
// many chunks travel at the same time, and only when they fill the buffer is the sender held back.
//
// The rules are in Shaper, which has neither clock nor socket. Copy carries them out.
// Go's timers may be up to a millisecond late, and are never early. So what Copy releases
// may be late by as much; the lateness does not add up.
package conditions

import (
	"errors"
	"fmt"
	"time"

	"dyno/internal/fields"
	"dyno/internal/units"
)

// A Direction is one of the two halves of a relayed connection.
type Direction uint8

// The directions, named after the destination of the bytes.
const (
	ToServer Direction = iota
	ToClient
)

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
	Seed uint64

	ToServer, ToClient Link
}

// A Link is one direction of the network. A zero field is a condition that is off.
type Link struct {
	// Delay is how long a byte travels. Jitter varies the delay of each chunk: with the
	// uniform distribution (the default) by up to ±Jitter, which may not be more than
	// Delay; with the normal distribution by a standard deviation of Jitter, cut off at
	// zero and at Delay + 4·Jitter. A late chunk makes those after it late, as in a TCP
	// stream.
	Delay        time.Duration `yaml:"delay" range:"0..1h"`
	Jitter       time.Duration `yaml:"jitter" range:"0..1h"`
	Distribution string        `yaml:"distribution" oneof:"uniform normal"`

	// Bandwidth is the long-term rate. In any span of t seconds at most Burst +
	// Bandwidth·t bytes enter the line. Without a Burst, a chunk enters when its last
	// byte would have been serialized.
	Bandwidth Rate  `yaml:"bandwidth"`
	Burst     int64 `yaml:"burst" kind:"size" range:"0..1024GiB"`

	// StallEvery and StallFor: at the start of each period but the first,
	// nothing leaves the line for StallFor. StallChance: at each Segment of the
	// stream the line stalls for StallFor with this probability. They may be
	// combined.
	StallEvery  time.Duration `yaml:"stall_every" range:"0..1h"`
	StallFor    time.Duration `yaml:"stall_for" range:"0..1h"`
	StallChance float64       `yaml:"stall_chance" kind:"share" range:"0..1"`

	// ResetAfter: the connection is reset after the receiving side's kernel has this many bytes, some of which it may
	// discard. ResetChance: it is reset before each Segment of the stream with this probability. The earlier of the
	// two counts.
	ResetAfter  int64   `yaml:"reset_after" kind:"size" range:"0..1024GiB"`
	ResetChance float64 `yaml:"reset_chance" kind:"share" range:"0..1"`

	// ReadRate limits the rate at which the relay reads, so that the sender's TCP window fills up.
	ReadRate Rate `yaml:"read_rate"`

	// Segment is the unit of the chances, in bytes of the stream (default 1 KiB). The
	// size of reads does not matter: the same events happen at the same positions.
	Segment int64 `yaml:"segment" kind:"size" range:"0..1GiB"`

	// Buffer bounds the bytes that wait and travel in this direction of one connection;
	// when they fill it, reading pauses. The default is what Bandwidth carries in Delay,
	// Jitter and 10 ms, plus 64 KiB. Without a Bandwidth it is 4 MiB, which limits the
	// throughput to 4 MiB/d with a delay of d. Memory is allocated as it is needed.
	Buffer int64 `yaml:"buffer" kind:"size" range:"0..1GiB"`
}

// A Rate is a number of bytes per second. In text it may be in bytes or in bits: "1MiB/s",
// "100Mbit/s".
type Rate int64

// SetText reads a rate as units.ParseBandwidth does.
func (r *Rate) SetText(text, _ string) error {
	n, err := units.ParseBandwidth(text)
	*r = Rate(n)
	return err
}

// The defaults and bounds of a Link.
const (
	defaultSegment = 1 << 10
	defaultBuffer  = 4 << 20
	maxBuffer      = 1 << 30
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

// Validate reports every fault of the profile at once.
func (p *Profile) Validate() error {
	return errors.Join(fields.Validate(p.ToServer, p.ToServer.check), fields.Validate(p.ToClient, p.ToClient.check))
}

// check reports violations of rules across conditions, which tags cannot express.
func (l *Link) check(r *fields.Report) {
	r.Check(l.Distribution == Normal || l.Jitter <= l.Delay, "jitter", fmt.Sprintf("%v is too much", l.Jitter), fmt.Sprintf("at most the delay, %v, with the uniform distribution", l.Delay))
	r.Check(l.Burst == 0 || l.Bandwidth > 0, "burst", "has no effect without a bandwidth", "set one, or leave it out")
	stalls := l.StallEvery > 0 || l.StallChance > 0
	r.Check(!stalls || l.StallFor > 0, "stall_for", "is missing", "how long a stall lasts")
	r.Check(stalls || l.StallFor == 0, "stall_for", "has no effect without stall_every or stall_chance", "set one of them, or leave it out")
	r.Check(l.StallEvery == 0 || l.StallFor < l.StallEvery, "stall_for", fmt.Sprintf("%v is too much", l.StallFor), fmt.Sprintf("less than stall_every, %v, or nothing would ever pass", l.StallEvery))
}

// segment and buffer return the fields of these names with their defaults.
func (l *Link) segment() int64 {
	if l.Segment > 0 {
		return l.Segment
	}
	return defaultSegment
}

func (l *Link) buffer() int {
	if l.Buffer > 0 {
		return int(l.Buffer)
	}
	if l.Bandwidth == 0 {
		return defaultBuffer
	}
	travel := (l.Delay + 4*l.Jitter + 10*time.Millisecond).Seconds()
	return int(min(float64(l.Bandwidth)*travel+64<<10, maxBuffer))
}
