// Package disturbance finds what disturbed a trial: in which stretches of its window, how much
// of it, and how many requests may have been delayed. It goes by signs of the machine and of the
// generator, and by no latency: a stall of the target is what dyno wants to measure.
package disturbance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

const (
	// leastDelay is the delay that is assumed to affect a figure. noticeableShare is the share
	// of a latency that is assumed to affect it, if that is more.
	leastDelay      = 50 * time.Microsecond
	noticeableShare = 0.02
	// stolenStretch is the share of some CPUs' time, stolen between two readings, that
	// marks the stretch between them. pressedStretch is the same for memory or disks.
	stolenStretch  = 0.10
	pressedStretch = 0.10
	// LongStall is the delay from which the whole stretch counts as disturbed. For
	// shorter delays requests are counted: a virtual machine has some of them in each
	// second, and each affects a handful.
	LongStall = time.Millisecond
	// edgeStretch is how close to an end of the window a disturbance moves responses
	// across it, in seconds.
	edgeStretch = 0.01
	// sampled is the time between a sleeper's wake-ups. Each wake-up tells whether the
	// CPU was available at one moment.
	sampled = 5 * time.Millisecond
	// shortestTurn and longestTurn are how long a program keeps a CPU that it shares.
	shortestTurn = time.Millisecond
	longestTurn  = 4 * time.Millisecond
	// longestGuard bounds the assumed time that a queue takes to drain.
	longestGuard = time.Second
)

// A Disturbance describes a trial's disturbed stretches. A stretch is an interval of the
// trial's log.
type Disturbance struct {
	Known     bool            // there was an observer that could notice it
	Clean     recording.Times // recorded in the other stretches
	Whole     []string        // the kinds of checks that leave no stretch of the trial clean
	Shortened []Shortening    // by a late generator
	Lost      LostTime
	AtEdge    bool      // an end of the window is disturbed
	Window    float64   // seconds
	Works     []float64 // how long the same work took the target's CPUs, reading by reading, seconds

	Share   float64 // of the window, in disturbed stretches
	Moved   float64 // of the requests, which may have moved noticeably
	Taken   float64 // of the window, in which another program had a CPU that was wanted
	Foreign float64 // of the target's time, which others took

	// What may have delayed requests, wherever they are.
	counted    float64         // share of the window between readings of steal or pressure
	stalls     []delay         // of sleepers
	lags       *hist.Histogram // of the generator in an open loop; nil: none
	idle       float64         // share of the window, of a closed loop's generator without a CPU
	busyPeriod float64         // how long a delay's consequences last, as a share of it
	inside     float64         // seconds that a request is inside the target

	signs map[string]float64 // how much of the window each kind of check marks
}

// A delay is how late a sleeper woke, in seconds, and the share of the load that was delayed with it.
type delay struct{ late, share float64 }

// Noticeable is the delay, in seconds, that is assumed to affect a latency.
func Noticeable(latency float64) float64 {
	return max(leastDelay.Seconds(), noticeableShare*latency)
}

// A detector looks for what disturbed a trial.
type detector struct{ recording.Recording }

// Find finds a trial's disturbed stretches.
func Find(of recording.Recording, flags []rundir.Flag) *Disturbance {
	s := &detector{of}
	d := &Disturbance{Known: s.StallsKnown, Clean: recording.Times{}, signs: map[string]float64{}, Lost: s.lostBy()}
	s.findDelays(d)
	for _, f := range flags {
		if f.Disturbs && checks.DisturbsWhole(f.Kind) && !slices.Contains(d.Whole, f.Kind) {
			d.Whole = append(d.Whole, f.Kind)
		}
	}
	d.Shortened = s.shorten(d.idle)
	s.markStretches(d, s.disturbedSpans())
	d.Moved = d.DelayedShare(s.noticed())
	d.Taken = d.Lost.Generator + d.Lost.Target
	for _, s := range d.stalls {
		if d.Window > 0 {
			d.Taken += s.share * s.late / d.Window
		}
	}
	if d.Taken = min(d.Taken, 1); len(d.Whole) > 0 {
		d.Taken = 1
	}
	return d
}

// markStretches finds the stretches that spans overlap, and collects what the others recorded.
func (s *detector) markStretches(d *Disturbance, spans []span) {
	stretches := map[span]string{} // of the window's intervals: what disturbs them
	for _, i := range s.Log {
		if rundir.IsStepTag(i.Tag) {
			continue // one interval for the whole window: no stretch
		}
		at := span{from: i.Start.Seconds(), to: (i.Start + i.Length).Seconds()}
		if _, seen := stretches[at]; !seen {
			stretches[at] = overlapping(at, spans)
		}
		if stretches[at] == "" && len(d.Whole) == 0 {
			d.Clean.Add(i.Tag, i.Hist)
		}
	}
	begin, end := s.Trial.WarmupSeconds, s.Trial.WarmupSeconds+s.Trial.WindowSeconds
	for at, sign := range stretches {
		length := min(at.to, end) - max(at.from, begin)
		if sign == "" || !(length > 0) || !(s.Trial.WindowSeconds > 0) {
			continue
		}
		part := length / s.Trial.WindowSeconds
		d.Share += part
		d.signs[sign] += part
	}
	d.AtEdge = overlapping(span{from: begin - edgeStretch, to: begin + edgeStretch}, spans) != "" || overlapping(span{from: end - edgeStretch, to: end + edgeStretch}, spans) != ""
	d.Share = min(d.Share, 1)
	if len(d.Whole) > 0 {
		d.Share = 1
	}
	d.Clean.Pack()
}

// CleanQuantile returns a quantile of the clean stretches, in seconds; nil where too few values
// support it.
func (d *Disturbance) CleanQuantile(tag string, q float64) *float64 {
	h := d.Clean[tag]
	if h == nil || float64(h.Count())*(1-q) < rundir.Beyond-0.5 {
		return nil
	}
	return new(recording.Seconds(float64(h.Quantile(q))))
}

// Causes lists what disturbed a trial, the largest cause first.
func (d *Disturbance) Causes() []string {
	kinds := slices.SortedFunc(maps.Keys(d.signs), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.signs[b], d.signs[a]), cmp.Compare(a, b))
	})
	return append(slices.Clone(d.Whole), slices.DeleteFunc(kinds, func(k string) bool { return slices.Contains(d.Whole, k) })...)
}

// Affected is the share of a tag's values that were recorded in disturbed stretches. In
// a closed loop a stretch in which little was sent counts as much as the others: without
// the disturbance, as much would have been sent.
func (d *Disturbance) Affected(tag string, all *hist.Histogram, closed bool) (bad, of float64) {
	of = float64(all.Count())
	clean := 0.0
	if h := d.Clean[tag]; h != nil {
		clean = float64(h.Count())
	}
	bad = of - clean
	if closed && d.Share < 1 {
		bad = max(bad, clean*d.Share/(1-d.Share))
	}
	return bad, clean + bad
}
