package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"dyno/internal/fields"
)

// A Pace is the pace of one flow of a scenario: a closed loop of users, or an open one at a rate, with a beginning and an
// end of its own.
type Pace struct {
	Flow   string        `yaml:",key"`
	Start  time.Duration `yaml:"start" range:"0s..24h" doc:"when the flow begins, after the window's beginning"`
	Window time.Duration `yaml:"window" range:"1ms..24h" otherwise:"to the end of load.window" doc:"how long users begin iterations"`
	Users  int           `yaml:"users" range:"0..1000000" doc:"of a closed loop: how many there are, of stages at their beginning"`
	Rate   float64       `yaml:"rate" kind:"rate" range:"0..10000000" doc:"of an open loop: iterations, of stages at their beginning"`
	Stages []PaceStage   `yaml:"stages" most:"1000" doc:"parts of the flow's window; the users or the rate go linearly from the last one's to their own"`
	// MaxUsers is 0 of a closed loop.
	MaxUsers int `yaml:"max_users" range:"1..1000000" otherwise:"500" doc:"of an open loop: the most users at once, each with a connection; an iteration without one is dropped and counted"`
	Iterations
}

// A PaceStage is a part of a Pace.
type PaceStage struct {
	Duration time.Duration `yaml:"duration,required" range:"0s..24h" doc:"how long it lasts; 0 is a jump"`
	Users    int           `yaml:"users" range:"0..1000000" doc:"of a closed loop: how many there are at its end"`
	Rate     float64       `yaml:"rate" kind:"rate" range:"0..10000000" doc:"of an open loop: iterations at its end"`
}

// Iterations bound how many there are of a scenario.
type Iterations struct {
	Iterations     uint64 `yaml:"iterations" range:"1..1000000000000" otherwise:"no such limit" doc:"how many iterations of a scenario the users of a closed loop carry out together; then it ends"`
	IterationsEach uint64 `yaml:"iterations_each" range:"1..1000000000000" otherwise:"no such limit" doc:"how many iterations of a scenario each user of a closed loop carries out"`
}

// Counted tells whether there is a limit.
func (b *Iterations) Counted() bool { return b.Iterations+b.IterationsEach > 0 }

// IsOpen tells whether the loop is open.
func (p *Pace) IsOpen() bool {
	return p.Rate > 0 || slices.ContainsFunc(p.Stages, func(s PaceStage) bool { return s.Rate > 0 })
}

// Length is how long users begin iterations; 0: it depends on something else.
func (p *Pace) Length() time.Duration {
	length := p.Window
	for _, s := range p.Stages {
		length += s.Duration
	}
	return length
}

// MostUsers is how many users there are at once, or may be.
func (p *Pace) MostUsers() int {
	if p.IsOpen() {
		return cmp.Or(p.MaxUsers, 500)
	}
	most := p.Users
	for _, s := range p.Stages {
		most = max(most, s.Users)
	}
	return most
}

// SetPaces gives flows of the scenario paces of their own. The window is as long as all of them.
func (l *Load) SetPaces(paces []Pace) {
	l.Paces, l.Window, l.Closed, l.Open = paces, 0, &Closed{}, nil
	for i := range paces {
		p := &paces[i]
		l.Closed.Connections += p.MostUsers()
		if p.IsOpen() && l.Open == nil {
			l.Open = DefaultOpen()
		}
		if p.Length() > 0 {
			l.Window = max(l.Window, p.Start+p.Length())
		}
	}
	if l.Open != nil {
		l.Open.MaxConnections, l.Closed = l.Closed.Connections, nil
	}
}

// Counted tells whether the number of requests or iterations ends the load.
func (l *Load) Counted() bool {
	unbounded := func(p Pace) bool { return !p.Counted() }
	return l.Requests > 0 || l.Iterations.Counted() || len(l.Paces) > 0 && !slices.ContainsFunc(l.Paces, unbounded)
}

// paces judges the paces of flows.
func (i *inspector) paces(l *Load) {
	const path = "load.paces"
	flows := map[string]bool{}
	if l.Scenario != nil {
		for _, f := range l.Scenario.Flows {
			flows[f.Name] = true
			if !slices.ContainsFunc(l.Paces, func(p Pace) bool { return p.Flow == f.Name }) {
				i.fault(path, fmt.Sprintf("the flow %s has none", f.Name), "give each flow of the scenario a pace")
			}
		}
	}
	switch {
	case l.Requests > 0:
		i.fault("load.requests", "requests and paces exclude each other", "iterations of the paces")
	case l.Iterations.Counted():
		i.fault("load.iterations", "iterations and paces exclude each other", "iterations of the paces")
	case l.Scenario != nil && l.Scenario.Users != 0:
		i.fault("load.scenario.users", "users and paces exclude each other", "the paces say how many users there are")
	case len(l.Stages) > 0:
		i.fault("load.stages", "stages and paces exclude each other", "stages of the paces")
	}
	for n := range l.Paces {
		p := &l.Paces[n]
		at := fields.Join(path, p.Flow)
		mixed := func(s PaceStage) bool { return s.Users > 0 }
		switch {
		case !flows[p.Flow]:
			i.fault(at, "the scenario has no such flow", "the name of one of load.scenario.flows")
		case p.Window > 0 && len(p.Stages) > 0:
			i.fault(at+".window", "the stages give the window its length", "remove it, or the stages")
		case p.IsOpen() && (p.Users > 0 || slices.ContainsFunc(p.Stages, mixed)):
			i.fault(at+".users", "users and a rate exclude each other", "max_users bounds those of an open loop")
		case p.IsOpen() && p.Counted():
			i.fault(at+".iterations", "are of users of a closed loop", "window")
		case p.MostUsers() == 0:
			i.fault(at, "there are neither users nor a rate", "such as users: 10 or rate: 5/s")
		case l.Window > 0 && p.Start+p.Length() > l.Window:
			i.fault(at+".start", "the flow ends after load.window", "a longer window, or none, which is as long as all paces take")
		case p.Length() == 0 && l.Window == 0 && !p.Counted():
			i.fault(at+".window", "is missing", "how long the flow takes, or load.window")
		}
	}
}
