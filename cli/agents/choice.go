package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
	"dyno/lab/fleet/selector"
)

// askedAtOnce is the number of agents that are asked at the same time.
const askedAtOnce = 32

// askParts asks agents at the same time how many parts they carry. reached tells which of them answered.
func askParts(ctx context.Context, m *identity.Member, all []registry.Agent) (reached []bool) {
	reached = make([]bool, len(all))
	places := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i := range all {
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			var err error
			all[i].Parts, err = fleet.Parts(ctx, m, all[i].Address)
			reached[i] = err == nil
		})
	}
	asking.Wait()
	return reached
}

// agentNamed returns an agent that lives.
func agentNamed(ctx context.Context, r *registry.Registry, name string) (registry.Agent, error) {
	all, _, err := r.Agents(ctx)
	if err != nil {
		return registry.Agent{}, err
	}
	for _, of := range all {
		if of.Name == name {
			return of, nil
		}
	}
	return registry.Agent{}, exit.Misused("dyno fleet list shows the agents", "no agent called %s lives", name)
}

// A Choice is how flags choose agents.
type Choice struct {
	queue.Agents
	given   bool // --fleet
	Control ControlPlane
	// reservation is that of the machines which a task waits for; nil: none.
	reservation *registry.Reservation
}

// Flags adds the flags that choose.
func (c *Choice) Flags(f *pflag.FlagSet) {
	f.Func("fleet", "have the agents carry the load whose labels match `SELECTOR`, as in zone=1,disk!=slow (dyno fleet); empty: all agents", func(text string) error {
		c.given, c.Selector = true, text
		return nil
	})
	f.IntVar(&c.Count, "agents", 0, "have `N` agents of the fleet carry the load, those with the fewest parts first (default all that --fleet matches)")
	f.BoolVar(&c.Exclusive, "exclusive", false, "have the agents of the fleet carry nothing else until this run has ended")
	c.Control.Flags(f)
}

// Wish returns what a task is to say of the agents; nil if it asks for none.
func (c *Choice) Wish() (*queue.Agents, error) {
	if !c.IsWanted() {
		return nil, nil
	}
	_, err := c.parse()
	return &c.Agents, err
}

// IsWanted tells whether agents are chosen at all.
func (c *Choice) IsWanted() bool { return c.given || c.Count != 0 || c.Exclusive }

// parse checks what the flags say.
func (c *Choice) parse() (selector.Selector, error) {
	if c.Count < 0 {
		return selector.Selector{}, exit.Misused("as in: --agents 4", "--agents: %d is not a number of agents", c.Count)
	}
	by, err := selector.Parse(c.Selector)
	if of := (*selector.Error)(nil); errors.As(err, &of) {
		return selector.Selector{}, exit.Misused(of.Hint, "--fleet: %v", err)
	}
	return by, err
}

// choose returns agents on whose machines the plan has placed no processes. The hold covers their machines and those of
// the placed processes; without --exclusive, it is nil. The run closes the registry.
func (c *Choice) choose(ctx context.Context, m *identity.Member, placed []registry.Agent) ([]registry.Agent, *registry.Registry, *registry.Hold, error) {
	by, err := c.parse()
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := c.Control.Existing(registry.Fleet)
	if err != nil {
		return nil, nil, nil, err
	}
	chosen, hold, err := c.from(ctx, r, m, by, placed)
	if err != nil {
		r.Close()
		return nil, nil, nil, Explain(err)
	}
	return chosen, r, hold, nil
}

func (c *Choice) from(ctx context.Context, r *registry.Registry, m *identity.Member, by selector.Selector, placed []registry.Agent) ([]registry.Agent, *registry.Hold, error) {
	reachable, err := c.reachable(ctx, r, m, by, placed)
	if err != nil {
		return nil, nil, err
	}
	_ = r.Forget(ctx) // if it fails, a later load does it
	chosen, err := registry.Choose(reachable, registry.Want{Count: c.Count, Alone: c.Exclusive, By: c.reservation.ID()})
	if err != nil {
		return nil, nil, exit.With(exit.Usage, fmt.Errorf("--fleet: %w", err), "dyno fleet list shows the agents; dyno agent --control-plane URL starts one")
	}
	if !c.Exclusive {
		return chosen, nil, nil
	}
	hold, err := r.Hold(ctx, slices.Concat(chosen, placed), c.reservation)
	return chosen, hold, err
}

// reachable returns the agents that match and answer, but for those that the plan has placed processes on.
func (c *Choice) reachable(ctx context.Context, r *registry.Registry, m *identity.Member, by selector.Selector, placed []registry.Agent) ([]registry.Agent, error) {
	all, _, err := r.Agents(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(of registry.Agent) bool {
		return !by.Match(of.Labels) || slices.ContainsFunc(placed, func(p registry.Agent) bool { return p.Name == of.Name })
	})
	var reachable []registry.Agent
	for i, reached := range askParts(ctx, m, all) {
		if reached {
			reachable = append(reachable, all[i])
		}
	}
	return reachable, nil
}
