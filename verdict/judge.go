package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"dyno/hist"
	"dyno/rundir"
)

// Judge fills in everything of a folder's run that follows from its trials:
// figures with their intervals, comparisons, ladder, sweeps, capacities, trends,
// thresholds, claims, flags and whether it is valid. It may be called again on a
// run that was judged before: what it found then is replaced, while flags of
// other kinds, of the trials and of the run, are kept. It writes nothing to the
// folder.
//
// It fails, leaving the run as it was, when a log cannot be read or a trial
// does not belong to the plan. An expression that does not compile fails
// nothing: its threshold is not OK, its claim inconclusive, and the detail says
// why.
func Judge(f *rundir.Folder) error {
	sources := make([]source, 0, len(f.Trials))
	for _, t := range f.Trials {
		sources = append(sources, recorded(t))
	}
	return judge(&f.Run, sources)
}

// recorded is a trial with the files of its folder.
func recorded(t *rundir.TrialFolder) source {
	return source{
		trial: &t.Trial,
		log: func() ([]hist.Interval, error) {
			_, intervals, err := t.Intervals()
			return intervals, err
		},
		series: func() (*rundir.Series, error) {
			s, err := t.Series()
			if errors.Is(err, fs.ErrNotExist) { // there was nothing to observe
				return nil, nil
			}
			return s, err
		},
		stalls: t.Stalls,
	}
}

// judge is Judge on what a folder holds. It asks for what was recorded of each
// complete trial once. The order of the trials does not matter.
func judge(run *rundir.Run, sources []source) error {
	plan, judged := run.Plan, *run
	samples, err := takeAll(plan, sources)
	if err != nil {
		return err
	}
	exclude(plan, samples)
	judgeProbes(plan, samples)

	s := newScene(plan, samples)
	if err := s.search(samples); err != nil {
		return err
	}
	if err := s.sumUp(samples); err != nil {
		return err
	}
	comparisons, notes, err := s.compare()
	if err != nil {
		return err
	}
	judged.Rounds = s.wholeRounds()
	judged.Variants = s.variants()
	judged.Comparisons = comparisons
	judged.Capacities = s.capacities()
	judged.Trends = s.trends
	if judged.Sweeps, err = s.sweeps(); err != nil {
		return err
	}
	judged.Trials = nil
	for _, x := range samples {
		judged.Trials = append(judged.Trials, x.examined())
	}
	judged.Notes = withNotes(run.Notes, notes)

	flat, spent := plateaus(&judged)
	s.spent = spent
	judged.Flags = runFirst(controlDiffers(comparisons), kept(run.Flags), flagsOfTrials(samples), s.missing(), unsteadyPilots(run.Pilot), flat, belowRange(&judged))
	judged.Validity = s.validities(comparisons)
	s.trust(judged.Validity)
	for i := range comparisons {
		if c := &comparisons[i]; !s.identified(c.Metric, c.Variant, c.Base) {
			c.Verdict = rundir.Invalid
		}
	}
	judged.Ladder = climb(plan.Ladder, comparisons)
	judged.Thresholds = s.thresholds()
	judged.Claims = s.claims()
	judged.Valid, judged.Reason = s.answered(&judged)
	*run = judged
	return nil
}

// judgeProbes decides which probes were good, and which are spoilt.
func judgeProbes(plan rundir.Plan, samples []*sample) {
	for _, x := range samples {
		if x.Purpose == rundir.PurposeProbe {
			judgeProbe(plan, x)
		}
	}
}

// variants returns all variants' figures, in the plan's order.
func (s *scene) variants() []rundir.Variant {
	list := []rundir.Variant{}
	for _, v := range s.plan.Variants {
		list = append(list, s.whole[v.Name].Variant)
	}
	return list
}

