package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"dyno/lab/plan"
	"dyno/lab/provenance"
	"dyno/results/rundir"
)

// Resume continues a run that was cut short, in its folder, as Run would have. Pilots, whole rounds and
// finished searches stay. Interrupted trials are measured again, with numbers after the highest. The
// folder is o.Dir. It keeps the command that began the run.
//
// The error is a *NotStartedError if the run cannot be continued; the folder is not changed then. It
// wraps a *FolderError if the folder is at fault, which wraps rundir.ErrFinished or rundir.ErrBusy
// where these apply. It wraps a *PlanError if experiment, machine or version of dyno differ from the
// folder's: their figures must not be mixed.
func Resume(ctx context.Context, e *plan.Experiment, o Options) error {
	r, err := reopen(ctx, e, o)
	if err != nil {
		return &NotStartedError{err}
	}
	if err = r.folder.Update(r.run); err == nil {
		err = r.carryThrough(ctx)
	}
	return r.finish(err)
}

// reopen prepares a run in the folder of its first part.
func reopen(ctx context.Context, e *plan.Experiment, o Options) (*runner, error) {
	r, err := prepare(ctx, e, o)
	if err != nil {
		return nil, err
	}
	folder, old, err := rundir.Reopen(o.Dir)
	if err != nil {
		return nil, &FolderError{err}
	}
	if old.Run.Environment.Files != nil {
		r.run.Environment.Files = provenance.Digests(r.experiment)
	}
	folder.Conceal(r.run)
	if err := errors.Join(same(&old.Run, folder.Concealed(r.run)), r.sameCarriers(old.Trials)); err != nil {
		return nil, &PlanError{errors.Join(fmt.Errorf("%s: cannot go on: %w", o.Dir, err), folder.Close())}
	}
	if r.number, err = folder.LastTrial(); err != nil {
		return nil, &FolderError{errors.Join(err, folder.Close())}
	}
	r.folder, r.trials = folder, old.Trials
	// Verdicts on a part of the run are dropped: the caller judges the whole run.
	r.run.StartedAt, r.run.Plan, r.run.Pilot = old.Run.StartedAt, old.Run.Plan, old.Run.Pilot
	r.run.Environment, r.run.Command, r.run.DynoVersion = old.Run.Environment, old.Run.Command, old.Run.DynoVersion
	return r, nil
}

// same reports every difference between a recorded run and one about to begin that makes
// their trials incomparable.
func same(recorded, now *rundir.Run) error {
	var faults []error
	differ := func(what string, was, is any) {
		faults = append(faults, fmt.Errorf("%s: %v in the folder, %v now", what, was, is))
	}
	a, b := &recorded.Environment, &now.Environment
	if a.Hostname != b.Hostname {
		differ("hostname", a.Hostname, b.Hostname)
	}
	if a.Kernel != b.Kernel {
		differ("kernel", a.Kernel, b.Kernel)
	}
	if a.CPUModel != b.CPUModel {
		differ("CPU model", a.CPUModel, b.CPUModel)
	}
	if a.CPUs != b.CPUs {
		differ("CPUs", a.CPUs, b.CPUs)
	}
	if !slices.Equal(a.AllowedCPUs, b.AllowedCPUs) {
		differ("allowed CPUs", a.AllowedCPUs, b.AllowedCPUs)
	}
	if recorded.DynoVersion != now.DynoVersion {
		differ("dyno's version", recorded.DynoVersion, now.DynoVersion)
	}
	// The same name may be another file's, in another working directory.
	for _, name := range slices.Sorted(maps.Keys(a.Files)) {
		if b.Files[name] != a.Files[name] {
			faults = append(faults, fmt.Errorf("%s: not the file that it was when the run began: put that back, or begin a new run", name))
		}
	}
	fields, err := differing(recorded.Plan, now.Plan)
	for _, f := range fields {
		if f == "seed" {
			differ(f, recorded.Plan.Seed, now.Plan.Seed)
			continue
		}
		faults = append(faults, fmt.Errorf("plan: %s differs from the folder's", f))
	}
	return errors.Join(append(faults, err)...)
}

// sameCarriers reports whether loads came from agents when the run began, and do not now, or the other
// way round. The trials record the agents.
func (r *runner) sameCarriers(recorded []*rundir.TrialFolder) error {
	for _, t := range recorded {
		switch carried := len(t.Agents) > 0; {
		case !t.Complete || r.experiment.Variants[0].Target.Protocol == plan.Program || carried == (len(r.agents) > 0):
		case carried:
			return errors.New("agents carried the loads in the folder, and none does now: name some with --agent or --fleet")
		default:
			return errors.New("no agents carried the loads in the folder: leave out --agent and --fleet")
		}
	}
	return nil
}

// differing returns the names, as in run.json, of the fields in which two plans differ.
// It ignores the file's name, and warm-ups that pilots have found.
func differing(recorded, now rundir.Plan) ([]string, error) {
	recorded.File = now.File
	now.Remeasure = min(now.Remeasure, recorded.Remeasure) // the machine may not have been quiet enough for more
	if now.PilotSeconds > 0 {
		recorded.Variants = slices.Clone(recorded.Variants)
		for i := range recorded.Variants {
			recorded.Variants[i].WarmupSeconds = 0
		}
		now.Variants = slices.Clone(now.Variants)
		for i := range now.Variants {
			now.Variants[i].WarmupSeconds = 0
		}
	}
	a, err := encoded(recorded)
	if err != nil {
		return nil, err
	}
	b, err := encoded(now)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, fields := range []map[string]json.RawMessage{a, b} {
		for name := range fields {
			if !bytes.Equal(a[name], b[name]) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// encoded returns a plan's fields as run.json holds them.
func encoded(p rundir.Plan) (fields map[string]json.RawMessage, err error) {
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return fields, nil
}

// roundStarted reports whether there are trials of this round or of later ones.
func (r *runner) roundStarted(round int) bool {
	return slices.ContainsFunc(r.trials, func(t *rundir.TrialFolder) bool { return t.Round >= round })
}

// whole reports whether a round is complete and need not be measured. Its trials must have followed one
// another: trials of two attempts may be days apart.
func (r *runner) whole(round int) bool {
	type place struct{ variant, purpose, peer string }
	last := map[place]int{}
	for _, t := range r.trials {
		if t.IsMeasured() && t.Round == round {
			last[place{t.Variant, t.Purpose, t.Peer()}] = t.Number
		}
	}
	if len(last) == 0 {
		return false
	}
	numbers := slices.Sorted(maps.Values(last))
	return len(numbers) == r.trialsOf(round) && numbers[len(numbers)-1]-numbers[0] == len(numbers)-1
}

// trialsOf returns how many trials a round has.
func (r *runner) trialsOf(round int) int {
	if r.experiment.Design.Duet {
		n := 2 * (len(r.experiment.Variants) - 1)
		if round <= r.experiment.Design.IdleRounds() {
			n += len(r.experiment.Variants) - 2 // no trial of the control next to the base: the control is the base
		}
		return n
	}
	return len(r.experiment.Variants) * len(r.purposes(round))
}

// outstanding returns how many trials are still to be made, for a plan without rules.
func (r *runner) outstanding() (n int) {
	if r.experiment.Design.Pilot > 0 && r.run.Pilot == nil {
		for _, v := range piloted(r.experiment) {
			if r.pilotOf(v.Name) == nil {
				n++
			}
		}
	}
	for round := 1; round <= r.experiment.Design.Rounds; round++ {
		if !r.whole(round) {
			n += r.trialsOf(round)
		}
	}
	return n
}
