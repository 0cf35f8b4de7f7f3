package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/internal/buildinfo"
	"dyno/internal/exit"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
	"dyno/lab/fleet/selector"
	"dyno/lab/plan"
)

// place finds the agents that a plan places processes with, one for each selector. They are among those that flags name,
// and those of the fleet, if there is one.
func (a *Access) place(ctx context.Context, e *plan.Experiment, named []*fleet.Agent) (map[string]registry.Agent, error) {
	paths := placements(e)
	if len(paths) == 0 {
		return nil, nil
	}
	var all []registry.Agent
	for _, of := range named {
		all = append(all, registry.Agent{Info: of.Info, Address: of.Address})
	}
	if a.knowsFleet() {
		registered, err := a.registered(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(registered, func(of registry.Agent) bool {
			return slices.ContainsFunc(all, func(other registry.Agent) bool { return other.Name == of.Name })
		})...)
	}
	placed := map[string]registry.Agent{}
	for _, text := range slices.Sorted(maps.Keys(paths)) {
		by, err := selector.Parse(text)
		if of := (*selector.Error)(nil); errors.As(err, &of) {
			return nil, exit.Misused(of.Hint, "%s: %v", paths[text], err)
		}
		matching := slices.DeleteFunc(slices.Clone(all), func(of registry.Agent) bool { return !by.Match(of.Labels) })
		free := slices.DeleteFunc(slices.Clone(matching), func(of registry.Agent) bool {
			return of.Cordoned || of.Held || of.ReservedBy != a.choice.reservation.ID() && of.ReservedBy != ""
		})
		switch {
		case len(all) == 0:
			return nil, exit.Misused("--control-plane URL names the fleet that has them, --agent HOST:PORT one of them", "%s: %s: there are no agents to choose from", paths[text], text)
		case len(free) == 0:
			return nil, exit.Misused("dyno fleet list shows the agents; dyno agent --label gives one labels", "%s: %s: %d agents match, and %d of them are free: want 1", paths[text], text, len(matching), len(free))
		case len(free) > 1:
			var names []string
			for _, of := range free {
				names = append(names, of.Name)
			}
			slices.Sort(names)
			return nil, exit.Misused("add a label that only one of them has", "%s: %s: %d agents match (%s): want exactly one", paths[text], text, len(free), strings.Join(names, ", "))
		}
		placed[text] = free[0]
	}
	return placed, nil
}

// placements returns the paths of the fields of a plan that place processes with agents, by their selectors.
func placements(e *plan.Experiment) map[string]string {
	paths := map[string]string{}
	for i := range e.Variants {
		maps.Copy(paths, e.Variants[i].Placements())
	}
	return paths
}

// knowsFleet tells whether a control plane is named, or agents are chosen from the default one's.
func (a *Access) knowsFleet() bool {
	return a.choice.IsWanted() || len(a.choice.Control.Addresses()) > 0
}

// registered returns the agents of the fleet.
func (a *Access) registered(ctx context.Context) ([]registry.Agent, error) {
	var all []registry.Agent
	err := a.choice.Control.Use(registry.Fleet, func(r *registry.Registry) (err error) {
		all, _, err = r.Agents(ctx)
		return err
	})
	return all, err
}

// connectTo asks agents what they are, each named by its address.
func connectTo(ctx context.Context, m *identity.Member, addresses ...string) ([]*fleet.Agent, error) {
	connected, err := fleet.Connect(ctx, buildinfo.Version(), m, addresses...)
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--agent: %w", err), "dyno agent starts one")
	}
	return connected, nil
}
