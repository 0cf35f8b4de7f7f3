package verdict

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dyno/hist"
	"dyno/rundir"
)

// What marks a stretch as disturbed. All of it is the machine's or the generator's own
// sign, none is a latency: a stall of the target is what is to be measured.
const (
	// leastDelay is the delay that a figure is held to notice, and noticeable the share
	// of the trial's median latency that it is held to notice if that is more.
	leastDelay = 50 * time.Microsecond
	noticeable = 0.02
	// stolenStretch is the share of some CPUs' time between two readings that marks the
	// stretch between them; pressedStretch is that of memory or of disks.
	stolenStretch  = 0.10
	pressedStretch = 0.10
	// longestGuard bounds how long a queue is held to take until it has drained.
	longestGuard = time.Second
)

// A disturbance is what is known of a trial's disturbed stretches. A stretch is an
// interval of the trial's log.
type disturbance struct {
	known bool // there was somebody to feel it
	// share is of the window: what was disturbed, and the guards that follow.
	share float64
	clean times // what was recorded in stretches without any of that
	// touched is the share of the window in the other stretches. Short disturbances touch
	// many.
	touched float64
	// shortened is how many requests a late generator may have made look faster than
	// they would have been, at most: see shorten.
	shortened float64
	lost      lostTime
	// signs are the kinds of checks that would have said so, by how much of the window
	// they mark.
	signs map[string]float64
	// whole are the kinds of checks by which no stretch of the trial is clean.
	whole []string
}

// A lostTime is the share of the window in which the generator, or the target, could
// have worked and had no CPU.
type lostTime struct{ generator, target float64 }

// A span is a stretch of the trial's time line, in seconds.
type span struct {
	from, to float64
	sign     string
}

// disturb finds a trial's disturbed stretches.
func disturb(s subject, flags []rundir.Flag) *disturbance {
	d := &disturbance{known: s.stallsKnown, clean: times{}, signs: map[string]float64{}, lost: lostBy(s)}
	for _, f := range flags {
		if f.Spoils && disturbsWhole(f.Kind) && !slices.Contains(d.whole, f.Kind) {
			d.whole = append(d.whole, f.Kind)
		}
	}
	spans, stalls := s.disturbedSpans()
	d.shortened = s.shorten(stalls)
	begin, end := s.trial.WarmupSeconds, s.trial.WarmupSeconds+s.trial.WindowSeconds
	for _, at := range spans {
		if length := min(at.to, end) - max(at.from, begin); length > 0 && s.trial.WindowSeconds > 0 {
			d.share += length / s.trial.WindowSeconds
			d.signs[at.sign] += length / s.trial.WindowSeconds
		}
	}
	late, spans := s.lateSends(spans)
	if late > 0 {
		d.share += late
		d.signs[FlagGeneratorLag] += late
	}
	stretches := map[span]string{} // of the window's intervals: by what they are disturbed
	for _, i := range s.log {
		at := span{from: i.Start.Seconds(), to: (i.Start + i.Length).Seconds()}
		if _, seen := stretches[at]; !seen {
			stretches[at] = touched(at, spans)
		}
		if stretches[at] == "" && len(d.whole) == 0 {
			d.clean.add(i.Tag, i.Hist)
		}
	}
	for at, sign := range stretches {
		if length := min(at.to, end) - max(at.from, begin); sign != "" && length > 0 && s.trial.WindowSeconds > 0 {
			d.touched += length / s.trial.WindowSeconds
		}
	}
	d.share, d.touched = min(d.share, 1), min(d.touched, 1)
	if len(d.whole) > 0 {
		d.share, d.touched = 1, 1
	}
	d.clean.pack()
	return d
}

// touched returns the sign of the span that reaches into a stretch, none without. The
// spans are apart and in order.
func touched(at span, spans []span) string {
	n, _ := slices.BinarySearchFunc(spans, at.to, func(s span, to float64) int { return cmp.Compare(s.from, to) })
	if n > 0 && spans[n-1].to > at.from {
		return spans[n-1].sign
	}
	return ""
}

