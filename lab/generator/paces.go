package generator

import (
	"slices"
	"time"

	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// paces translates the paces of flows. Each has workers of its own.
func paces(l *plan.Load, seed uint64) (all []config.Pace, err error) {
	for i := range l.Paces {
		p := &l.Paces[i]
		users := p.MostUsers()
		c := config.Pace{
			Flow:    slices.IndexFunc(l.Scenario.Flows, func(f scenario.Flow) bool { return f.Name == p.Flow }),
			Workers: min(max(1, l.Workers, len(l.CPUs)), users), Connections: users, Users: users,
			Iterations: p.Iterations.Iterations, IterationsEach: p.IterationsEach,
		}
		stages := pacedStages(l, p)
		switch {
		case p.IsOpen():
			process := pace.Constant
			c.Schedule, err = pace.New(stages, process, seed+uint64(i)) //nolint:gosec // a few
		case p.Start > 0 || len(p.Stages) > 0 || p.Window > 0 && (p.Window != l.Window || p.Counted()):
			c.Population, err = pace.NewPopulation(stages)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// pacedStages returns the stages of a flow over the whole load: the warm-up, which is as the window begins, the time until
// the flow starts, and its own.
func pacedStages(l *plan.Load, p *plan.Pace) (stages []pace.Stage) {
	add := func(d time.Duration, from, to float64) {
		if d > 0 {
			stages = append(stages, pace.Stage{Duration: d, From: from, To: to})
		}
	}
	level := max(p.Rate, float64(p.Users))
	first := level
	if p.Start > 0 {
		first = 0
	}
	add(l.Warmup, first, first)
	add(p.Start, 0, 0)
	if len(p.Stages) == 0 {
		length := p.Window
		if length == 0 {
			length = l.Window - p.Start
		}
		if length <= 0 { // its iterations end it
			length = pace.MaxDuration
		}
		add(length, level, level)
	}
	for _, s := range p.Stages {
		to := max(s.Rate, float64(s.Users))
		add(s.Duration, level, to)
		level = to
	}
	if !p.IsOpen() && p.Length() > 0 {
		add(time.Millisecond, 0, 0) // nobody is left
	}
	return stages
}
