package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dyno/hist"
	"dyno/rundir"
)

// NoIntervals is the note that says what this version does not claim.
const NoIntervals = "no interval is claimed by this version: throughputs are medians of the trials, ratios medians of the rounds' ratios, and quantiles come from the trials' merged histograms"

// Judge fills in everything of a folder's run that follows from its trials:
// variants, comparisons, thresholds, claims, flags and whether it is valid. It
// may be called again on a run that was judged before: what it found then is
// replaced, while flags of other kinds, of the trials and of the run, are kept.
// It writes nothing to the folder.
//
// It fails, leaving the run as it was, when a log cannot be read or a trial
// does not belong to the plan. An expression that does not compile fails
// nothing: its threshold is not OK, its claim inconclusive, and the detail says
// why.
func Judge(f *rundir.Folder) error {
	trials := make([]rundir.Trial, 0, len(f.Trials))
	folders := make(map[int]*rundir.TrialFolder, len(f.Trials))
	for _, t := range f.Trials {
		trials = append(trials, t.Trial)
		folders[t.Number] = t
	}
	return judge(&f.Run, trials, func(trial int) ([]hist.Interval, error) {
		_, intervals, err := folders[trial].Intervals()
		return intervals, err
	})
}

// A logReader returns the intervals of a trial's latency log, all tags. Their
// starts are relative to the beginning of the warm-up.
type logReader func(trial int) ([]hist.Interval, error)

// judge is Judge on what a folder holds. It asks for the log of each complete
// trial once. The order of the trials does not matter.
func judge(run *rundir.Run, trials []rundir.Trial, log logReader) error {
	trials = slices.Clone(trials)
	slices.SortFunc(trials, func(a, b rundir.Trial) int {
		return cmp.Or(cmp.Compare(a.Round, b.Round), cmp.Compare(a.Number, b.Number))
	})
	j := judgement{
		scene:  scene{whole: map[string]*figures{}, rounds: map[string]map[int]*figures{}},
		trials: map[string][]rundir.Trial{},
		times:  map[string]times{},
		flags:  []rundir.Flag{},
	}
	for _, v := range run.Plan.Variants {
		j.names = append(j.names, v.Name)
		j.scene.rounds[v.Name] = map[int]*figures{}
		j.times[v.Name] = times{}
	}
	for _, f := range run.Flags {
		if f.Trial == 0 && !ours(f.Kind) {
			j.flags = append(j.flags, f)
		}
	}
	for i := range trials {
		if err := j.take(run.Plan, &trials[i], log); err != nil {
			return fmt.Errorf("trial %d: %w", trials[i].Number, err)
		}
	}
	variants := []rundir.Variant{}
	for _, name := range j.names {
		f := summarize(name, j.trials[name], j.times[name])
		if f.Trials == 0 {
			j.flags = append(j.flags, rundir.Flag{Kind: FlagNoTrials, Variant: name, Detail: "no trial of " + name + " was completed", Invalid: true})
		}
		j.scene.whole[name] = f
		variants = append(variants, f.Variant)
	}
	slices.SortStableFunc(j.flags, func(a, b rundir.Flag) int { return cmp.Compare(a.Trial, b.Trial) })

	run.Variants = variants
	run.Flags = j.flags
	run.Valid = !slices.ContainsFunc(j.flags, func(f rundir.Flag) bool { return f.Invalid })
	run.Comparisons = j.compare(run.Plan.Base)
	run.Thresholds = []rundir.Threshold{}
	for _, text := range run.Plan.Thresholds {
		run.Thresholds = append(run.Thresholds, j.threshold(text)...)
	}
	run.Claims = []rundir.Claim{}
	for _, c := range run.Plan.Claims {
		run.Claims = append(run.Claims, j.claim(c))
	}
	if !slices.Contains(run.Notes, NoIntervals) {
		run.Notes = append(run.Notes, NoIntervals)
	}
	return nil
}

// ours tells whether a flag is of a kind that Judge raises.
func ours(kind string) bool {
	return slices.Contains([]string{
		FlagIncomplete, FlagConservation, FlagGeneratorLag, FlagGeneratorLagTail, FlagAchievedRate, FlagDrops,
		FlagGeneratorCPU, FlagRunQueue, FlagSteal, FlagNotSteady, FlagConnectionLimit, FlagLagNotChecked, FlagNoTrials,
	}, kind)
}

// A judgement is what was found so far.
type judgement struct {
	names  []string                  // of the variants, in the plan's order
	trials map[string][]rundir.Trial // the complete ones, by variant
	times  map[string]times          // merged, by variant
	scene  scene
	flags  []rundir.Flag
}

