package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"dyno/judge/capacity"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A source is a trial with its recordings.
type source struct {
	trial  *rundir.Trial
	log    func() ([]hist.Interval, error) // the latency log, all tags; starts are from the beginning of the warm-up
	series func() (*rundir.Series, error)  // nil without an error: there is no series
	stalls func() (stalls []rundir.Stall, known bool, err error)
}

// A sample is a trial prepared for judging.
type sample struct {
	*rundir.Trial
	checks     []rundir.Check
	flags      []rundir.Flag // findings, and what the trial itself raised
	dependence *rundir.Dependence
	trends     []rundir.Trend
	disturbed  *disturbance // nil of a trial that is not complete
	figures    *figures     // nil of a trial that is not complete
	replaced   bool         // a later trial took its place
	excluded   bool         // its round was spoilt, and another was measured instead
	substitute bool         // it was interrupted, and its variant has no other figures; it belongs to no round

	probe   *capacity.Trial // of a probe
	why     string          // it is not good: the threshold, the kind of flag, or a sentence
	because *rundir.Message // the sentence as data
	// doubtful tells that something disturbed a figure of a threshold that could not be decided.
	doubtful bool
}

// counts tells whether the sample is one of its variant's figures, unless its
// round is excluded.
func (s *sample) counts() bool { return s.Purpose == "" && s.Stands() && !s.replaced }

// spoilt tells whether the machine or the generator disturbed the trial beyond a limit
// fixed beforehand. Nothing that the target decides has an influence on it.
func (s *sample) spoilt() bool {
	return slices.ContainsFunc(s.flags, func(f rundir.Flag) bool { return f.Spoils && spoilsRound(f.Kind) })
}

// examined is the entry of the trial in run.json.
func (s *sample) examined() rundir.Examined {
	checks := s.checks
	if checks == nil {
		checks = []rundir.Check{}
	}
	var good *bool
	if s.probe != nil && !s.probe.Spoilt {
		good = &s.probe.Good
	}
	return rundir.Examined{
		Number: s.Number, Round: s.Round, Variant: s.Variant, Purpose: s.Purpose, Rate: s.Rate, Good: good,
		Replaced: s.replaced, Lost: s.Lost(), Excluded: s.excluded, Spoilt: s.spoilt(), Disturbed: s.disturbedShare(), Checks: checks, Dependence: s.dependence,
	}
}

// takeAll examines all trials, by number, and decides which count.
func takeAll(plan rundir.Plan, sources []source) ([]*sample, error) {
	var trials []*rundir.Trial
	for _, from := range sources {
		trials = append(trials, from.trial)
	}
	substitutes := rundir.Substitutes(trials)
	samples := make([]*sample, 0, len(sources))
	for _, from := range sources {
		s, err := take(plan, from, substitutes[from.trial.Number])
		if err != nil {
			return nil, fmt.Errorf("trial %d: %w", from.trial.Number, err)
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b *sample) int { return cmp.Compare(a.Number, b.Number) })
	markReplaced(samples)
	return samples, nil
}

// take reads a trial's recordings, once, and keeps what judging needs.
func take(plan rundir.Plan, from source, substitute bool) (*sample, error) {
	t := from.trial
	at := slices.IndexFunc(plan.Variants, func(v rundir.PlanVariant) bool { return v.Name == t.Variant })
	if at < 0 {
		return nil, fmt.Errorf("variant %q is not in the plan", t.Variant)
	}
	x := subject{trial: t, plan: plan.Variants[at], substitute: substitute}
	measured := t.Stands() || substitute
	if measured {
		var err error
		if !isProgram(x.plan) {
			x.log, err = from.log()
			if err != nil && (t.Complete || substitute || !errors.Is(err, fs.ErrNotExist)) { // with nothing reached there is none
				return nil, fmt.Errorf("latency log: %w", err)
			}
		}
		if x.series, err = from.series(); err != nil {
			return nil, fmt.Errorf("series: %w", err)
		}
		if x.stalls, x.stallsKnown, err = from.stalls(); err != nil {
			return nil, fmt.Errorf("stalls: %w", err)
		}
		x.times = merged(x.log)
	}
	s := &sample{Trial: t, substitute: substitute}
	s.checks, s.flags, s.dependence = examine(x)
	for _, f := range t.Flags {
		if !ours(f.Kind) {
			f.Trial, f.Variant = t.Number, t.Variant
			s.flags = append(s.flags, f)
		}
	}
	if measured {
		s.disturbed = disturb(x, s.flags)
		s.judgeDisturbed(x.plan)
		x.times.pack()
		s.figures = ofTrial(t, x.times)
		s.figures.disturbed, s.figures.flags = s.disturbed, s.flags
		if wantsTrends(plan) && t.Purpose == "" {
			s.trends = trends(x)
		}
	}
	return s, nil
}

// isProgram tells whether a variant is a program that runs to its end: it has no load and
// no latencies.
func isProgram(v rundir.PlanVariant) bool { return v.Loop == "" }

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