// apart joins spans that overlap; the sign is that of the first.
func apart(spans []span) (joined []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// disturbedSpans returns the disturbed spans, each with the guard that follows it, apart
// and in order; and how many stalls of the generator there were.
func (s *subject) disturbedSpans() (spans []span, stalls int) {
	epsilon := s.noticed()
	for _, stall := range s.stalls {
		if s.shared() {
			break // its own target's work keeps a sleeper waiting
		}
		late := stall.Late.Seconds()
		if late <= epsilon || !s.within(stall.Due.Seconds()) && !s.within(stall.Due.Seconds()+late) {
			continue
		}
		if !stall.Target {
			stalls++
		}
		spans = append(spans, span{stall.Due.Seconds(), stall.Due.Seconds() + late + s.guard(late), FlagLateWakeups})
	}
	spans = append(spans, s.readings(FlagSteal, stolenStretch, "generator_cpus_cpu_steal_seconds", "generator_cpus_cpu_seconds")...)
	spans = append(spans, s.readings(FlagSteal, stolenStretch, "target_cpus_cpu_steal_seconds", "target_cpus_cpu_seconds")...)
	if s.series != nil && s.series.Column("generator_cpus_cpu_seconds") == nil {
		spans = append(spans, s.readings(FlagSteal, stolenStretch, "machine_cpu_steal_seconds", "machine_cpu_seconds")...)
	}
	spans = append(spans, s.readings(FlagMemoryPressure, pressedStretch, "machine_memory_stall_seconds", rundir.TimeColumn)...)
	spans = append(spans, s.readings(FlagIOPressure, pressedStretch, "machine_io_stall_seconds", rundir.TimeColumn)...)
	return apart(spans), stalls
}

// lateSends returns the share of the requests of an open loop that the generator sent so
// late that it is noticed, or that met what those had gathered; and the spans with the
// stretches in which it did.
func (s *subject) lateSends(spans []span) (share float64, with []span) {
	all := s.times[tagGeneratorLag]
	if !s.open() || s.shared() || all == nil || all.Count() == 0 {
		return 0, spans
	}
	epsilon := s.noticed()
	for _, i := range s.log {
		if i.Tag != tagGeneratorLag || i.Hist.Count() == 0 {
			continue
		}
		if late := seconds(float64(i.Hist.Max())); late > epsilon {
			spans = append(spans, span{i.Start.Seconds(), (i.Start + i.Length).Seconds() + s.guard(late), FlagGeneratorLag})
		}
	}
	// Late ones come together, and those that arrive in the busy period which they open wait
	// for them.
	share = 1 - float64(all.CountAtOrBelow(int64(epsilon*1e9)))/float64(all.Count())
	return min(1, share/(1-s.utilization())), apart(spans)
}

// noticed is the delay, in seconds, that the trial's figures notice.
func (s *subject) noticed() float64 {
	median := 0.0
	if p50 := s.times.quantile(s.plan.Latency(), 2); p50 != nil {
		median = *p50
	}
	return max(leastDelay.Seconds(), noticeable*median)
}

// guard is how long after a delay, in seconds, its consequences last: until what has
// gathered is served, beside what goes on arriving, and recorded. The busy period that
// a delay opens in a queue of utilization ρ is as long as the delay times ρ/(1−ρ).
func (s *subject) guard(late float64) float64 {
	u := s.utilization()
	drained := min(late*u/(1-u), longestGuard.Seconds())
	if h := s.times[s.plan.Latency()]; h != nil && h.Count() > 0 {
		drained += seconds(h.Mean()) // of what was under way when it began, or begins as it ends
	}
	return drained
}

// utilization is the share of its CPUs that the target used.
func (s *subject) utilization() float64 {
	if share := s.trial.Target.CPUShare; share != nil {
		return min(max(*share, 0), 0.99)
	}
	return 0.5 // where it is not known
}

// readings returns the spans between two readings in which a counter grew by more than a
// share of another.
func (s *subject) readings(sign string, share float64, part, whole string) (spans []span) {
	if s.series == nil {
		return nil
	}
	at, parts, wholes := s.series.Column(rundir.TimeColumn), s.series.Column(part), s.series.Column(whole)
	if parts == nil || wholes == nil {
		return nil
	}
	for i := 1; i < len(at); i++ {
		if grown := wholes[i] - wholes[i-1]; grown > 0 && parts[i]-parts[i-1] > share*grown && (s.within(at[i]) || s.within(at[i-1])) {
			late := parts[i] - parts[i-1]
			spans = append(spans, span{at[i-1], at[i] + s.guard(late), sign})
		}
	}
	return spans
}

// shorten is how many requests of a closed loop a late generator may have made look
// faster than they would have been. While it does not send, the target works off what
// it has, and the next request of each connection meets a shorter queue: no more than
// one for each connection and stall. In an open loop a late request only makes others
// wait, and itself counts from when it was due.
func (s *subject) shorten(stalls int) float64 {
	if s.open() || s.streaming() {
		return 0
	}
	return float64(stalls) * float64(max(s.plan.Connections, 1))
}

// lostBy is the time in which somebody who could have worked had no CPU.
func lostBy(s subject) (l lostTime) {
	g, t := s.trial.Generator, s.trial.Target
	if g.RunQueueWaitShare != nil && !s.shared() {
		usual := 0.0
		if g.TimeslicesPerSecond != nil {
			usual = *g.TimeslicesPerSecond * WakeupCost.Seconds()
		}
		l.generator = max(0, *g.RunQueueWaitShare-usual)
	}
	l.generator += stolen(s.trial, g.StealShare)
	l.target = stolen(s.trial, t.StealShare)
	if t.ForeignShare != nil {
		l.target += *t.ForeignShare
	}
	const most = 0.99
	return lostTime{min(l.generator, most), min(l.target, most)}
}

// stolen is the share of the CPUs' time that the hypervisor took: of somebody's own, or
// else of all.
func stolen(t *rundir.Trial, own *float64) float64 {
	switch {
	case own != nil:
		return *own
	case t.Machine.StealShare != nil:
		return *t.Machine.StealShare
	}
	return 0
}

// quantile returns a quantile of the clean stretches, in seconds; nil where too few values
// support it.
func (d *disturbance) quantile(tag string, q float64) *float64 {
	h := d.clean[tag]
	if h == nil || float64(h.Count())*(1-q) < rundir.Beyond-0.5 {
		return nil
	}
	v := seconds(float64(h.Quantile(q)))
	return &v
}

// causes lists what disturbed a trial, the most first.
func (d *disturbance) causes() []string {
	kinds := slices.SortedFunc(maps.Keys(d.signs), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.signs[b], d.signs[a]), cmp.Compare(a, b))
	})
	return append(slices.Clone(d.whole), slices.DeleteFunc(kinds, func(k string) bool { return slices.Contains(d.whole, k) })...)
}

// disturbed is how many values of a tag were recorded in disturbed stretches, of how
// many. In a closed loop a stretch in which little was sent counts as much as one
// like the others: without the disturbance, as much would have been sent.
func (d *disturbance) disturbed(tag string, all *hist.Histogram, closed bool) (bad, of float64) {
	of = float64(all.Count())
	clean := 0.0
	if h := d.clean[tag]; h != nil {
		clean = float64(h.Count())
	}
	bad = of - clean
	if closed && d.touched < 1 {
		bad = max(bad, clean*d.touched/(1-d.touched))
	}
	return bad, clean + bad
}
