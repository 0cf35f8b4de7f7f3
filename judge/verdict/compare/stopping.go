package compare

import (
	"errors"
	"fmt"
	"strconv"

	"dyno/internal/texts"
	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// Stopping is the rule by which a plan ends.
func Stopping(plan rundir.Plan) stat.Stopping {
	s := stat.Stopping{Rule: stat.FixedRounds, Rounds: plan.Rounds, Margin: plan.Margin}
	switch plan.Stop {
	case "precision":
		s.Rule = stat.Precision
	case "looks":
		s.Rule = stat.ThreeLooks
	}
	return s
}

// Decision asks the stopping rule about a pair. It uses the primary metric in the rounds that
// the rule heard of when it ended the run.
func (s Comparer) Decision(p Pair) (stat.Decision, error) {
	m, ok := dataset.Lookup(s.Plan.PrimaryMetric())
	if !ok {
		return stat.Decision{}, fmt.Errorf("metric %q is not known", s.Plan.PrimaryMetric())
	}
	e, err := s.effect(p, m, s.StoppingRounds, dataset.Confidence)
	if err != nil && !errors.As(err, new(*noRatio)) {
		return stat.Decision{}, err
	}
	return Stopping(s.Plan).Decide(e.logs)
}

// confidence is the level at which a pair is compared, in any metric.
func (s Comparer) confidence(p Pair) float64 {
	d, err := s.Decision(p)
	if err != nil { // such as a plan of one round, to which no rule applies
		return dataset.Confidence
	}
	return d.Confidence
}

// WhyDecided says by what a stopping rule decided.
func WhyDecided(d stat.Decision) rundir.Message {
	two := func(v float64) string { return fmt.Sprintf("%.2g", v) }
	rounds, most := strconv.Itoa(d.Rounds), strconv.Itoa(d.Most)
	switch {
	case d.Rounds >= d.Most:
		return texts.New("stopped.all", "n", most)
	case d.Wanted > 0:
		return texts.New("stopped.narrow", "half", two(d.HalfWidth), "n", rounds, "want", two(d.Wanted))
	case d.Equivalent:
		return texts.New("stopped.equivalent", "look", strconv.Itoa(d.Look), "of", strconv.Itoa(d.Looks))
	case d.Look > 0:
		return texts.New("stopped.look", "look", strconv.Itoa(d.Look), "of", strconv.Itoa(d.Looks), "p", two(d.P), "level", fmt.Sprint(d.Level))
	}
	return texts.New("stopped.rounds", "n", rounds, "of", most)
}