// take adds a trial.
func (j *judgement) take(plan rundir.Plan, t *rundir.Trial, log logReader) error {
	at := slices.Index(j.names, t.Variant)
	if at < 0 {
		return fmt.Errorf("variant %q is not in the plan", t.Variant)
	}
	var intervals []hist.Interval
	if t.Complete {
		var err error
		if intervals, err = log(t.Number); err != nil {
			return fmt.Errorf("latency log: %w", err)
		}
	}
	for _, f := range t.Flags {
		if !ours(f.Kind) {
			f.Trial, f.Variant = t.Number, t.Variant
			j.flags = append(j.flags, f)
		}
	}
	tm := merged(intervals)
	j.flags = append(j.flags, examine(t, plan.Variants[at], tm, intervals)...)
	if !t.Complete {
		return nil
	}
	j.trials[t.Variant] = append(j.trials[t.Variant], *t)
	j.times[t.Variant].addAll(tm)
	j.scene.rounds[t.Variant][t.Round] = summarize(t.Variant, []rundir.Trial{*t}, tm)
	return nil
}

// compared lists the metrics in which variants are compared with the base.
func compared() []string {
	return []string{"throughput", "response.p50", "response.p99", "target.cpu_per_request"}
}

// compare compares each variant with the base. Without intervals it comes to no
// verdict. A metric that no round has of both is left out.
func (j *judgement) compare(base string) []rundir.Comparison {
	comparisons := []rundir.Comparison{}
	if !slices.Contains(j.names, base) {
		return comparisons
	}
	all := metrics()
	for _, variant := range j.names {
		if variant == base {
			continue
		}
		for _, name := range compared() {
			m := all[slices.IndexFunc(all, func(m metric) bool { return m.name == name })]
			ratios := j.scene.ratios(variant, base, m)
			if len(ratios) == 0 {
				continue
			}
			comparisons = append(comparisons, rundir.Comparison{
				Base: base, Variant: variant, Metric: name,
				Ratio: rundir.Estimate{Estimate: median(ratios), Values: ratios, Interval: rundir.NoInterval},
			})
		}
	}
	return comparisons
}

// threshold decides a threshold: for each variant, or once when it names the
// variants it is about. What cannot be decided is not OK.
func (j *judgement) threshold(text string) []rundir.Threshold {
	e, err := Compile(text, ForThreshold, j.names)
	if err != nil {
		return []rundir.Threshold{{Text: text, Detail: flat(err)}}
	}
	names := []string{""}
	if e.perVariant {
		names = j.names
	}
	var decided []rundir.Threshold
	for _, name := range names {
		s := j.scene
		s.variant = name
		t := rundir.Threshold{Text: text, Variant: name, Measured: e.measured(&s)}
		if t.OK, err = e.holds(&s); err != nil {
			t.OK, t.Detail = false, flat(err)
		}
		decided = append(decided, t)
	}
	return decided
}

func (j *judgement) claim(c rundir.PlanClaim) rundir.Claim {
	r := rundir.Claim{ID: c.ID, Says: c.Says, Holds: c.Holds}
	if c.NotTestable != "" {
		r.Outcome, r.Detail = rundir.NotTestable, c.NotTestable
		return r
	}
	outcome := func() (string, error) {
		holds, err := Compile(c.Holds, ForClaim, j.names)
		if err != nil {
			return "", fmt.Errorf("holds: %w", err)
		}
		r.Measured = holds.measured(&j.scene)
		if ok, err := holds.holds(&j.scene); err != nil {
			return "", err
		} else if ok {
			return rundir.Holds, nil
		}
		if c.Direction == "" {
			return rundir.DoesNotHold, nil
		}
		direction, err := Compile(c.Direction, ForClaim, j.names)
		if err != nil {
			return "", fmt.Errorf("direction: %w", err)
		}
		if ok, err := direction.holds(&j.scene); err != nil {
			return "", err
		} else if ok {
			return rundir.DirectionOnly, nil
		}
		return rundir.DoesNotHold, nil
	}
	var err error
	if r.Outcome, err = outcome(); err != nil {
		r.Outcome, r.Detail = rundir.Inconclusive, flat(err)
	}
	return r
}

// measured returns the value of the left side of an expression that is one
// comparison; nil for any other, and when a figure is missing.
func (e *Expression) measured(s *scene) *float64 {
	if e.left.number == nil {
		return nil
	}
	v, err := e.left.number(s)
	if err != nil {
		return nil
	}
	return &v
}

// flat puts a joined error on one line, each part once.
func flat(err error) string {
	var once []string
	for l := range strings.Lines(err.Error()) {
		if l = strings.TrimSuffix(l, "\n"); !slices.Contains(once, l) {
			once = append(once, l)
		}
	}
	return strings.Join(once, "; ")
}
