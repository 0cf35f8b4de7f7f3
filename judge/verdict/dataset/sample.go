package dataset

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

// A Sample is a trial prepared for judging.
type Sample struct {
	*rundir.Trial
	checks      []rundir.Check
	AllFlags    []rundir.Flag // findings, and what the trial itself raised
	dependence  *rundir.Dependence
	trends      []rundir.Trend
	Disturbance *disturbance.Disturbance // nil of a trial that is not complete
	Stats       *Stats                   // nil of a trial that is not complete
	replaced    bool                     // a later trial took its place
	excluded    bool                     // its round was spoilt, and another was measured instead
	substitute  bool                     // it was interrupted, and its variant has no other figures; it belongs to no round
}

// used tells whether the sample is one of its variant's figures, unless its
// round is excluded.
func (s *Sample) used() bool { return s.Purpose == "" && s.Stands() && !s.replaced }

// isDisturbed tells whether the machine or the generator disturbed the trial beyond a limit
// fixed beforehand. Nothing that the target decides has an influence on it.
func (s *Sample) isDisturbed() bool {
	return slices.ContainsFunc(s.AllFlags, func(f rundir.Flag) bool { return f.Spoils && checks.DisturbsRound(f.Kind) })
}

// Examined is the entry of the trial in run.json. Good tells of a probe that was not
// disturbed whether it was good.
func (s *Sample) Examined(good *bool) rundir.Examined {
	checks := s.checks
	if checks == nil {
		checks = []rundir.Check{}
	}
	return rundir.Examined{
		Number: s.Number, Round: s.Round, Variant: s.Variant, Purpose: s.Purpose, Rate: s.Rate, Good: good,
		Replaced: s.replaced, Lost: s.Lost(), Excluded: s.excluded, Spoilt: s.isDisturbed(), Disturbed: s.disturbedShare(), Checks: checks, Dependence: s.dependence,
	}
}

// disturbedShare is the share that run.json holds; nil if there was no observer for it.
func (s *Sample) disturbedShare() *float64 {
	if s.Disturbance == nil || !s.Disturbance.Known {
		return nil
	}
	return &s.Disturbance.Moved
}

// TakeAll examines all trials, by number, and decides which count.
func TakeAll(plan rundir.Plan, sources []recording.Source) ([]*Sample, error) {
	var trials []*rundir.Trial
	for _, from := range sources {
		trials = append(trials, from.Trial)
	}
	substitutes := rundir.Substitutes(trials)
	samples := make([]*Sample, 0, len(sources))
	for _, from := range sources {
		s, err := Take(plan, from, substitutes[from.Trial.Number])
		if err != nil {
			return nil, fmt.Errorf("trial %d: %w", from.Trial.Number, err)
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b *Sample) int { return cmp.Compare(a.Number, b.Number) })
	markReplaced(samples)
	return samples, nil
}

// Take reads a trial's recordings, once, and keeps what judging needs.
func Take(plan rundir.Plan, from recording.Source, substitute bool) (*Sample, error) {
	x, err := from.Read(plan, substitute)
	if err != nil {
		return nil, err
	}
	t := x.Trial
	s := &Sample{Trial: t, substitute: substitute}
	s.checks, s.AllFlags, s.dependence = checks.Examine(x)
	for _, f := range t.Flags {
		if !checks.IsKnown(f.Kind) {
			f.Trial, f.Variant = t.Number, t.Variant
			s.AllFlags = append(s.AllFlags, f)
		}
	}
	if x.HasFigures() {
		s.Disturbance = disturbance.Find(x, s.AllFlags)
		if !recording.WithoutLoad(x.Plan) {
			checks, flags := checks.Disturbed(x, s.Disturbance.Known, s.Disturbance.Taken, s.Disturbance.Causes())
			s.checks, s.AllFlags = append(s.checks, checks...), append(s.AllFlags, flags...)
		}
		x.Times.Pack()
		s.Stats = ofTrial(t, x.Times)
		s.Stats.Disturbance, s.Stats.Flags = s.Disturbance, s.AllFlags
		if wantsTrends(plan) && t.Purpose == "" {
			s.trends = checks.Trends(x)
		}
	}
	return s, nil
}

// Unrecorded makes samples of what trial.json holds alone.
func Unrecorded(trials []rundir.Trial) (samples []*Sample) {
	for i := range trials {
		s := &Sample{Trial: &trials[i]}
		if s.Stands() {
			s.Stats = ofTrial(s.Trial, nil)
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b *Sample) int { return a.Number - b.Number })
	markReplaced(samples)
	return samples
}

// markReplaced marks the trials, given by number, that a later complete one replaced: a
// run that is resumed measures an interrupted round, or search, again. Every complete
// probe of a search counts.
func markReplaced(samples []*Sample) {
	type place struct {
		purpose, variant, beside string
		round                    int
	}
	of := func(s *Sample) place { return place{s.Purpose, s.Variant, s.Beside(), s.Round} }
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

// Exclude marks the trials of spoilt rounds that were measured again: all of them, if the
// rounds that are left are as many as intervals need and half of those planned.
func Exclude(plan rundir.Plan, samples []*Sample) {
	if plan.Remeasure == 0 {
		return
	}
	spoilt, left := disturbedRounds(samples), 0
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
		s.excluded = s.used() && spoilt[s.Round]
	}
}

// disturbedRounds tells of each round whether it was spoilt.
func disturbedRounds(samples []*Sample) map[int]bool {
	rounds := map[int][]*Sample{}
	for _, s := range samples {
		if s.used() {
			rounds[s.Round] = append(rounds[s.Round], s)
		}
	}
	spoilt := make(map[int]bool, len(rounds))
	for round, trials := range rounds {
		spoilt[round] = DisturbedRound(trials)
	}
	return spoilt
}

// DisturbedRound tells whether the machine or the generator disturbed one of a round's trials
// beyond its limit. A round that a target lost is none, as noise does not excuse that: a target
// that thrashes until it hangs disturbs the machine, too.
func DisturbedRound(trials []*Sample) bool {
	lost := func(s *Sample) bool {
		return s.Lost() || slices.ContainsFunc(s.AllFlags, func(f rundir.Flag) bool { return f.Breaks })
	}
	return slices.ContainsFunc(trials, (*Sample).isDisturbed) && !slices.ContainsFunc(trials, lost)
}

// measuredAgain are the rounds in whose place others were measured: the first spoilt ones, as
// many as the plan allows. The rule that ends a run did not hear of them.
func measuredAgain(plan rundir.Plan, samples []*Sample) map[int]bool {
	spoilt, again := disturbedRounds(samples), map[int]bool{}
	for _, round := range slices.Sorted(maps.Keys(spoilt)) {
		if spoilt[round] && len(again) < plan.Remeasure {
			again[round] = true
		}
	}
	return again
}

// FlagsOf returns the flags of trials that are the run's. Flags of pilots, of
// probes, of replaced trials and of spoilt rounds are only in Run.Trials, because these
// trials are behind no figure.
func FlagsOf(samples []*Sample) []rundir.Flag {
	var flags []rundir.Flag
	for _, s := range samples {
		if s.Purpose != "" || s.replaced {
			continue
		}
		if !s.excluded {
			flags = append(flags, s.AllFlags...)
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
