package trial

import (
	"context"
	"fmt"

	"dyno/lab/plan"
	"dyno/results/rundir"
)

// piloted returns the variants that have a pilot: all except aliases, which behave like
// the variants that they stand for.
func piloted(e *plan.Experiment) (variants []*plan.Variant) {
	for i := range e.Variants {
		if e.Variants[i].AliasOf == "" {
			variants = append(variants, &e.Variants[i])
		}
	}
	return variants
}

// pilots measures each variant from cold and lets the referee decide how long the warm-up
// of all must be.
func (r *runner) pilots(ctx context.Context) error {
	var done []*rundir.TrialFolder
	for _, v := range piloted(r.experiment) {
		t := r.pilotOf(v.Name)
		if t == nil {
			err := r.attempt(ctx, func() (err error) {
				t, err = r.measure(ctx, task{variant: v, purpose: rundir.PurposePilot})
				return err
			})
			if err != nil {
				return err
			}
		}
		done = append(done, t)
	}
	found, err := r.options.Referee.Warmup(r.run.Plan, done)
	if err != nil {
		return fmt.Errorf("pilots: %w", err)
	}
	r.run.Pilot = found
	for i := range r.run.Plan.Variants {
		r.run.Plan.Variants[i].WarmupSeconds = found.WarmupSeconds
	}
	return r.folder.Update(r.run)
}

// pilotOf returns the variant's complete pilot in the folder of a resumed run, or nil.
func (r *runner) pilotOf(variant string) (found *rundir.TrialFolder) {
	for _, t := range r.trials {
		if t.Complete && t.Purpose == rundir.PurposePilot && t.Variant == variant {
			found = t
		}
	}
	return found
}

// pilotLoad turns a load into a pilot's load. It has neither ramp nor warm-up. Its window has one rate,
// with which the window of a trial begins. For a search this is the lowest rate.
func pilotLoad(l *plan.Load, e *plan.Experiment) {
	l.Warmup, l.Window, l.Requests, l.Iterations = 0, e.Design.Pilot, 0, plan.Iterations{}
	stages := l.Stages
	l.Stages = nil
	if l.Open == nil { // the pilot of stages has the connections of all users
		return
	}
	l.Open.Ramp = 0
	if e.Capacity != nil {
		l.Open.Rate = e.Capacity.From
	}
	if len(stages) > 0 {
		l.Open.Rate = stages[0].From
		if l.Open.Rate == 0 { // a ramp from zero
			l.Open.Rate = stages[0].To
		}
	}
}

// profiledLoad makes the load of a profiled trial: the same load, for as long as the profile needs. A
// window in stages keeps its own length.
func profiledLoad(l *plan.Load, p *plan.Profile) {
	if p.Window > 0 && len(l.Stages)+len(l.Paces) == 0 {
		l.Window, l.Requests, l.Iterations = p.Window, 0, plan.Iterations{}
	}
}
