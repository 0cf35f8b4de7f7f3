package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Deed is what a Faulty server does with a request.
type Deed uint8

// The deeds.
const (
	OK         Deed = iota // answer as one should
	Status                 // answer 503
	CloseAfter             // answer, then close without having said so
	Slow                   // answer, the beginning byte by byte
	Refuse                 // answer, announce the close, then refuse connections for a while
	Reset                  // send half an answer, then RST
	Cut                    // send half an answer, then FIN
	Misframe               // answer with broken framing, then FIN
	Stall                  // never answer
	Deeds                  // the number of deeds
)

var deedNames = [Deeds]string{"ok", "status", "close-after", "slow", "refuse", "reset", "cut", "misframe", "stall"}

// String returns the deed's name.
func (d Deed) String() string {
	if d < Deeds {
		return deedNames[d]
	}
	return fmt.Sprintf("deed(%d)", uint8(d))
}

// Outcome returns what a correct client makes of the request: ok, status,
// reset, protocol or timeout (unfinished, if it stops before).
//
// Some deeds also strike the next request: the client may send it on a
// connection that CloseAfter has closed, or find its connection refused after
// Refuse. Such a request fails at the client and was never received here.
func (d Deed) Outcome() string {
	switch d {
	case OK, CloseAfter, Slow, Refuse:
		return "ok"
	case Reset, Cut:
		return "reset"
	case Misframe:
		return "protocol"
	case Stall:
		return "timeout"
	}
	return d.String()
}

// A Mix is how often a Faulty server does what: weights in any unit.
type Mix map[Deed]float64

// A FaultyConfig says what a Faulty server does. Deeds are drawn in order of
// arrival: the same seed and mix give the n-th request the same deed.
type FaultyConfig struct {
	Mix     Mix
	Seed    uint64
	Step    time.Duration // between the bytes of a Slow answer's first 32; default 1 ms
	Refusal time.Duration // how long Refuse refuses; default 50 ms
}

func (f FaultyConfig) withDefaults() FaultyConfig {
	if f.Step == 0 {
		f.Step = time.Millisecond
	}
	if f.Refusal == 0 {
		f.Refusal = 50 * time.Millisecond
	}
	return f
}

// Validate reports every fault of the configuration, or nil.
func (f FaultyConfig) Validate() error {
	f = f.withDefaults()
	faults := []error{validDuration("step", f.Step), validDuration("refusal", f.Refusal)}
	var total float64
	for d, w := range f.Mix {
		switch {
		case d >= Deeds:
			faults = append(faults, fmt.Errorf("oracle: mix: %v: must be one of the deeds", d))
		case !(w >= 0) || math.IsInf(w, 1):
			faults = append(faults, fmt.Errorf("oracle: mix: %v: %v: must be a weight from 0", d, w))
		default:
			total += w
		}
	}
	if total == 0 {
		faults = append(faults, errors.New("oracle: mix: must have a weight above 0"))
	}
	return errors.Join(faults...)
}

// Counts is what a Faulty server did. At any time, Received = the sum of Did +
// Lost + Pending; once the server is closed, Pending is 0.
type Counts struct {
	Traffic
	Did     [Deeds]int64 // requests by what was done with them
	Lost    int64        // requests whose connection ended before it was done
	Pending int64        // requests with which it is being done: Slow ones
}

// A Faulty server does a drawn deed to each request, and keeps count.
type Faulty struct {
	*Server

	faulty FaultyConfig
	draw   func() Deed
	random *rand.Rand // for which way to misframe

	// Guarded by Server.mu.
	did     [Deeds]int64
	lost    int64
	refused int64 // when to stop refusing
}

