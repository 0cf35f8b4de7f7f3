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

// A Referee decides, from what was measured so far, how one run continues. It judges as
// Judge does, and reads the recordings of each trial once.
type Referee struct{ taken dataset.Taken }

// NewReferee returns the referee of a new run.
func NewReferee() Referee { return Referee{dataset.Taken{}} }

func (r Referee) take(plan rundir.Plan, t *rundir.TrialFolder) (*dataset.Trial, error) {
	x, err := r.taken.Take(plan, recording.FromFolder(t), false)
	if err != nil {
		return nil, fmt.Errorf("trial %d: %w", t.Number, err)
	}
	return x, nil
}

// Disturbed tells whether the machine or the generator disturbed one of a round's trials
// beyond a limit fixed beforehand. A round in which a target was lost does not count as
// disturbed.
func (r Referee) Disturbed(plan rundir.Plan, round []*rundir.TrialFolder) (bool, error) {
	trials := make([]*dataset.Trial, len(round))
	for i, t := range round {
		var err error
		if trials[i], err = r.take(plan, t); err != nil {
			return false, err
		}
	}
	return dataset.DisturbedRound(trials), nil
}

// Enough decides after a whole round whether to make another. It applies the plan's rule
// to the primary metric of every comparison except the control's: all of them must have
// enough. It reads only trial.json, so the primary metric must be in it. Without a
// comparison, and in a search for capacity, all rounds are made.
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
func (r Referee) Probe(plan rundir.Plan, probe *rundir.TrialFolder) (capacity.Trial, error) {
	if plan.Capacity == nil || probe.Purpose != rundir.PurposeProbe || probe.Rate == nil {
		return capacity.Trial{}, errors.New("not a probe of a search for capacity")
	}
	s, err := r.take(plan, probe)
	if err != nil {
		return capacity.Trial{}, err
	}
	return search.JudgeProbe(plan, s).Result, nil
}

// Examine returns the flags that Judge will raise about one trial alone.
func (r Referee) Examine(plan rundir.Plan, t *rundir.TrialFolder) ([]rundir.Flag, error) {
	s, err := r.take(plan, t)
	if err != nil {
		return nil, err
	}
	return s.AllFlags, nil
}

// Judge judges the run.
func (r Referee) Judge(f *rundir.Folder) error { return judge(&f.Run, sourcesOf(f), r.taken) }
