package disturbance

import (
	"cmp"
	"slices"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// A span is a stretch of the trial's time line, in seconds.
type span struct {
	from, to float64
	sign     string
}

// overlapping returns the sign of the span that overlaps a stretch, or "" for none. The spans
// are in order and do not overlap.
func overlapping(at span, spans []span) string {
	n, _ := slices.BinarySearchFunc(spans, at.to, func(s span, to float64) int { return cmp.Compare(s.from, to) })
	if n > 0 && spans[n-1].to > at.from {
		return spans[n-1].sign
	}
	return ""
}

// merged joins spans that overlap. The sign is that of the first.
func merged(spans []span) (joined []span) {
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

// disturbedSpans returns the disturbed spans in order, without overlaps. Each includes
// the guard time after it.
func (s *detector) disturbedSpans() (spans []span) {
	long := max(s.noticed(), LongStall.Seconds())
	for _, stall := range s.Stalls {
		if s.SharesCPUs() {
			break // its own target's work keeps a sleeper waiting
		}
		late := stall.Late.Seconds()
		if late <= long || !s.StallInWindow(stall) {
			continue
		}
		spans = append(spans, span{stall.Due.Seconds(), stall.Due.Seconds() + late + s.guard(late), checks.FlagLateWakeups})
	}
	if s.Open() && !s.SharesCPUs() {
		for _, i := range s.Log {
			if i.Tag != rundir.TagGeneratorLag || i.Hist.Count() == 0 {
				continue
			}
			if late := recording.Seconds(float64(i.Hist.Max())); late > long {
				spans = append(spans, span{i.Start.Seconds(), (i.Start + i.Length).Seconds() + s.guard(late), checks.FlagGeneratorLag})
			}
		}
	}
	return merged(append(spans, s.readSpans()...))
}

// readSpans returns the spans that counters reveal. They are as long as the time between
// two readings.
func (s *detector) readSpans() (spans []span) {
	spans = append(spans, s.readings(checks.FlagSteal, stolenStretch, "generator_cpus_cpu_steal_seconds", "generator_cpus_cpu_seconds")...)
	spans = append(spans, s.readings(checks.FlagSteal, stolenStretch, "target_cpus_cpu_steal_seconds", "target_cpus_cpu_seconds")...)
	if s.Series != nil && s.Series.Column("generator_cpus_cpu_seconds") == nil {
		spans = append(spans, s.readings(checks.FlagSteal, stolenStretch, "machine_cpu_steal_seconds", "machine_cpu_seconds")...)
	}
	spans = append(spans, s.readings(checks.FlagMemoryPressure, pressedStretch, "machine_memory_stall_seconds", rundir.TimeColumn)...)
	spans = append(spans, s.readings(checks.FlagIOPressure, pressedStretch, "machine_io_stall_seconds", rundir.TimeColumn)...)
	return spans
}

// readings returns the spans between two readings in which a counter grew by more than a
// share of another.
func (s *detector) readings(sign string, share float64, part, whole string) (spans []span) {
	if s.Series == nil {
		return nil
	}
	at, parts, wholes := s.Series.Column(rundir.TimeColumn), s.Series.Column(part), s.Series.Column(whole)
	if parts == nil || wholes == nil {
		return nil
	}
	for i := 1; i < len(at); i++ {
		if grown := wholes[i] - wholes[i-1]; grown > 0 && parts[i]-parts[i-1] > share*grown && (s.InWindow(at[i]) || s.InWindow(at[i-1])) {
			late := parts[i] - parts[i-1]
			spans = append(spans, span{at[i-1], at[i] + s.guard(late), sign})
		}
	}
	return spans
}

// guard is how long, in seconds, the consequences of a delay last: until the requests
// that piled up are served, next to those that continue to arrive, and are recorded. The
// busy period that a delay opens in a queue of utilization ρ is as long as the delay
// times ρ/(1−ρ).
func (s *detector) guard(late float64) float64 {
	drained := min(late*s.busyPeriod(), longestGuard.Seconds())
	if p90 := s.Times.Quantile(s.Plan.Latency(), 10); p90 != nil {
		drained += *p90
	}
	return drained
}
