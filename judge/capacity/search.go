// Package capacity searches for the highest rate at which a server still keeps its thresholds. It is
// pure: trials in, the next rate to try out. The caller makes the trials, and asks after each one what
// comes next:
//
//	var done []capacity.Trial
//	for {
//		state, err := goal.Next(done, 0)
//		if err != nil || state.Done {
//			return state, err
//		}
//		done = append(done, capacity.Trial{Rate: state.Next, Good: try(state.Next)})
//	}
//
// The search follows Multiple Loss Ratio Search (MLRsearch, RFC 9971) with one goal and trials of one
// length. Thresholds instead of lost packets say whether a trial is good. A rate is a lower bound once
// enough of its trials were good: the share of bad ones stays within the goal's exceed ratio even if
// all its remaining trials are bad. It is an upper bound once the share is beyond that even if all of
// them are good. Until then it is undecided, and tried again. The search finds the relevant upper
// bound, the smallest one. It finds the relevant lower bound, the largest one below it: a higher rate
// that was good by luck above a bad one does not count.
//
// On the way, one trial of a rate says where to go on. Both ends of the bracket are tried until
// they are bounds.
//
// A load generator has limits of its own. A bad trial that used all of its connections says nothing
// about the server by itself: the rate is tried again with more of them. If the server answers no
// faster with more, or as fast with fewer, it is the limit. If there are no more connections, the rate
// is bad, and the search says that the generator was the limit. A server that answers on some of its
// connections only is tried with as many. Trials of one rate that say nothing have a bound (mostUnclear).
//
// One search is one observation. How sure its result is, only several of them
// tell.
package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// The bounds of a Goal.
const (
	LeastRate       = 1e-6
	MostRate        = 1e12
	LeastResolution = 1e-4
	MostTrials      = 1000 // for each rate
)

// A Goal says what is searched for.
type Goal struct {
	From, To float64 // the range, in requests per second; both ends may be tried
	// Resolution is the width at which a search ends, relative to the lower bound:
	// 0.02 ends it with 1,000 good and 1,020 bad.
	Resolution float64
	Trials     int     // at most, for each rate
	Tolerate   float64 // the share of bad trials that a good rate may have, below 1
	// First is the rate that a search without a hint begins at; 0: From.
	First float64
	// Connections and MostConnections are with how many a search begins, and how many it may have; 0:
	// not counted.
	Connections, MostConnections int
	serves                       bool // the server answers on no more than MostConnections
	few                          bool // MostConnections were the limit at some rate: the server is not at any
}

// Validate reports all faults, joined.
func (g Goal) Validate() error {
	var faults []error
	if !(g.From >= LeastRate && g.From <= MostRate) {
		faults = append(faults, fmt.Errorf("from %v: want %v to %v requests per second", g.From, LeastRate, MostRate))
	}
	if !(g.To > g.From && g.To <= MostRate) {
		faults = append(faults, fmt.Errorf("to %v: want more than from, %v, and at most %v requests per second", g.To, g.From, MostRate))
	}
	if !(g.Resolution >= LeastResolution && g.Resolution <= 1) {
		faults = append(faults, fmt.Errorf("resolution %v: want %v to 1, such as 0.02 for 2 %%", g.Resolution, LeastResolution))
	}
	if g.First != 0 && !(g.First >= g.From && g.First <= g.To) {
		faults = append(faults, fmt.Errorf("first %v: want %v to %v", g.First, g.From, g.To))
	}
	if g.Connections < 0 || g.Connections > g.MostConnections {
		faults = append(faults, fmt.Errorf("connections %d: want 0 to %d", g.Connections, g.MostConnections))
	}
	if g.Trials < 1 || g.Trials > MostTrials {
		faults = append(faults, fmt.Errorf("trials %d: want 1 to %d", g.Trials, MostTrials))
	}
	if !(g.Tolerate >= 0 && g.Tolerate < 1) {
		faults = append(faults, fmt.Errorf("tolerate %v: want at least 0 and less than 1", g.Tolerate))
	}
	return errors.Join(faults...)
}

