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

// A Trial is a trial of the run that was read and examined.
type Trial struct {
	*rundir.Trial
	checks      []rundir.Check
	AllFlags    []rundir.Flag // findings, and what the trial itself raised
	dependence  *rundir.Dependence
	trends      []rundir.Trend
	Disturbance *disturbance.Disturbance // nil of a trial that is not complete
	Stats       *Stats                   // nil of a trial that is not complete
	replaced    bool                     // a later trial took its place
	excluded    bool                     // its round was disturbed, and another was measured instead
	substitute  bool                     // it was interrupted, and its variant has no other figures; it belongs to no round
}

// used tells whether its variant's figures are made of the trial, unless its round is
// excluded.
func (s *Trial) used() bool { return s.Purpose == "" && s.IsMeasured() && !s.replaced }

// isDisturbed tells whether the machine or the generator disturbed the trial beyond a limit
// fixed beforehand. Nothing that the target does has an influence on it.
func (s *Trial) isDisturbed() bool {
	return disturb(s.AllFlags)
}

// Examined is the entry of the trial in run.json. For a probe that was not disturbed, good tells
// whether it was good.
func (s *Trial) Examined(good *bool) rundir.Examined {
	checks := s.checks
	if checks == nil {
		checks = []rundir.Check{}
	}
	return rundir.Examined{
		Number: s.Number, Round: s.Round, Variant: s.Variant, Purpose: s.Purpose, Rate: s.Rate, Good: good,
		Replaced: s.replaced, Lost: s.Lost(), Excluded: s.excluded, Disturbed: s.isDisturbed(), DisturbedShare: s.disturbedShare(), Checks: checks, Dependence: s.dependence,
	}
}

// disturbedShare is the share that run.json holds; nil if there was no observer for it.
func (s *Trial) disturbedShare() *float64 {
	if s.Disturbance == nil || !s.Disturbance.Known {
		return nil
	}
	return &s.Disturbance.Moved
}

// An UnreadError says that the recordings of a trial cannot be read.
type UnreadError struct {
	Trial int // its number
	Err   error
}

func (e *UnreadError) Error() string { return fmt.Sprintf("trial %d: %v", e.Trial, e.Err) }
func (e *UnreadError) Unwrap() error { return e.Err }

// Taken are the trials of one run that were taken so far. Those that ask for a trial again need not read it again.
type Taken map[place]*Trial

// A place is what trials are taken by. A trial that was measured may turn out not to count.
type place struct {
	number               int
	measured, substitute bool
}

// TakeAll examines all trials, by number, and decides which count.
func (k Taken) TakeAll(plan rundir.Plan, sources []recording.Source) ([]*Trial, error) {
	var recorded []*rundir.Trial
	for _, from := range sources {
		recorded = append(recorded, from.Trial)
	}
	substitutes := rundir.Substitutes(recorded)
	trials := make([]*Trial, 0, len(sources))
	for _, from := range sources {
		s, err := k.Take(plan, from, substitutes[from.Trial.Number])
		if err != nil {
			return nil, &UnreadError{from.Trial.Number, err}
		}
		trials = append(trials, s)
	}
	slices.SortFunc(trials, func(a, b *Trial) int { return cmp.Compare(a.Number, b.Number) })
	markReplaced(trials)
	return trials, nil
}

// Take examines a trial.
func (k Taken) Take(plan rundir.Plan, from recording.Source, substitute bool) (*Trial, error) {
	at := place{from.Trial.Number, from.Trial.IsMeasured(), substitute}
	if k[at] == nil {
		s, err := take(plan, from, substitute)
		if err != nil {
			return nil, err
		}
		k[at] = s
	}
	return new(*k[at]), nil // whether it counts is decided each time
}

// take reads a trial's recordings, once, and keeps what judging needs.
func take(plan rundir.Plan, from recording.Source, substitute bool) (*Trial, error) {
	x, err := from.Read(plan, substitute)
	if err != nil {
		return nil, err
	}
	t := x.Trial
	s := &Trial{Trial: t, substitute: substitute}
	s.checks, s.AllFlags, s.dependence = checks.Examine(x)
	for _, f := range t.Flags {
		if !checks.IsKnown(f.Kind) {
			f.Trial, f.Variant = t.Number, t.Variant
			s.AllFlags = append(s.AllFlags, f)
		}
	}
	if x.HasFigures() {
		s.Disturbance = disturbance.Find(x)
		if !recording.WithoutLoad(x.Plan) {
			checks, flags := checks.Disturbed(x, s.Disturbance.Known, s.Disturbance.Lost, s.Disturbance.Causes())
			s.checks, s.AllFlags = append(s.checks, checks...), append(s.AllFlags, flags...)
		}
		x.Times.Pack()
		s.Stats = ofTrial(t, x.Times)
		s.Stats.StageLogs, s.Stats.Stages = x.Stages, stageFigures(x.Stages)
		s.Stats.Disturbance, s.Stats.Flags = s.Disturbance, s.AllFlags
		if wantsTrends(plan) && t.Purpose == "" {
			s.trends = checks.Trends(x)
		}
	}
	return s, nil
}

