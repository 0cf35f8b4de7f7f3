package verdict

import (
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/evidence"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// judgeValidity tells whether everything that was asked for is identified, and if not, what is
// missing. It marks the figures that were asked for.
func judgeValidity(s *evidence.Evidence, run *rundir.Run) (valid bool, reason *rundir.Message) {
	var missing []rundir.Message
	asked := asked(run)
	for i := range run.Validity {
		v := &run.Validity[i]
		v.Asked = slices.Contains(asked, expr.Ref{Metric: v.Figure, Variant: v.Variant, Base: v.Base})
	}
	if run.NoRoom != nil {
		return false, new(texts.Because(unidentifiedReason, *run.NoRoom))
	}
	for _, at := range primaries(run) {
		if atLeast(s, at) {
			continue
		}
		if why := s.Unidentified([]expr.Ref{at}); why != nil {
			missing = append(missing, *why)
		}
	}
	for _, c := range run.Capacities {
		// Only a search whose edge is the target's finds a capacity.
		v := s.Validity(expr.Ref{Metric: rundir.MetricCapacity, Variant: c.Variant, Base: ""})
		if v.State != rundir.StateBounded || slices.ContainsFunc(c.Searches, func(b rundir.Bracket) bool { return !b.HighDisturbed }) {
			continue
		}
		least := texts.New("unidentified.capacity", "variant", c.Variant, "rate", units.FourDigits(*v.Low)+"/s")
		if len(run.Plan.Variants) == 1 {
			least.Kind = "unidentified.capacity.only"
		}
		missing = append(missing, least.With("why", *v.Why))
	}
	for _, t := range run.Thresholds {
		if t.NotIdentified != nil {
			missing = append(missing, texts.New("unidentified.threshold", "threshold", t.Text).With("why", *t.NotIdentified))
		}
	}
	for _, c := range run.Claims {
		if c.NotIdentified != nil {
			missing = append(missing, texts.New("unidentified.claim", "claim", c.ID).With("why", *c.NotIdentified))
		}
	}
	for _, f := range run.Flags {
		if f.Disturbs && (f.Kind == checks.FlagNoTrials || !checks.IsKnown(f.Kind)) {
			missing = append(missing, *f.Detail)
		}
	}
	if v := unidentifiedAll(run.Validity); len(missing) == 0 && v != nil {
		missing = append(missing, s.SayUnidentified(expr.Ref{Metric: v.Figure, Variant: v.Variant}, v))
	}
	if len(missing) == 0 {
		return true, nil
	}
	return false, new(texts.Because(unidentifiedReason, missing...))
}

// atLeast tells whether a figure of one variant, of which more is better, is known from below: the
// target can do at least this, which is an answer.
func atLeast(s *evidence.Evidence, at expr.Ref) bool {
	m, known := dataset.Lookup(at.Metric)
	return known && at.Base == "" && m.Direction() == stat.HigherIsBetter && s.Validity(at).Low != nil
}

// unidentifiedAll returns the first figure if there are some and none is identified. Such a run
// answers nothing, even if its metric was not observed at all. A p99 of a dozen responses is an
// example.
func unidentifiedAll(all []rundir.Validity) *rundir.Validity {
	for i := range all {
		if s := all[i].State; s != rundir.StateNotIdentified && s != rundir.StateRelative {
			return nil
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// primaries lists the figures that the plan itself asks for: the primary metric of each
// comparison, or of each variant if nothing is compared.
func primaries(run *rundir.Run) (all []expr.Ref) {
	for _, c := range run.Comparisons {
		if c.Primary && c.Role != rundir.RoleControl {
			all = append(all, expr.Ref{Metric: c.Metric, Variant: c.Variant, Base: c.Base})
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, v := range run.Plan.Variants {
		all = append(all, expr.Ref{Metric: run.Plan.PrimaryMetric(), Variant: v.Name, Base: ""})
	}
	return all
}

// asked lists the figures that the plan, its thresholds and its claims use.
func asked(run *rundir.Run) []expr.Ref {
	return append(primaries(run), expr.RefsIn(run.Plan)...)
}
