package conditions

import (
	"math"
	"math/bits"
	"time"
)

// A Shaper decides when bytes of one direction of a connection leave the line, and whether it is reset before. It
// never reads a clock: its results depend only on the profile, the direction, the connection's number, and the given
// sizes and times. The positions of stalls and resets do not even depend on the sizes. It is not for concurrent use.
type Shaper struct {
	link  *Link
	key   uint64    // of this connection and direction, for draw
	start time.Time // of the periods of stalls
	pos   int64     // bytes of the stream so far
	last  time.Time // the latest release so far: no byte may leave before it

	line  bucket // for the bandwidth
	input bucket // for the slow reader

	resetAt int64  // bytes that are delivered before the reset
	stallAt int64  // position of the next stall by chance
	stalls  uint64 // stalls by chance so far
}

// A Release is what happens to a chunk.
type Release struct {
	At    time.Time // when it leaves the line
	N     int       // how many of its bytes leave
	Reset bool      // whether the connection is reset after them
}

// never is a position that no stream reaches.
const never = math.MaxInt64

// The kinds of random draws, as part of the key of a draw.
const (
	drawJitter uint64 = iota + 1
	drawJitterAngle
	drawStall
	drawReset
)

// NewShaper returns the shaper of one direction of connection number conn, which starts
// at start. The profile must be valid.
func NewShaper(p *Profile, dir Direction, conn uint64, start time.Time) *Shaper {
	l := p.link(dir)
	s := &Shaper{
		link:    l,
		key:     mix(mix(mix(p.Seed)^conn) ^ uint64(dir)),
		start:   start,
		last:    start,
		line:    bucket{rate: int64(l.Bandwidth), burst: l.Burst},
		input:   bucket{rate: int64(l.ReadRate)},
		resetAt: never,
		stallAt: never,
	}
	if l.ResetChance > 0 {
		s.resetAt = s.segments(drawReset, 0, l.ResetChance, 0)
	}
	if l.ResetAfter > 0 {
		s.resetAt = min(s.resetAt, l.ResetAfter)
	}
	if l.StallChance > 0 {
		s.stallAt = s.segments(drawStall, 0, l.StallChance, 0)
	}
	return s
}

// Read returns how many bytes may be read at once, and from when on.
func (s *Shaper) Read(now time.Time) (n int, at time.Time) {
	if s.input.rate == 0 {
		return math.MaxInt, now
	}
	// This is the amount of a twentieth of a second: small enough that the sender sees a
	// steady trickle, large enough for timers to keep up.
	n = int(min(max(s.input.rate/20, 1), 64<<10))
	return n, s.input.free(now)
}

// Chunk adds n bytes that were read at now to the line. If n is 0, it is the end of the
// stream, which travels like a byte but has no size. After a reset there is no further
// chunk.
func (s *Shaper) Chunk(n int, now time.Time) Release {
	r := Release{N: n}
	if n > 0 && s.pos+int64(n) >= s.resetAt {
		r.N, r.Reset = int(s.resetAt-s.pos), true
	}
	s.input.add(n, now)
	at := s.line.add(r.N, now).Add(s.travel())
	if at.Before(s.last) {
		at = s.last
	}
	// A stall by chance applies to the first byte of its segment. So the chunk with that
	// byte waits and, because bytes stay in order, everything after it.
	for end := s.pos + int64(r.N); s.stallAt < end; {
		at = at.Add(s.link.StallFor)
		s.stalls++
		s.stallAt = s.segments(drawStall, s.stalls, s.link.StallChance, s.stallAt/s.link.segment()+1)
	}
	at = s.unstalled(at)
	s.pos += int64(r.N)
	s.last = at
	r.At = at
	return r
}

// travel is the delay of the chunk at the current position.
func (s *Shaper) travel() time.Duration {
	l := s.link
	if l.Jitter == 0 {
		return l.Delay
	}
	u := s.draw(drawJitter, uint64(s.pos))
	if l.Distribution != Normal {
		return l.Delay + time.Duration((2*u-1)*float64(l.Jitter))
	}
	// This is the Box–Muller transform; 1-u is never 0.
	z := math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*s.draw(drawJitterAngle, uint64(s.pos)))
	return max(0, l.Delay+time.Duration(min(z, 4)*float64(l.Jitter)))
}

// unstalled moves a time inside a periodic stall to its end. The first period
// has no stall, so that a connection can start.
func (s *Shaper) unstalled(at time.Time) time.Time {
	if s.link.StallEvery == 0 {
		return at
	}
	since := at.Sub(s.start)
	if since < s.link.StallEvery {
		return at
	}
	if in := since % s.link.StallEvery; in < s.link.StallFor {
		return at.Add(s.link.StallFor - in)
	}
	return at
}

// segments returns the position of a kind's i-th event: from a segment on, each has an event with probability chance.
// The number of segments without an event has a geometric distribution.
func (s *Shaper) segments(kind, i uint64, chance float64, from int64) int64 {
	if chance >= 1 {
		return from * s.link.segment()
	}
	gap := math.Floor(math.Log1p(-s.draw(kind, i)) / math.Log1p(-chance))
	pos := (float64(from) + gap) * float64(s.link.segment())
	if pos >= never/2 {
		return never
	}
	return (from + int64(gap)) * s.link.segment()
}

// draw returns a number in [0, 1) that follows from the key, the kind and i.
func (s *Shaper) draw(kind, i uint64) float64 {
	return float64(mix(mix(s.key^kind<<56)^i)>>11) / (1 << 53)
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014) after its increment: it
// scatters neighbouring numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A bucket limits a rate: in any span of t seconds at most burst + rate·t bytes pass. It is the generic cell rate
// algorithm (ITU-T I.371). It counts the bytes of the busy period, and does not sum times: so rounding errors do not
// accumulate.
type bucket struct {
	rate, burst int64     // bytes per second, 0 for no limit; bytes
	since       time.Time // start of the busy period
	bytes       int64     // added since then
}

// add adds n bytes at now and returns when the last of them passes.
func (b *bucket) add(n int, now time.Time) time.Time {
	if b.rate == 0 {
		return now
	}
	if !b.at(b.bytes).After(now) {
		b.since, b.bytes = now, 0
	}
	b.bytes += int64(n)
	pass := b.at(b.bytes - min(b.bytes, b.burst))
	if pass.Before(now) {
		return now
	}
	return pass
}

// free returns the first time from now on at which no bytes are waiting.
func (b *bucket) free(now time.Time) time.Time {
	if at := b.at(b.bytes); at.After(now) {
		return at
	}
	return now
}

// at returns when n bytes of the busy period have passed, rounded up.
func (b *bucket) at(n int64) time.Time {
	hi, lo := bits.Mul64(uint64(n), uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(b.rate)-1, 0)
	hi += carry
	if hi >= uint64(b.rate) {
		return b.since.Add(math.MaxInt64)
	}
	ns, _ := bits.Div64(hi, lo, uint64(b.rate))
	return b.since.Add(time.Duration(min(ns, math.MaxInt64)))
}
