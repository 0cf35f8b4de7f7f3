// Package pool keeps connections to an HTTP server: how many there may be, how long an idle
// one is kept, and who waits for which. Go's own transport has fixed answers to these; a
// pool here may have answers that follow the load.
//
//	p, err := pool.New(pool.AsWritten(), "host:port")
//	web := http.Client{Transport: p}
//	defer p.Close()
//	… p.Stats() …
//
// # How it adapts
//
// The rule is that of a report on a microservice control plane, which says it in three
// sentences:
//
//  1. The idle threshold is base × max(0.25, 1/2^floor(log2(QPS/100))), with a base of
//     3,000 ms. Its example: at 800 QPS, 1,500 ms.
//  2. Adapting begins above 500 QPS.
//  3. A hit rate that falls faster than 5 % a minute makes the pool larger.
//
// Formula and example contradict each other: at 800 QPS the formula gives 750 ms, as log2(800/100) is 3, 1/2^3 is
// 0.125, and 0.25 is the least. A comment next to the formula says that each fourfold rate halves the threshold. That is
// log4 in place of log2, and gives the 1,500 ms of the example. So there are two readings: AsWritten has the formula
// to the letter, AsExample has the example and the comment.
//
//	QPS          AsWritten   AsExample
//	to 500        3,000 ms    3,000 ms   the base: nothing adapts yet
//	to 1,599        750 ms    1,500 ms
//	from 1,600      750 ms      750 ms   the least
//
// A threshold never exceeds the base: a pool that is hardly used has no reason to keep
// connections for longer, which servers close anyway.
//
// # Hits
//
// A request has a hit if it finds an idle connection at once. A line shows the fastest fall that is allowed: it
// begins at a share of 1 and falls by 5 points a minute. A share above the line lifts the line. A share below it
// is a fall that is too fast, under two conditions. It is further below than chance explains (two standard
// deviations). And a request had to wait for a connection. Opening a connection that there is room for needs no
// larger pool. The pool then grows by a quarter, at most to MaxSize. It becomes smaller when it evicts
// connections that no request needed for a whole threshold. While the share stays below the line, the pool grows
// at every look. The line falls meanwhile, so a share that remains low is finally accepted.
//
// Connections are HTTP/1.1: one of HTTP/2 carries all requests at once and needs no pool.
package pool

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A Policy says how many connections there may be to one server, and how long an idle one
// is kept. It is a Fixed or an Adaptive.
type Policy interface {
	// Validate reports every fault at once.
	Validate() error
	start() (setting, rule)
}

var (
	_ Policy = Fixed{}
	_ Policy = Adaptive{}
)

// Fixed keeps to the same figures whatever the load.
type Fixed struct {
	Size int           // connections to one server
	Idle time.Duration // after so long without a request, one is closed
}

// Validate reports every fault at once.
func (f Fixed) Validate() error {
	return errors.Join(
		fault(f.Size >= 1 && f.Size <= maxSize, "size", f.Size, fmt.Sprintf("must be from 1 to %d", maxSize)),
		fault(f.Idle > 0, "idle", f.Idle, "must be more than 0"),
	)
}

func (f Fixed) start() (setting, rule) {
	s := setting{f.Idle, f.Size}
	return s, fixed(s)
}

// Adaptive follows the load, as the package's documentation says.
type Adaptive struct {
	Size    int           // connections to one server, at first
	MaxSize int           // and at most
	Base    time.Duration // the longest idle threshold
	Least   float64       // the smallest share of Base
	Start   float64       // requests a second above which the threshold adapts
	Step    float64       // the rate of the formula's unit
	Factor  float64       // a rate that is this number of times as high halves the threshold
	Window  time.Duration // how often rates are looked at
	Fall    float64       // of the hit rate, a minute: 0.05 is 5 points. A faster one makes the pool larger
}

// AsWritten returns the figures of the report, with its formula to the letter.
func AsWritten() Adaptive {
	return Adaptive{Size: 16, MaxSize: 64, Base: 3 * time.Second, Least: 0.25, Start: 500, Step: 100, Factor: 2, Window: time.Second, Fall: 0.05}
}

