package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/evidence"
	"dyno/judge/verdict/expr"
	"dyno/judge/verdict/recording"
	"dyno/judge/verdict/search"
	"dyno/judge/verdict/sweep"
	"dyno/judge/verdict/validity"
	"dyno/results/rundir"
)

// Judge fills in everything of a folder's run that follows from its trials: figures with
// their intervals, comparisons, ladder, sweeps, capacities, trends, thresholds, claims,
// flags and whether it is valid. It may be called again on a judged run. Its earlier
// results are then replaced, while flags of other kinds, of the trials and of the run,
// are kept. It writes nothing to the folder.
//
// It fails when a log cannot be read, or when a trial does not belong to the plan. The
// run is then as it was. An expression that does not compile is no failure: its threshold
// is not OK, its claim is inconclusive, and the detail says why.
func Judge(f *rundir.Folder) error {
	return judge(&f.Run, sourcesOf(f), dataset.Taken{})
}

func sourcesOf(f *rundir.Folder) []recording.Source {
	sources := make([]recording.Source, 0, len(f.Trials))
	for _, t := range f.Trials {
		sources = append(sources, recording.FromFolder(t))
	}
	return sources
}

// judge does what Judge does, with the given contents of a folder. It asks for the
// recordings of each complete trial that was not taken yet, once. The order of the trials does not matter.
func judge(run *rundir.Run, sources []recording.Source, taken dataset.Taken) error {
	plan, judged := run.Plan, *run
	trials, err := taken.TakeAll(plan, sources)
	if err != nil {
		return err
	}
	dataset.Exclude(plan, trials)
	probes := search.JudgeProbes(plan, trials)

	s := compare.New(dataset.New(plan, trials))
	searches, err := search.ReplayAll(s.Dataset, probes)
	if err != nil {
		return err
	}
	if err := s.Summarize(trials); err != nil {
		return err
	}
	comparisons, notes, err := s.Compare()
	if err != nil {
		return err
	}
	judged.Rounds = s.WholeRounds()
	judged.Variants = variants(s.Dataset)
	judged.Comparisons = comparisons
	judged.Capacities = searches.Capacities(s.Dataset)
	judged.Trends = s.Trends
	if judged.Sweeps, err = sweep.All(s.Dataset); err != nil {
		return err
	}
	judged.Trials = examined(trials, probes)
	judged.Notes = texts.Once(append(slices.Clone(run.Notes), notes...)...)

	flat, spent := sweep.Plateaus(&judged)
	s.GeneratorLimited = spent
	judged.Flags = runFirst(differingControl(comparisons, plan.Margin), kept(run.Flags), dataset.FlagsOf(trials), missing(s.Dataset), unsteadyPilots(run.Pilot), flat, search.BelowRange(&judged))
	judged.Validity = append(s.Validities(comparisons), searches.Validities(judged.Capacities)...)
	validity.MarkRelative(judged.Validity)
	markTooDisturbed(&judged)
	ev := evidence.New(s, judged.Validity)
	withdraw(comparisons, ev)
	judged.Thresholds = thresholds(ev)
	judged.Claims = claims(ev)
	leaveRoom(&judged)
	judged.Ladder = compare.Ladder(plan.Ladder, comparisons)
	var why *rundir.Message
	judged.Valid, why = judgeValidity(ev, &judged)
	if run.Complete || run.Reason == nil || run.Reason.Kind == unidentifiedReason { // else the run itself has said why it ended
		judged.Reason = why
	}
	*run = judged
	return nil
}

// withdraw takes back what comparisons say of ratios that are not identified.
func withdraw(comparisons []rundir.Comparison, ev *evidence.Evidence) {
	for i := range comparisons {
		c := &comparisons[i]
		switch at := []expr.Ref{{Metric: c.Metric, Variant: c.Variant, Base: c.Base}}; {
		case ev.Unidentified(at) != nil:
			c.Verdict = rundir.Invalid
		case ev.Doubtful(at) != nil: // no number of rounds makes disturbances even
			c.FurtherRounds = nil
		}
	}
}

