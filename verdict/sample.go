package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"dyno/capacity"
	"dyno/hist"
	"dyno/rundir"
)

// FlagNothingExcluded is of the run: noisy rounds were to be left out, and are not.
// A warning; the trials have flags of their own.
const FlagNothingExcluded = "nothing_excluded"

// A source is a trial with what was recorded beside it.
type source struct {
	trial  *rundir.Trial
	log    func() ([]hist.Interval, error) // the latency log, all tags; starts are from the beginning of the warm-up
	series func() (*rundir.Series, error)  // nil without an error: there is none
}

// A sample is a trial as it is judged.
type sample struct {
	*rundir.Trial
	checks     []rundir.Check
	flags      []rundir.Flag // what was found, and what the trial itself raised
	dependence *rundir.Dependence
	trends     []rundir.Trend
	figures    *figures // nil of a trial that is not complete
	replaced   bool     // a later trial took its place
	excluded   bool     // its round was left out for noise

	probe *capacity.Trial // of a probe
	why   string          // it is not good: the threshold or the kind of flag
}

// counts tells whether the sample is one of its variant's figures, unless its
// round is excluded.
func (s *sample) counts() bool { return s.Purpose == "" && s.Stands() && !s.replaced }

func (s *sample) valid() bool {
	return !slices.ContainsFunc(s.flags, func(f rundir.Flag) bool { return f.Invalid })
}

// examined is what run.json says of the trial.
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
		Replaced: s.replaced, Lost: s.Trial.Lost(), Excluded: s.excluded, Valid: s.valid(), Checks: checks, Dependence: s.dependence,
	}
}

// takeAll examines all trials, by number, and settles which count.
func takeAll(plan rundir.Plan, sources []source) ([]*sample, error) {
	samples := make([]*sample, 0, len(sources))
	for _, from := range sources {
		s, err := take(plan, from)
		if err != nil {
			return nil, fmt.Errorf("trial %d: %w", from.trial.Number, err)
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b *sample) int { return cmp.Compare(a.Number, b.Number) })
	markReplaced(samples)
	return samples, nil
}

// take reads what was recorded of a trial, once, and keeps what judging needs.
func take(plan rundir.Plan, from source) (*sample, error) {
	t := from.trial
	at := slices.IndexFunc(plan.Variants, func(v rundir.PlanVariant) bool { return v.Name == t.Variant })
	if at < 0 {
		return nil, fmt.Errorf("variant %q is not in the plan", t.Variant)
	}
	x := subject{trial: t, plan: plan.Variants[at]}
	if t.Stands() {
		var err error
		if !isProgram(x.plan) {
			x.log, err = from.log()
			if err != nil && (t.Complete || !errors.Is(err, fs.ErrNotExist)) { // with nothing reached there is none
				return nil, fmt.Errorf("latency log: %w", err)
			}
		}
		if x.series, err = from.series(); err != nil {
			return nil, fmt.Errorf("series: %w", err)
		}
		x.times = merged(x.log)
	}
	s := &sample{Trial: t}
	s.checks, s.flags, s.dependence = examine(x)
	for _, f := range t.Flags {
		if !ours(f.Kind) {
			f.Trial, f.Variant = t.Number, t.Variant
			s.flags = append(s.flags, f)
		}
	}
	if t.Stands() {
		x.times.pack()
		s.figures = ofTrial(t, x.times)
		if wantsTrends(plan) && t.Purpose == "" {
			s.trends = trends(x)
		}
	}
	return s, nil
}

// isProgram tells whether a variant is a program that is run to its end: it has
// no load, and no latencies.
func isProgram(v rundir.PlanVariant) bool { return v.Loop == "" }

// markReplaced marks the trials, given by number, whose place a later complete one
// took: a run that is resumed measures an interrupted round, or search, anew.
// Every complete probe of a search stands for itself.
func markReplaced(samples []*sample) {
	type place struct {
		purpose, variant string
		round            int
	}
	of := func(s *sample) place { return place{s.Purpose, s.Variant, s.Round} }
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

// exclude marks the trials of the rounds in which the machine was too noisy, if
// the plan says so, and makes warnings of their flags, for they are behind no
// figure. With fewer than two rounds left it marks none and returns a flag.
func exclude(plan rundir.Plan, samples []*sample) []rundir.Flag {
	if !plan.Exclude {
		return nil
	}
	rounds, noise := map[int]bool{}, map[int]bool{}
	for _, s := range samples {
		if s.counts() {
			rounds[s.Round] = true
			noise[s.Round] = noise[s.Round] || noisy(s.checks)
		}
	}
	left := 0
	for round := range rounds {
		if !noise[round] {
			left++
		}
	}
	if left == len(rounds) {
		return nil
	}
	if left < 2 {
		return []rundir.Flag{{Kind: FlagNothingExcluded, Detail: fmt.Sprintf(
			"the machine was too noisy in all but %d of %d rounds: none is left out, as too few would remain", left, len(rounds))}}
	}
	for _, s := range samples {
		s.excluded = s.counts() && noise[s.Round]
	}
	return nil
}

// flagsOfTrials returns the flags of trials that are the run's. Those of pilots, of
// probes, and of trials that were replaced are not: they are behind no figure,
// and in Run.Trials.
func flagsOfTrials(samples []*sample) []rundir.Flag {
	var flags []rundir.Flag
	for _, s := range samples {
		if s.Purpose != "" || s.replaced {
			continue
		}
		for _, f := range s.flags {
			f.Invalid = f.Invalid && !s.excluded
			flags = append(flags, f)
		}
	}
	return flags
}