// StartFaulty starts a server that fails as configured.
func StartFaulty(ctx context.Context, config Config, faulty FaultyConfig) (*Faulty, error) {
	if err := errors.Join(config.validateHTTP(), faulty.Validate()); err != nil {
		return nil, err
	}
	s, err := listen(config)
	if err != nil {
		return nil, err
	}
	f := &Faulty{
		Server: s, faulty: faulty.withDefaults(),
		draw:   drawer(faulty.Mix, seeded(faulty.Seed)),
		random: seeded(faulty.Seed + 1),
	}
	s.policy.request, s.policy.due, s.policy.gone, s.policy.tick = f.request, f.step, f.gone, f.relisten
	s.run(ctx)
	return f, nil
}

// Counts returns what the server did so far.
func (f *Faulty) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Counts{Traffic: f.traffic, Did: f.did, Lost: f.lost, Pending: f.traffic.Received - f.lost}
	for _, n := range f.did {
		c.Pending -= n
	}
	return c
}

// drawer returns a function that draws deeds in proportion to their weights.
func drawer(mix Mix, random *rand.Rand) func() Deed {
	var upTo [Deeds]float64
	var total float64
	last := OK
	for d := range Deeds {
		if mix[d] > 0 {
			last = d
		}
		total += mix[d]
		upTo[d] = total
	}
	return func() Deed {
		u := random.Float64() * total
		for d := range last {
			if u < upTo[d] {
				return d
			}
		}
		return last
	}
}

// request does the next deed.
func (f *Faulty) request(c *conn) {
	c.deed = f.draw()
	if c.deed == Slow {
		c.slow, c.sent = f.whole(c.slow[:0], c), 0
		f.step(c)
		return
	}
	f.did[c.deed]++
	switch c.deed {
	case Stall:
		return
	case OK, CloseAfter:
		f.answer(c)
	case Status:
		f.send(c, []byte(unavailable+closing(c)+"\r\n"))
	case Refuse:
		c.head.close = true
		f.answer(c)
		f.refused = f.now() + int64(f.faulty.Refusal)
		f.refuse(true)
		f.after(f.refused, nil)
	case Reset, Cut:
		f.scratch = f.whole(f.scratch[:0], c)
		f.send(c, f.scratch[:len(f.scratch)/2])
		c.head.close = false // ended below, in its own way
	case Misframe:
		f.send(c, []byte(misframings[f.random.IntN(len(misframings))]))
	}
	f.finish(c)
	switch c.deed {
	case Reset:
		f.reset(c)
	case CloseAfter, Cut, Misframe:
		f.hang(c)
	}
}

// step sends the next byte of a slow answer, and after slowBytes all the rest.
func (f *Faulty) step(c *conn) {
	next := c.sent + 1
	if next > slowBytes {
		next = len(c.slow)
	}
	f.send(c, c.slow[c.sent:next])
	if c.closed {
		return // and counted by gone
	}
	if c.sent = next; next < len(c.slow) {
		f.after(f.now()+int64(f.faulty.Step), c)
		return
	}
	f.did[Slow]++
	f.finish(c)
}

// gone counts a slow answer as lost. All other deeds were counted when they were done.
func (f *Faulty) gone(c *conn) {
	if c.deed == Slow {
		f.lost++
	}
}

// relisten ends the refusing, unless it was prolonged.
func (f *Faulty) relisten() {
	if f.now() >= f.refused {
		f.refuse(false)
	}
}

// whole appends a full answer to c's request.
func (f *Faulty) whole(dst []byte, c *conn) []byte {
	dst = appendOK(dst, len(f.body), c.head.close)
	if c.head.noAns {
		return dst
	}
	return append(dst, f.body...)
}

func closing(c *conn) string {
	if c.head.close {
		return closeField
	}
	return ""
}

// slowBytes are sent one by one, the rest of a slow answer at once.
const slowBytes = 32

// misframings are answers that break RFC 9112 in ways no client may overlook.
var misframings = [...]string{
	okLine + "Content-Length: 1x\r\n\r\nx",
	okLine + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
	okLine + "Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
	okLine + "Content-Length 1\r\n\r\nx",
	"HTTP/1.1 2xx OK\r\nContent-Length: 1\r\n\r\nx",
}