// unidentifiedReason is the kind of the reason of a run that was found not valid.
const unidentifiedReason = "reason.unidentified"

// examined lists the trials, with the outcome of those that are probes.
func examined(trials []*dataset.Trial, probes []*search.Probe) (list []rundir.Examined) {
	good := map[int]*bool{} // by trial
	for _, p := range probes {
		if !p.Result.Disturbed {
			good[p.Number] = &p.Result.Good
		}
	}
	for _, x := range trials {
		list = append(list, x.Examined(good[x.Number]))
	}
	return list
}

// variants returns all variants' figures, in the plan's order.
func variants(s *dataset.Dataset) []rundir.Variant {
	list := []rundir.Variant{}
	for _, v := range s.Plan.Variants {
		list = append(list, s.Whole[v.Name].Variant)
	}
	return list
}

// missing returns the flags of variants without any known figure.
func missing(s *dataset.Dataset) []rundir.Flag {
	var flags []rundir.Flag
	for _, v := range s.Plan.Variants {
		kind := "found.no_complete_trial"
		if s.Plan.Capacity != nil {
			kind = "found.no_complete_trial.search"
		}
		if len(s.InOrder(v.Name)) == 0 {
			flags = append(flags, checks.NewFlag(checks.FlagNoTrials, v.Name, true, new(texts.New(kind, "variant", v.Name))))
		}
	}
	return flags
}

// differingControl returns the flag of a control that differs from the variant that it
// repeats.
func differingControl(comparisons []rundir.Comparison, margin float64) []rundir.Flag {
	for _, c := range comparisons {
		if !controlDiffers(c, margin) {
			continue
		}
		return []rundir.Flag{checks.NewFlag(checks.FlagControlDiffers, c.Variant, false, new(texts.New("found.control_differs",
			"variant", c.Variant, "base", c.Base, "metric", c.Metric, "ratio", units.FourDigits(*c.Ratio.Estimate))))}
	}
	return nil
}

// unsteadyPilots returns the flags of pilots that ended too early to find their steady
// state.
func unsteadyPilots(p *rundir.Pilot) []rundir.Flag {
	if p == nil {
		return nil
	}
	var flags []rundir.Flag
	for _, v := range p.Variants {
		if v.Steady {
			continue
		}
		found := new(texts.New("found.pilot_not_steady", "series", v.Series, "variant", v.Variant, "time", fmt.Sprintf("%.3g", p.WarmupSeconds)))
		if v.Series == "" {
			found.Kind = "found.pilot_not_steady.unknown"
		}
		flags = append(flags, checks.NewFlag(checks.FlagPilotNotSteady, v.Variant, false, found))
	}
	return flags
}

// kept returns the run's own flags that Judge does not make.
func kept(flags []rundir.Flag) []rundir.Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f rundir.Flag) bool {
		return f.Trial != 0 || checks.IsKnown(f.Kind)
	})
}

// runFirst joins flags: first those of the run, then those of trials in order.
func runFirst(lists ...[]rundir.Flag) []rundir.Flag {
	flags := append([]rundir.Flag{}, slices.Concat(lists...)...)
	slices.SortStableFunc(flags, func(a, b rundir.Flag) int { return cmp.Compare(a.Trial, b.Trial) })
	return flags
}

// thresholds decides the plan's thresholds. In a search for capacity they judge each
// probe, and do not apply to the whole run.
func thresholds(s *evidence.Evidence) []rundir.Threshold {
	list := []rundir.Threshold{}
	if s.Plan.Capacity != nil {
		return list
	}
	for _, text := range s.Plan.Thresholds {
		list = append(list, expr.DecideThreshold(text, expr.NamesOf(s.Plan), evidence.Sampled{Evidence: s})...)
	}
	return list
}

func claims(s *evidence.Evidence) []rundir.Claim {
	list := []rundir.Claim{}
	for _, c := range s.Plan.Claims {
		list = append(list, expr.DecideClaim(c, expr.NamesOf(s.Plan), s))
	}
	return list
}
