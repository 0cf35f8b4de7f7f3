package agents

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
	"dyno/lab/plan"
)

// The times of agents that look for a control plane.
const (
	joinTimeout = 10 * time.Second       // from when it is ready until a load begins with those that are there
	joinPause   = 4 * time.Second        // longer than they pause between attempts
	joinPeriod  = 100 * time.Millisecond // between looks at who is there
)

// stateFolder returns where something of the user's is kept from one command to the next (XDG Base Directory
// Specification).
func stateFolder(name string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "dyno", name), nil
}

// gatherFleet starts a control plane if there is none, and waits until agents have found it: --agents says how many.
// Without a number, or if the plan places processes with agents, it waits until no agent has joined for joinPause.
func (a *Access) gatherFleet(ctx context.Context, m *identity.Member, e *plan.Experiment) error {
	c := &a.choice
	by, err := c.parse()
	if err != nil {
		return err
	}
	if started, err := a.startControl(ctx, &c.Control); err != nil || !started {
		return err
	}
	r, err := c.Control.Existing(registry.Fleet)
	if err != nil {
		return err
	}
	defer r.Close()
	wanted := c.Count
	if len(placements(e)) > 0 {
		wanted = 0
	}
	known, latest := 0, time.Now()
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); {
		there, err := c.reachable(ctx, r, m, by, nil)
		if err != nil {
			return Explain(err)
		}
		if len(there) != known {
			known, latest = len(there), time.Now()
		}
		if wanted > 0 && known >= wanted || wanted == 0 && known > 0 && time.Since(latest) > joinPause {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(joinPeriod):
		}
	}
	return nil // the choice says how many are missing
}
