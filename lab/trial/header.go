package trial

import (
	"time"

	"dyno/lab/duet"
	"dyno/lab/provenance"
	"dyno/observe"
	"dyno/results/rundir"
)

// header is the content of run.json before anything has been measured.
func (r *runner) header(left []rundir.LeftOut) (*rundir.Run, error) {
	e := r.experiment
	placed, err := duet.Place(e)
	if err != nil {
		return nil, err
	}
	run := &rundir.Run{
		SchemaVersion: rundir.SchemaVersion,
		Name:          e.Name,
		Question:      e.Question,
		StartedAt:     time.Now(),
		TrialsPlanned: r.planned(e.Design.Rounds),
		Plan:          provenance.Plan(e, r.remeasure()),
		Environment:   provenance.Environment(e, placed),
		Command:       r.options.Command,
		DynoVersion:   r.options.Version,
		Chosen:        r.options.Chosen,
	}
	run.Plan.Duet = placed
	for i := range e.Variants {
		if e.Capacity != nil {
			v := &run.Plan.Variants[i]
			v.MostConnections, v.ConnectionsLimit = r.mostConnections(&e.Variants[i].Load, e.Variants[i].Target.Address, observe.ReadEnvironment().Limits)
			v.Connections = min(v.Connections, v.MostConnections)
		}
	}
	recordLeftOut(run, e.LeftOut, left)
	return run, nil
}

// planned returns how many trials the given number of rounds has, 0 for searches.
func (r *runner) planned(rounds int) int {
	e := r.experiment
	if e.Capacity != nil {
		return 0
	}
	n := 0
	for round := range rounds {
		n += r.trialsOf(round + 1)
	}
	if e.Design.Pilot > 0 {
		n += len(piloted(e))
	}
	return n
}

// sumFiles records what the files of a run were, if its folder is kept. It comes after the first load, which need not
// wait for it, and before that trial is whole: a resumed run has trials only with their files.
func (r *runner) sumFiles() error {
	if r.options.Temporary || r.run.Environment.Files != nil {
		return nil
	}
	r.run.Environment.Files = provenance.Digests(r.experiment)
	return r.folder.Update(r.run)
}