// AsExample returns the figures of the report, with the reading that its example and its comment have.
func AsExample() Adaptive {
	a := AsWritten()
	a.Factor = 4
	return a
}

// maxSize bounds what a pool may have: the descriptors of a process are bounded.
const maxSize = 10_000

// Validate reports every fault at once.
func (a Adaptive) Validate() error {
	return errors.Join(
		fault(a.Size >= 1 && a.Size <= maxSize, "size", a.Size, fmt.Sprintf("must be from 1 to %d", maxSize)),
		fault(a.MaxSize >= a.Size && a.MaxSize <= maxSize, "max size", a.MaxSize, fmt.Sprintf("must be from the size to %d", maxSize)),
		fault(a.Base > 0, "base", a.Base, "must be more than 0"),
		fault(a.Least > 0 && a.Least <= 1, "least", a.Least, "must be more than 0 and at most 1"),
		fault(a.Start >= 0 && a.Start <= maxRate, "start", a.Start, "must be a rate of 0 or more"),
		fault(a.Step > 0 && a.Step <= maxRate, "step", a.Step, "must be a rate of more than 0"),
		fault(a.Factor > 1 && a.Factor <= maxRate, "factor", a.Factor, "must be more than 1"),
		fault(a.Window > 0, "window", a.Window, "must be more than 0"),
		fault(a.Fall > 0 && a.Fall <= 1, "fall", a.Fall, "must be more than 0 and at most 1"),
	)
}

const maxRate = 1e9

func fault(ok bool, field string, value any, want string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s: %v: %s", field, value, want)
}

// Threshold is how long an idle connection is kept at a rate, in requests a second.
func (a Adaptive) Threshold(rate float64) time.Duration {
	if !(rate > a.Start && rate >= a.Step) { // not a number is none, either
		return a.Base
	}
	exact := math.Log(min(rate, math.MaxFloat64)/a.Step) / math.Log(a.Factor)
	whole := math.Floor(exact + 1e-9) // a power of the factor must not fall below its exponent by rounding
	return time.Duration(float64(a.Base) * max(a.Least, math.Exp2(-whole)))
}

func (a Adaptive) start() (setting, rule) {
	return setting{a.Base, a.Size}, &adapting{policy: a, size: a.Size, idle: a.Base, line: 1}
}

// A window is what happened between two looks at the load.
type window struct {
	length                 time.Duration
	requests, hits, waited int
}

// A setting is what holds until the next look.
type setting struct {
	idle time.Duration
	size int
}

// A rule turns what happened into what holds next. It reads no clock.
type rule interface {
	next(w window) setting
	// evicted says that a connection was not needed for as long as the threshold.
	evicted() setting
	// every is how long a window lasts at least; 0 is that nothing follows from them.
	every() time.Duration
}

type fixed setting

func (f fixed) next(window) setting  { return setting(f) }
func (f fixed) evicted() setting     { return setting(f) }
func (f fixed) every() time.Duration { return 0 }

// adapting is the state of an Adaptive.
type adapting struct {
	policy Adaptive
	size   int
	idle   time.Duration
	line   float64 // the share of hits below which the fall is too fast
}

func (a *adapting) every() time.Duration { return a.policy.Window }

func (a *adapting) next(w window) setting {
	a.idle = a.policy.Threshold(float64(w.requests) / w.length.Seconds())
	a.line = max(0, a.line-a.policy.Fall*w.length.Minutes())
	if w.requests > 0 {
		n := float64(w.requests)
		share := float64(w.hits) / n
		// The variance of a share that is expected to be the line; of a line at an end, that of
		// one request.
		chance := 2 * math.Sqrt(max(a.line*(1-a.line), 1/n)/n)
		switch {
		case share > a.line:
			a.line = share
		case share < a.line-chance && w.waited > 0:
			a.size = min(a.policy.MaxSize, a.size+max(1, a.size/4))
		}
	}
	return setting{a.idle, a.size}
}

func (a *adapting) evicted() setting {
	a.size = max(a.policy.Size, a.size-1)
	return setting{a.idle, a.size}
}
