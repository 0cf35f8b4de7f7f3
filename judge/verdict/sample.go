package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// A sample is a trial prepared for judging.
type sample struct {
	*rundir.Trial
	checks     []rundir.Check
	flags      []rundir.Flag // findings, and what the trial itself raised
	dependence *rundir.Dependence
	trends     []rundir.Trend
	disturbed  *disturbance.Disturbance // nil of a trial that is not complete
	figures    *figures                 // nil of a trial that is not complete
	replaced   bool                     // a later trial took its place
	excluded   bool                     // its round was spoilt, and another was measured instead
	substitute bool                     // it was interrupted, and its variant has no other figures; it belongs to no round
}

// counts tells whether the sample is one of its variant's figures, unless its
// round is excluded.
func (s *sample) counts() bool { return s.Purpose == "" && s.Stands() && !s.replaced }

// spoilt tells whether the machine or the generator disturbed the trial beyond a limit
// fixed beforehand. Nothing that the target decides has an influence on it.
func (s *sample) spoilt() bool {
	return slices.ContainsFunc(s.flags, func(f rundir.Flag) bool { return f.Spoils && checks.DisturbsRound(f.Kind) })
}

// examined is the entry of the trial in run.json. Good tells of a probe that was not
// disturbed whether it was good.
func (s *sample) examined(good *bool) rundir.Examined {
	checks := s.checks
	if checks == nil {
		checks = []rundir.Check{}
	}
	return rundir.Examined{
		Number: s.Number, Round: s.Round, Variant: s.Variant, Purpose: s.Purpose, Rate: s.Rate, Good: good,
		Replaced: s.replaced, Lost: s.Lost(), Excluded: s.excluded, Spoilt: s.spoilt(), Disturbed: s.disturbedShare(), Checks: checks, Dependence: s.dependence,
	}
}

// disturbedShare is the share that run.json holds; nil if there was no observer for it.
func (s *sample) disturbedShare() *float64 {
	if s.disturbed == nil || !s.disturbed.Known {
		return nil
	}
	return &s.disturbed.Moved
}

// takeAll examines all trials, by number, and decides which count.
func takeAll(plan rundir.Plan, sources []recording.Source) ([]*sample, error) {
	var trials []*rundir.Trial
	for _, from := range sources {
		trials = append(trials, from.Trial)
	}
	substitutes := rundir.Substitutes(trials)
	samples := make([]*sample, 0, len(sources))
	for _, from := range sources {
		s, err := take(plan, from, substitutes[from.Trial.Number])
		if err != nil {
			return nil, fmt.Errorf("trial %d: %w", from.Trial.Number, err)
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b *sample) int { return cmp.Compare(a.Number, b.Number) })
	markReplaced(samples)
	return samples, nil
}

// take reads a trial's recordings, once, and keeps what judging needs.
func take(plan rundir.Plan, from recording.Source, substitute bool) (*sample, error) {
	x, err := from.Read(plan, substitute)
	if err != nil {
		return nil, err
	}
	t := x.Trial
	s := &sample{Trial: t, substitute: substitute}
	s.checks, s.flags, s.dependence = checks.Examine(x)
	for _, f := range t.Flags {
		if !checks.IsKnown(f.Kind) {
			f.Trial, f.Variant = t.Number, t.Variant
			s.flags = append(s.flags, f)
		}
	}
	if x.HasFigures() {
		s.disturbed = disturbance.Find(x, s.flags)
		if !recording.WithoutLoad(x.Plan) {
			checks, flags := checks.Disturbed(x, s.disturbed.Known, s.disturbed.Taken, s.disturbed.Causes())
			s.checks, s.flags = append(s.checks, checks...), append(s.flags, flags...)
		}
		x.Times.Pack()
		s.figures = ofTrial(t, x.Times)
		s.figures.disturbed, s.figures.flags = s.disturbed, s.flags
		if wantsTrends(plan) && t.Purpose == "" {
			s.trends = checks.Trends(x)
		}
	}
	return s, nil
}

