package trial

import (
	"testing"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/observe"
)

// A search has as many connections as the tightest limit allows, and names that limit.
func TestMostConnections(t *testing.T) {
	roomy := observe.Limits{Descriptors: 1 << 20, EphemeralLow: 1024, EphemeralHigh: 1 << 20}
	owner := &Limits{Loads: &generator.Limits{Connections: 70}}
	agents := []Agent{{Descriptors: 1 << 20, Connections: 40}, {Descriptors: 1 << 20}}
	for name, c := range map[string]struct {
		asked, subscribers int
		address            string
		here               observe.Limits
		agents             []Agent
		owner              *Limits
		most               int
		limit              string
	}{
		"nothing in the way":  {here: roomy, most: mostTried, limit: "limit.search"},
		"asked for":           {asked: 50, here: observe.Limits{Descriptors: 10}, most: 50, limit: "limit.connections"},
		"descriptors":         {here: observe.Limits{Descriptors: 1000}, most: generator.Room(1000), limit: "limit.descriptors"},
		"no room":             {here: observe.Limits{Descriptors: 10}, most: 1, limit: "limit.descriptors"},
		"ports":               {here: observe.Limits{Descriptors: 1 << 20, EphemeralLow: 101, EphemeralHigh: 200}, most: 80, limit: "limit.ports"},
		"ports of several":    {here: observe.Limits{EphemeralLow: 101, EphemeralHigh: 200}, agents: []Agent{agents[1], agents[1]}, most: 160, limit: "limit.ports"},
		"a Unix socket":       {address: "unix:/s", here: observe.Limits{EphemeralLow: 101, EphemeralHigh: 200}, most: mostTried, limit: "limit.search"},
		"the owner":           {here: roomy, owner: owner, subscribers: 20, most: 50, limit: "limit.owner"},
		"the owner of agents": {here: roomy, agents: agents, most: 80, limit: "limit.owner"},
		"agents' descriptors": {here: observe.Limits{}, agents: []Agent{{Descriptors: 1000}}, owner: owner, most: generator.Room(1000), limit: "limit.descriptors"},
	} {
		r := &runner{agents: members(c.agents), options: Options{Limits: c.owner}}
		l := plan.Load{Open: &plan.Open{MaxConnections: c.asked}}
		if c.subscribers > 0 {
			l.Subscribers = &plan.Subscribers{Connections: c.subscribers}
		}
		if most, why := r.mostConnections(&l, c.address, c.here); most != c.most || why.Kind != c.limit {
			t.Errorf("%s: %d, %s; want %d, %s", name, most, why.Kind, c.most, c.limit)
		}
	}
}
