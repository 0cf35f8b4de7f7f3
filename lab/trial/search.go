package trial

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/observe"
	"dyno/results/rundir"
)

// search looks for the highest rate at which a variant keeps the thresholds, with one
// trial after the other. It begins where the searches of earlier rounds ended. In a
// resumed run, a finished search is not repeated. An interrupted search begins again,
// because its probes must be close together in time.
func (r *runner) search(ctx context.Context, round int, v *plan.Variant) error {
	goal, hint := goal(r.experiment.Capacity), geometricMean(r.edges[v.Name])
	planned := r.run.Plan.Variant(v.Name)
	goal.Connections, goal.MostConnections = planned.Connections, planned.MostConnections
	recorded, done, err := r.recordedProbes(round, v.Name)
	if err != nil {
		return err
	}
	state, err := goal.Next(done, hint)
	if err == nil && !state.Done && len(done) > 0 {
		for _, t := range recorded {
			if err := r.folder.Abandon(t, "the search was interrupted and begun again"); err != nil {
				return err
			}
		}
		done = nil
		state, err = goal.Next(done, hint)
	}
	for err == nil && !state.Done {
		var probe *rundir.TrialFolder
		if probe, err = r.measure(ctx, task{round: round, variant: v, purpose: rundir.PurposeProbe, rate: state.Next, connections: state.Connections}); err != nil {
			return err
		}
		var t capacity.Trial
		if t, err = r.judge(probe); err != nil {
			return err
		}
		done = append(done, t)
		state, err = goal.Next(done, hint)
	}
	if err != nil {
		return fmt.Errorf("round %d, variant %s: search after %d probes: %w", round, v.Name, len(done), err)
	}
	if state.Low > 0 && !math.IsInf(state.High, 1) {
		r.edges[v.Name] = append(r.edges[v.Name], math.Sqrt(state.Low)*math.Sqrt(state.High))
	}
	return nil
}

// mostTried is how many connections a search tries, unless the plan says how many.
const mostTried = 1 << 16

// portsShare is how many of the ports that the kernel gives to clients connections to one address may
// take: others need some, and those of closed connections are not free at once.
const portsShare = 0.8

// mostConnections returns how many connections the probes of a load may have, and why no more.
func (r *runner) mostConnections(l *plan.Load, address string, here observe.Limits) (most int, why *rundir.Message) {
	atMost := func(n int, limit string) {
		if why == nil || n < most {
			most, why = max(1, n), new(texts.New(limit, "n", strconv.Itoa(max(1, n))))
		}
	}
	if l.Open.MaxConnections > 0 {
		atMost(l.Open.MaxConnections, "limit.connections")
		return most, why
	}
	atMost(mostTried, "limit.search")
	subscribers, machines := 0, max(1, len(r.agents))
	if l.Subscribers != nil {
		subscribers = l.Subscribers.Connections
	}
	for _, a := range r.agents {
		atMost(generator.Room(a.Descriptors)*machines-subscribers, "limit.descriptors")
		if a.Connections > 0 {
			atMost(a.Connections*machines-subscribers, "limit.owner")
		}
	}
	if len(r.agents) == 0 {
		if here.Descriptors > 0 {
			atMost(generator.Room(int(min(here.Descriptors, mostTried*2)))-subscribers, "limit.descriptors") //nolint:gosec // bounded
		}
		if r.options.Limits != nil {
			atMost(r.options.Limits.Loads.Connections-subscribers, "limit.owner")
		}
	}
	if here.EphemeralHigh > 0 && !strings.HasPrefix(address, "unix:") {
		atMost(int(portsShare*float64(machines*(here.EphemeralHigh-here.EphemeralLow+1)))-subscribers, "limit.ports")
	}
	return most, why
}

// recordedProbes returns the complete probes of a search that the folder already holds.
func (r *runner) recordedProbes(round int, variant string) (probes []*rundir.TrialFolder, done []capacity.Trial, err error) {
	for _, t := range r.trials {
		if t.IsMeasured() && t.Purpose == rundir.PurposeProbe && t.Round == round && t.Variant == variant {
			judged, err := r.judge(t)
			if err != nil {
				return nil, nil, err
			}
			probes, done = append(probes, t), append(done, judged)
		}
	}
	return probes, done, nil
}

func (r *runner) judge(probe *rundir.TrialFolder) (capacity.Trial, error) {
	t, err := r.options.Referee.Probe(r.run.Plan, probe)
	if err != nil {
		return t, fmt.Errorf("trial %d, variant %s: %w", probe.Number, probe.Variant, err)
	}
	return t, nil
}

// geometricMean returns 0 for an empty list.
func geometricMean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}
