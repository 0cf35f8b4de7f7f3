package checks

import (
	"math"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/results/rundir"
)

// A generator sent the load, or an agent's part of it.
type generator struct {
	agent string // its name; empty for dyno's own machine
	*rundir.Generator
	machine *rundir.Machine
}

// generators are what sent a trial's load: its agents, or dyno itself.
func generators(t *rundir.Trial) []generator {
	if len(t.Agents) == 0 {
		return []generator{{"", &t.Generator, &t.Machine}}
	}
	return ofAgents(t)
}

func ofAgents(t *rundir.Trial) (all []generator) {
	for i := range t.Agents {
		a := &t.Agents[i]
		all = append(all, generator{a.Name, &a.Generator, &a.Machine})
	}
	return all
}

// worst makes a check of each generator and adds the worst one. It names the agent.
func (x *examination) worst(all []generator, check func(*generator) rundir.Check) {
	var worst rundir.Check
	for i := range all {
		c := check(&all[i])
		if c.Agent = all[i].agent; c.Agent != "" && c.Detail != nil {
			c.Detail = new(texts.New("found.agent", "agent", c.Agent).With("found", *c.Detail))
		}
		if i == 0 || worse(&c, &worst) {
			worst = c
		}
	}
	x.add(worst)
}

// worse tells whether a check came out worse than another of its kind.
func worse(a, b *rundir.Check) bool {
	if ra, rb := gravity(a), gravity(b); ra != rb {
		return ra > rb
	}
	return a.Measured != nil && b.Measured != nil && *a.Measured-*a.Limit > *b.Measured-*b.Limit
}

func gravity(c *rundir.Check) int {
	switch c.Outcome {
	case rundir.CheckOK:
		return 0
	case rundir.CheckUnknown:
		return 1
	case rundir.CheckWarning:
		return 2
	}
	return 3
}

// startSkew judges how far apart several agents may have begun. It names the one that was farthest from the common
// start.
func (x *examination) startSkew() {
	skew, within := x.Trial.StartSkew, x.Trial.StartSkewError
	if len(x.Trial.Agents) < 2 || skew == nil || within == nil {
		return
	}
	farthest := &x.Trial.Agents[0]
	off := func(a *rundir.Agent) float64 { return math.Abs(a.StartDeviation) + a.ClockError }
	for i := range x.Trial.Agents {
		if a := &x.Trial.Agents[i]; off(a) > off(farthest) {
			farthest = a
		}
	}
	c := compared(FlagStartSkew, *skew+*within, StartSkewLimit.Seconds(), rundir.CheckWarning,
		new(texts.New("found.start_skew", "skew", units.ShortTime(*skew), "error", units.ShortTime(*within), "limit", units.ShortTime(StartSkewLimit.Seconds()),
			"agent", farthest.Name, "deviation", units.ShortTime(farthest.StartDeviation), "within", units.ShortTime(farthest.ClockError))))
	c.Agent = farthest.Name
	x.add(c)
}
