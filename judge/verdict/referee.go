package verdict

import (
	"errors"
	"fmt"
	"strconv"

	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/recording"
	"dyno/judge/verdict/search"
	"dyno/results/rundir"
)

// A Referee decides, from what was measured so far, how a run continues. It judges as
// Judge does, and may be used concurrently.
type Referee struct{}

// Disturbed tells whether the machine or the generator disturbed one of a round's trials
// beyond a limit fixed beforehand, and no target was lost in it.
func (Referee) Disturbed(plan rundir.Plan, round []*rundir.TrialFolder) (bool, error) {
	trials := make([]*dataset.Trial, len(round))
	for i, t := range round {
		var err error
		if trials[i], err = dataset.Take(plan, recording.FromFolder(t), false); err != nil {
			return false, fmt.Errorf("trial %d: %w", t.Number, err)
		}
	}
	return dataset.DisturbedRound(trials), nil
}

// Enough decides after a whole round whether to make another, by the plan's rule on the
// primary metric of every comparison except the control's: all of them must have enough.
// It reads only trial.json, so the primary metric must be in it. Without a comparison,
// and in a search for capacity, all rounds are made.
func (Referee) Enough(plan rundir.Plan, trials []rundir.Trial) (bool, rundir.Message, error) {
	s := compare.New(dataset.New(plan, dataset.Unrecorded(trials)))
	made := s.WholeRounds()
	if made >= plan.Rounds {
		return true, texts.New("stopped.all", "n", strconv.Itoa(plan.Rounds)), nil
	}
	enough, reason := false, rundir.Message{}
	for _, f := range compare.Families(plan) {
		for _, p := range f {
			if p.Role == rundir.RoleControl || plan.Capacity != nil {
				continue
			}
			d, err := s.Decision(p)
			if err != nil {
				return false, rundir.Message{}, fmt.Errorf("%s over %s: %w", p.Variant, p.Base, err)
			}
			// The reason against stopping is the reason to continue.
			if reason.Kind == "" || enough && !d.Stop {
				enough = d.Stop
				reason = texts.New("stopped.pair", "variant", p.Variant, "base", p.Base, "metric", plan.PrimaryMetric()).With("why", compare.WhyDecided(d))
			}
		}
	}
	if reason.Kind == "" {
		reason = texts.New("stopped.rounds", "n", strconv.Itoa(made), "of", strconv.Itoa(plan.Rounds))
	}
	return enough, reason, nil
}

// Probe decides whether a probe was good: all thresholds hold by its estimates and
// nothing was dropped. It says nothing when the generator was the limit, or when a
// disturbance makes it undecidable. The reason why a probe was not good is in
// Run.Capacities once the run is judged.
func (Referee) Probe(plan rundir.Plan, probe *rundir.TrialFolder) (capacity.Trial, error) {
	if plan.Capacity == nil || probe.Purpose != rundir.PurposeProbe || probe.Rate == nil {
		return capacity.Trial{}, errors.New("not a probe of a search for capacity")
	}
	s, err := dataset.Take(plan, recording.FromFolder(probe), false)
	if err != nil {
		return capacity.Trial{}, fmt.Errorf("probe %d: %w", probe.Number, err)
	}
	return search.JudgeProbe(plan, s).Result, nil
}

// Examine returns the flags that Judge will raise about one trial alone.
func (Referee) Examine(plan rundir.Plan, t *rundir.TrialFolder) ([]rundir.Flag, error) {
	s, err := dataset.Take(plan, recording.FromFolder(t), false)
	if err != nil {
		return nil, fmt.Errorf("trial %d: %w", t.Number, err)
	}
	return s.AllFlags, nil
}

// Judge judges the run.
func (Referee) Judge(f *rundir.Folder) error { return Judge(f) }
