package verdict

import (
	"errors"

	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// Open reads a run folder. A run without a verdict is judged: its process was killed, or found no room on the disk. The
// verdict is kept in the folder if it can be written there. While another process writes the run, the verdict is of the
// trials so far, and is not kept. A trial whose recordings cannot be read is not complete.
func Open(dir string) (*rundir.Folder, error) {
	f, err := rundir.Open(dir)
	if err != nil || f.Run.IsJudged() {
		return f, err
	}
	kept, err := openUnjudged(dir)
	if !errors.Is(err, rundir.ErrBusy) {
		return kept, err
	}
	return f, finish(f)
}

// ReadRun reads run.json of a run folder, and judges the run as Open does, unless another process writes it: then the run
// is as it began.
func ReadRun(dir string) (*rundir.Run, error) {
	run, err := rundir.ReadRun(dir)
	if err != nil || run.IsJudged() {
		return run, err
	}
	f, err := openUnjudged(dir)
	switch {
	case errors.Is(err, rundir.ErrBusy):
		return run, nil
	case err != nil:
		return nil, err
	}
	return &f.Run, nil
}

// openUnjudged reads a folder without a verdict, and judges it. The error wraps rundir.ErrBusy if another process writes
// it.
func openUnjudged(dir string) (*rundir.Folder, error) {
	// No other process may add trials while they are judged: the verdict that is kept would miss
	// them.
	w, f, err := rundir.Reopen(dir)
	switch {
	case errors.Is(err, rundir.ErrBusy):
		return nil, err
	case err != nil: // it cannot be written, or another process has judged it
		if f, err = rundir.Open(dir); err == nil && !f.Run.IsJudged() {
			err = finish(f)
		}
		return f, err
	}
	if err := finish(f); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	_ = w.Finish(&f.Run) // without room for the verdict, the next reader judges again
	return f, nil
}

// finish judges a run. It finds out from the trials whether the run is complete, if its end was not recorded.
func finish(f *rundir.Folder) error {
	taken := dataset.Taken{}
	for {
		err := judge(&f.Run, sourcesOf(f), taken)
		if unread, ok := errors.AsType[*dataset.UnreadError](err); ok && f.SetUnread(unread.Trial, unread.Err) {
			continue
		}
		if err != nil || f.Run.FinishedAt != nil {
			return err
		}
		break
	}
	whole, stopped, err := isWhole(f, taken)
	if whole {
		f.SetComplete(stopped)
	}
	return err
}

// isWhole tells whether the trials of a judged run are all that its plan asks for. If a rule ended the run, it also
// says why.
func isWhole(f *rundir.Folder, taken dataset.Taken) (whole bool, stopped *rundir.Message, err error) {
	plan := f.Run.Plan
	switch {
	case !f.HasWholeTrials():
		return false, nil, nil
	case plan.Capacity != nil:
		return f.Run.Rounds >= plan.Rounds, nil, nil
	case !plan.HasStoppingRule() && !f.HasPlannedTrials():
		return false, nil, nil
	}
	trials, err := taken.TakeAll(plan, sourcesOf(f))
	if err != nil {
		return false, nil, err
	}
	s := dataset.New(plan, trials)
	if !plan.HasStoppingRule() {
		return s.WholeStoppingRounds() >= plan.Rounds, nil, nil
	}
	var counted []rundir.Trial // what the rule saw when the run ended
	for _, t := range trials {
		if !s.MeasuredAgain[t.Round] {
			counted = append(counted, *t.Trial)
		}
	}
	enough, why, err := Referee{}.Enough(plan, counted)
	return enough, &why, err
}