// Unrecorded makes trials of what trial.json holds, without their recordings.
func Unrecorded(from []rundir.Trial) (trials []*Trial) {
	for i := range from {
		s := &Trial{Trial: &from[i]}
		if s.IsMeasured() {
			s.Stats = ofTrial(s.Trial, nil)
		}
		trials = append(trials, s)
	}
	slices.SortFunc(trials, func(a, b *Trial) int { return a.Number - b.Number })
	markReplaced(trials)
	return trials
}

// markReplaced marks the trials, given by number, that a later complete one replaced: a
// run that is resumed measures an interrupted round, or search, again. Every complete
// probe of a search counts.
func markReplaced(trials []*Trial) {
	type key struct {
		purpose, variant, peer string
		round                  int
	}
	of := func(s *Trial) key { return key{s.Purpose, s.Variant, s.Peer(), s.Round} }
	last := map[key]int{}
	for _, s := range trials {
		if s.IsMeasured() {
			last[of(s)] = s.Number
		}
	}
	for _, s := range trials {
		counts := s.IsMeasured() && s.Purpose == rundir.PurposeProbe
		s.replaced = !counts && s.Number < last[of(s)]
	}
}

// fewestRounds is how many rounds an interval by ranks needs, at 95 %.
const fewestRounds = 6

// Exclude marks the trials of disturbed rounds that were measured again. It marks none if the
// rounds that are left are fewer than intervals need, or than half of those planned.
func Exclude(plan rundir.Plan, trials []*Trial) {
	if plan.Remeasure == 0 {
		return
	}
	disturbed, left := disturbedRounds(trials), 0
	for _, is := range disturbed {
		if !is {
			left++
		}
	}
	planned := min(plan.Rounds, len(disturbed)) // a rule may have ended the run before
	if left < min(planned, max(fewestRounds, (planned+1)/2)) {
		return
	}
	for _, s := range trials {
		s.excluded = s.used() && disturbed[s.Round]
	}
}

// disturbedRounds tells of each round whether it was disturbed.
func disturbedRounds(trials []*Trial) map[int]bool {
	rounds := map[int][]*Trial{}
	for _, s := range trials {
		if s.used() {
			rounds[s.Round] = append(rounds[s.Round], s)
		}
	}
	disturbed := make(map[int]bool, len(rounds))
	for round, trials := range rounds {
		disturbed[round] = DisturbedRound(trials)
	}
	return disturbed
}

// DisturbedRound tells whether the machine or the generator disturbed one of a round's trials
// beyond its limit. A round that a target lost does not count as disturbed: a target that thrashes
// until it hangs disturbs the machine, too.
func DisturbedRound(trials []*Trial) bool {
	lost := func(s *Trial) bool {
		return s.Lost() || slices.ContainsFunc(s.AllFlags, func(f rundir.Flag) bool { return f.Breaks })
	}
	return slices.ContainsFunc(trials, (*Trial).isDisturbed) && !slices.ContainsFunc(trials, lost)
}

// measuredAgain are the rounds that others replaced: the first disturbed ones, up to the number
// that the plan allows. The rule that ends a run did not see them.
func measuredAgain(plan rundir.Plan, trials []*Trial) map[int]bool {
	disturbed, again := disturbedRounds(trials), map[int]bool{}
	for _, round := range slices.Sorted(maps.Keys(disturbed)) {
		if disturbed[round] && len(again) < plan.Remeasure {
			again[round] = true
		}
	}
	return again
}

// FlagsOf returns the flags of the trials that figures are made of. Flags of pilots, of
// probes, of replaced trials and of disturbed rounds are only in Run.Trials.
func FlagsOf(trials []*Trial) []rundir.Flag {
	var flags []rundir.Flag
	for _, s := range trials {
		if s.Purpose == "" && !s.replaced && !s.excluded {
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
		slices.ContainsFunc(plan.Claims, func(c rundir.PlanClaim) bool { return asks(c.Holds) || asks(c.Measured) })
}