// missing returns the flags of variants that nothing is known of.
func (s *scene) missing() []rundir.Flag {
	var flags []rundir.Flag
	for _, v := range s.plan.Variants {
		what := "trial"
		if s.plan.Capacity != nil {
			what = "search"
		}
		if len(s.inOrder(v.Name)) == 0 {
			flags = append(flags, newFlag(FlagNoTrials, v.Name, true, fmt.Sprintf("no %s of %s was completed", what, v.Name)))
		}
	}
	return flags
}

// controlDiffers returns the flag of a control that is unlike the variant that it
// is.
func controlDiffers(comparisons []rundir.Comparison) []rundir.Flag {
	for _, c := range comparisons {
		if c.Role != rundir.RoleControl || !c.Primary || c.Equivalence == nil || ends(c.Ratio).Contains(1) {
			continue
		}
		return []rundir.Flag{newFlag(FlagControlDiffers, c.Variant, false, fmt.Sprintf(
			"%s is %s measured twice, and yet its %s differs, by a ratio of %.4g: the run finds a difference where there is none, as one in twenty does by chance",
			c.Variant, c.Base, c.Metric, *c.Ratio.Estimate))}
	}
	return nil
}

// unsteadyPilots returns the flags of pilots that ended too early to tell.
func unsteadyPilots(p *rundir.Pilot) []rundir.Flag {
	if p == nil {
		return nil
	}
	var flags []rundir.Flag
	for _, v := range p.Variants {
		if v.Steady {
			continue
		}
		series := v.Series
		if series == "" {
			series = "it"
		}
		flags = append(flags, newFlag(FlagPilotNotSteady, v.Variant, false, fmt.Sprintf(
			"%s was still changing in the second half of the pilot of %s: the warm-up of %.3g s may be too short", series, v.Variant, p.WarmupSeconds)))
	}
	return flags
}

// kept returns the run's own flags that judging does not make anew.
func kept(flags []rundir.Flag) []rundir.Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f rundir.Flag) bool {
		return f.Trial != 0 || ours(f.Kind)
	})
}

// runFirst joins flags: those of the run first, then by trial.
func runFirst(lists ...[]rundir.Flag) []rundir.Flag {
	flags := append([]rundir.Flag{}, slices.Concat(lists...)...)
	slices.SortStableFunc(flags, func(a, b rundir.Flag) int { return cmp.Compare(a.Trial, b.Trial) })
	return flags
}

// withNotes adds the notes that are not there yet. It drops what runs say that
// were judged before there were intervals.
func withNotes(notes, more []string) []string {
	notes = slices.DeleteFunc(slices.Clone(notes), func(n string) bool {
		return strings.HasPrefix(n, "no interval is claimed by this version")
	})
	for _, n := range more {
		if !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	return notes
}

func (s *scene) names() []string {
	var names []string
	for _, v := range s.plan.Variants {
		names = append(names, v.Name)
	}
	return names
}

// thresholds decides the plan's thresholds. In a search for capacity they are
// what each probe is judged by, and say nothing of the whole.
func (s *scene) thresholds() []rundir.Threshold {
	list := []rundir.Threshold{}
	if s.plan.Capacity != nil {
		return list
	}
	for _, text := range s.plan.Thresholds {
		list = append(list, decideThreshold(text, s.names(), s)...)
	}
	return list
}

func (s *scene) claims() []rundir.Claim {
	list := []rundir.Claim{}
	for _, c := range s.plan.Claims {
		list = append(list, decideClaim(c, s.names(), s))
	}
	return list
}

// wantsTrends tells whether the growth of the target's gauges is looked at: in a
// soak, and where a condition asks for a slope.
func wantsTrends(plan rundir.Plan) bool {
	asks := func(text string) bool { return strings.Contains(text, "slope") }
	return plan.Soak || slices.ContainsFunc(plan.Thresholds, asks) ||
		slices.ContainsFunc(plan.Claims, func(c rundir.PlanClaim) bool { return asks(c.Holds) || asks(c.Direction) })
}