// markReplaced marks the trials, given by number, that a later complete one replaced: a
// run that is resumed measures an interrupted round, or search, again. Every complete
// probe of a search counts.
func markReplaced(samples []*sample) {
	type place struct {
		purpose, variant, beside string
		round                    int
	}
	of := func(s *sample) place { return place{s.Purpose, s.Variant, s.Beside(), s.Round} }
	last := map[place]int{}
	for _, s := range samples {
		if s.Stands() {
			last[of(s)] = s.Number
		}
	}
	for _, s := range samples {
		stands := s.Stands() && s.Purpose == rundir.PurposeProbe
		s.replaced = !stands && s.Number < last[of(s)]
	}
}

// fewestRounds is how many rounds an interval by ranks needs, at 95 %.
const fewestRounds = 6

// exclude marks the trials of spoilt rounds that were measured again: all of them, if the
// rounds that are left are as many as intervals need and half of those planned.
func exclude(plan rundir.Plan, samples []*sample) {
	if plan.Remeasure == 0 {
		return
	}
	spoilt, left := spoiltRounds(samples), 0
	for _, is := range spoilt {
		if !is {
			left++
		}
	}
	planned := min(plan.Rounds, len(spoilt)) // a rule may have ended the run before
	if left < min(planned, max(fewestRounds, (planned+1)/2)) {
		return
	}
	for _, s := range samples {
		s.excluded = s.counts() && spoilt[s.Round]
	}
}

// spoiltRounds tells of each round whether it was spoilt.
func spoiltRounds(samples []*sample) map[int]bool {
	rounds := map[int][]*sample{}
	for _, s := range samples {
		if s.counts() {
			rounds[s.Round] = append(rounds[s.Round], s)
		}
	}
	spoilt := make(map[int]bool, len(rounds))
	for round, trials := range rounds {
		spoilt[round] = spoiltRound(trials)
	}
	return spoilt
}

// spoiltRound tells whether the machine or the generator disturbed one of a round's trials
// beyond its limit. A round that a target lost is none, as noise does not excuse that: a target
// that thrashes until it hangs disturbs the machine, too.
func spoiltRound(trials []*sample) bool {
	lost := func(s *sample) bool {
		return s.Lost() || slices.ContainsFunc(s.flags, func(f rundir.Flag) bool { return f.Breaks })
	}
	return slices.ContainsFunc(trials, (*sample).spoilt) && !slices.ContainsFunc(trials, lost)
}

// measuredAgain are the rounds in whose place others were measured: the first spoilt ones, as
// many as the plan allows. The rule that ends a run did not hear of them.
func measuredAgain(plan rundir.Plan, samples []*sample) map[int]bool {
	spoilt, again := spoiltRounds(samples), map[int]bool{}
	for _, round := range slices.Sorted(maps.Keys(spoilt)) {
		if spoilt[round] && len(again) < plan.Remeasure {
			again[round] = true
		}
	}
	return again
}

// flagsOfTrials returns the flags of trials that are the run's. Flags of pilots, of
// probes, of replaced trials and of spoilt rounds are only in Run.Trials, because these
// trials are behind no figure.
func flagsOfTrials(samples []*sample) []rundir.Flag {
	var flags []rundir.Flag
	for _, s := range samples {
		if s.Purpose != "" || s.replaced {
			continue
		}
		if !s.excluded {
			flags = append(flags, s.flags...)
		}
	}
	return flags
}

// wantsTrends tells whether the growth of the target's gauges is needed: in a soak, and
// where a condition asks for a slope.
func wantsTrends(plan rundir.Plan) bool {
	asks := func(text string) bool { return strings.Contains(text, "slope") }
	return plan.Soak || slices.ContainsFunc(plan.Thresholds, asks) ||
		slices.ContainsFunc(plan.Claims, func(c rundir.PlanClaim) bool { return asks(c.Holds) || asks(c.Direction) })
}