// A Trial is what one rate was found to be, once.
type Trial struct {
	Rate float64
	Good bool // the thresholds held
	// Disturbed marks a trial that says nothing about the server, for example because the
	// machine was busy. It is repeated. If a rate has more disturbed trials than the
	// goal has trials, each further one counts as bad.
	Disturbed bool
	// Own marks a bad trial in which the generator reached a limit that it cannot raise.
	Own bool
	// Waited marks a bad trial whose requests waited for one of its Connections. Reached is the
	// rate of its good responses.
	Waited      bool
	Connections int
	Reached     float64
	// Served is on how many Connections the server answered, in a trial that is bad because some had no
	// answer; 0: it is not.
	Served int
}

// A State describes the progress of a search. Rates are in requests per second.
type State struct {
	Done bool
	Next float64 // the rate to try, unless done
	// Connections is with how many to try it; 0: not counted.
	Connections int
	// Low is the relevant lower bound, 0 while there is none. At the end, 0 means that
	// the edge lies below the range. High is the relevant upper bound, +Inf while there
	// is none. At the end, +Inf means that the edge lies above the range.
	Low, High float64
	// Own tells that High is bad only because the generator was at a limit of its own: the edge
	// may lie above it.
	Own bool
}

// Next returns the state of a search after the trials done, in any order. It is a pure function of
// them. So an interrupted search continues from the same state, and a finished one can be replayed.
//
// Hint is where an earlier search found the edge, 0 for none. With a hint, the search
// begins with a bracket of seven resolutions about it. If the edge is not inside, the
// search moves on, each time by twice as far. Without a hint, it begins at First and
// doubles or halves the rate. Between bounds it bisects on the scale of logarithms. Rates are
// rounded to a tenth of the resolution or finer, so that they read well and repeat
// exactly.
//
// A search ends: it tries at most about as many rates as the logarithm of range over resolution has
// digits in base two. A trial outside the range is an error.
func (g Goal) Next(done []Trial, hint float64) (State, error) {
	if err := errors.Join(g.Validate(), g.checkTrials(done), checkHint(hint)); err != nil {
		return State{}, fmt.Errorf("capacity: %w", err)
	}
	served := 0
	for _, t := range done {
		served = max(served, t.Served)
	}
	if served > 0 {
		g.MostConnections, g.serves = min(g.MostConnections, served), true
	}
	for _, trials := range byRate(done) {
		g.few = g.few || slices.ContainsFunc(trials, func(t Trial) bool { return t.Waited && !t.Disturbed && g.causeOf(t, trials) == generator })
	}
	rates := g.classify(done)
	s := bracket(rates, func(f found) class { return f.leaning })
	switch {
	case s.High == g.From, s.Low == g.To, s.Low > 0 && g.narrow(s.Low, s.High):
		// Both ends are tried until they are bounds, the lower one first.
		s.Done = true
		for _, r := range rates {
			if r.class == undecided && (r.rate == s.Low || r.rate == s.High) {
				s.Next, s.Done = r.rate, false
				break
			}
		}
	case s.Low > 0 && !math.IsInf(s.High, 1):
		s.Next = g.rounded(math.Sqrt(s.Low) * math.Sqrt(s.High))
	default:
		s.Next = g.outward(s, hint)
	}
	// A rate whose trials do not even lean to one side is tried first, where it matters.
	for _, r := range rates {
		if r.leaning == undecided && r.rate > s.Low && r.rate < s.High {
			s.Next, s.Done = r.rate, false
			break
		}
	}
	if !s.Done {
		bounds := bracket(rates, func(f found) class { return f.class })
		s.Low, s.High, s.Own = bounds.Low, bounds.High, bounds.Own
		s.Connections = g.connections(s.Next, done)
	}
	return s, nil
}

// bracket returns the relevant bounds among rates, from the lowest on.
func bracket(rates []found, of func(found) class) State {
	s := State{High: math.Inf(1)}
	for _, r := range rates {
		if of(r) == upper {
			s.High, s.Own = r.rate, r.own
			break
		}
		if of(r) == lower {
			s.Low = r.rate
		}
	}
	return s
}

// narrow tells whether two bounds are as close as the goal asks, except for rounding.
func (g Goal) narrow(low, high float64) bool {
	return high <= low*(1+g.Resolution)*(1+1e-12)
}

// outward returns the rate to try while a bound is missing.
func (g Goal) outward(s State, hint float64) float64 {
	if hint == 0 {
		switch {
		case s.Low > 0:
			return g.within(2 * s.Low)
		case !math.IsInf(s.High, 1):
			return g.within(s.High / 2)
		}
		return cmp.Or(g.First, g.From)
	}
	// In logarithms, each step doubles the distance from the bracket's other end and adds one width.
	width := firstBracket * math.Log1p(g.Resolution)
	hint = min(max(hint, g.From), g.To)
	bottom, top := hint*math.Exp(-width/2), hint*math.Exp(width/2)
	if s.Low > 0 {
		return g.within(s.Low * math.Exp(max(0, math.Log(s.Low/bottom))+width))
	}
	if !math.IsInf(s.High, 1) {
		return g.within(s.High / math.Exp(max(0, math.Log(top/s.High))+width))
	}
	return g.within(bottom)
}

// within rounds a rate, and keeps it in the range.
func (g Goal) within(rate float64) float64 { return min(max(g.rounded(rate), g.From), g.To) }

// rounded returns a rate in steps of 1, 2 or 5 times a power of ten, at most resolution/10 apart.
func (g Goal) rounded(rate float64) float64 {
	finest := rate * g.Resolution / 10
	exponent := math.Floor(math.Log10(finest))
	steps := 1.0
	for _, s := range []float64{2, 5} {
		if s*math.Pow(10, exponent) <= finest {
			steps = s
		}
	}
	// Fractions are divided out: a tenth is no binary number, ten is one.
	if exponent < 0 {
		unit := math.Pow(10, -exponent)
		return math.Round(rate*unit/steps) * steps / unit
	}
	unit := steps * math.Pow(10, exponent)
	return math.Round(rate/unit) * unit
}

// firstBracket is how many resolutions about a hint are searched first. Three halvings leave one of
// them, with room for rounding. A bracket no wider than the resolution would be faster. But where the
// edge is soft, such a search would find its own hint again and again. Searches with the result before
// as a hint would be very alike. An interval over them would hold the edge in 80 % instead of 95 %.
const firstBracket = 7

// A class is the outcome of a rate.
type class int

const (
	undecided class = iota
	lower           // a lower bound
	upper           // an upper bound
)

// A found rate is a rate with the result of its trials.
type found struct {
	rate  float64
	class class
	// leaning is the side that most trials so far are on. With as many good as bad ones, there is none.
	leaning class
	own     bool // as an upper bound, by the generator's limits only
}

// classify returns the rates that were tried, from the lowest. If a rate has more trials
// than the goal asks for, all of them count.
func (g Goal) classify(done []Trial) []found {
	var rates []found
	for rate, trials := range byRate(done) {
		good, bad, own, disturbed, unclear := 0, 0, 0, 0, 0
		for _, t := range trials {
			switch cause := g.causeOf(t, trials); {
			case t.Disturbed && disturbed < g.Trials:
				disturbed++
			case t.Good && !t.Disturbed:
				good++
			case cause == server:
				bad++
			case cause == unknown && unclear < g.mostUnclear():
				unclear++
			default:
				own++
				bad++
			}
		}
		all := max(g.Trials, good+bad)
		f := found{rate: rate, own: !g.TooMany(bad-own, all)}
		switch {
		case g.TooMany(bad, all):
			f.class = upper
		case !g.TooMany(all-good, all):
			f.class = lower
		}
		switch f.leaning = f.class; {
		case f.class != undecided:
		case good > bad:
			f.leaning = lower
		case bad > good:
			f.leaning = upper
		}
		rates = append(rates, f)
	}
	slices.SortFunc(rates, func(a, b found) int { return cmp.Compare(a.rate, b.rate) })
	return rates
}

func byRate(done []Trial) map[float64][]Trial {
	trials := map[float64][]Trial{}
	for _, t := range done {
		trials[t.Rate] = append(trials[t.Rate], t)
	}
	return trials
}

// A cause is what made a trial bad.
type cause int

const (
	unknown cause = iota
	server
	generator
)

// With more connections, a saturated server gives at most noGain times the responses. They grow by no
// more than this power of the connections' growth. Trials differ enough if one has leastMore times the
// connections of the other.
const (
	noGain    = 1.1
	gainPower = 0.18
	leastMore = 1.25
)

// causeOf tells what made a bad trial bad, by all trials of its rate.
func (g Goal) causeOf(t Trial, trials []Trial) cause {
	switch {
	case t.Own:
		return generator
	case t.Served > 0 && t.Connections > g.MostConnections:
		return unknown // it is tried with as many
	case g.serves && t.Connections >= g.MostConnections:
		return server
	case !t.Waited:
		return server
	}
	compared := false
	for _, o := range trials {
		if o.Disturbed || o.Good {
			continue
		}
		fewer, more := t, o
		if o.Connections < t.Connections {
			fewer, more = o, t
		}
		times := float64(more.Connections) / float64(fewer.Connections)
		if times < leastMore {
			continue
		}
		compared = compared || more.Connections == t.Connections
		if (o.Waited || o.Connections < t.Connections) && more.Reached <= min(noGain, math.Pow(times, gainPower))*fewer.Reached {
			return server
		}
	}
	if t.Connections >= g.MostConnections && (compared || g.few || t.Connections < 2) {
		return generator
	}
	return unknown
}

// growth is by how much the connections grow that were too few.
const growth = 4

// mostUnclear is how many trials of one rate may be of unknown cause. Each has growth times the
// connections of the one before, up to the most. One more has a part of the most. Further ones count as
// bad by the generator's limits. So a rate is tried at most mostUnclear times, and twice the goal's
// trials: that many may be disturbed, and as many others decide it.
func (g Goal) mostUnclear() int { return (bits.Len(uint(g.MostConnections))+1)/2 + 2 } //nolint:gosec // not negative

// connections returns with how many a rate is to be tried: by Little's law, those that were too few at one rate are too
// few in proportion at others. With the most that there may be, a part of them shows whether the server or they are
// the limit.
func (g Goal) connections(rate float64, done []Trial) int {
	if g.MostConnections == 0 {
		return 0
	}
	need := float64(min(g.Connections, g.MostConnections))
	for at, trials := range byRate(done) {
		for _, t := range trials {
			cause := g.causeOf(t, trials)
			if !t.Waited || t.Disturbed || cause == server {
				continue
			}
			if at == rate && cause == unknown && t.Connections >= g.MostConnections {
				return max(1, int(float64(t.Connections)/leastMore))
			}
			need = max(need, growth*float64(t.Connections)*rate/at)
		}
	}
	return int(min(math.Ceil(need), float64(g.MostConnections)))
}

// TooMany reports whether a rate is bad if bad of all its trials are.
func (g Goal) TooMany(bad, all int) bool {
	return bad > int(g.Tolerate*float64(all)+1e-9) // 0.29 of 100 is 29
}

func (g Goal) checkTrials(done []Trial) error {
	for i, t := range done {
		if !(t.Rate >= g.From && t.Rate <= g.To) {
			return fmt.Errorf("trial %d has rate %v: want %v to %v", i, t.Rate, g.From, g.To)
		}
	}
	return nil
}

func checkHint(hint float64) error {
	if !(hint >= 0 && hint <= math.MaxFloat64) {
		return fmt.Errorf("hint %v: want a rate, or 0 for none", hint)
	}
	return nil
}
