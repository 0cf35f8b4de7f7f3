package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"dyno/lab/generator"
)

// An Agent carries parts of loads on another machine.
type Agent struct {
	Carrier
	Name        string
	Address     string
	Descriptors int // that a process there may have
}

// A Carrier is one that can be lost.
type Carrier interface {
	generator.Carrier
	// Ask is called after a load in which a process was lost. It returns when no process of that load can
	// send any longer, with the address and the descriptors that the next process has, or with the reason
	// why there will be none.
	Ask(ctx context.Context) (address string, descriptors int, err error)
}

// A member is an agent of the run.
type member struct {
	Agent
	absent error // why it carries nothing now; nil: it carries its part
}

// A voidError says that a trial is void, because an agent was lost.
type voidError struct{ err error }

func (e *voidError) Error() string { return e.err.Error() }
func (e *voidError) Unwrap() error { return e.err }

// An AgentsError says that a run ended because agents were lost. What was measured is in the folder, and
// Resume measures the rest.
type AgentsError struct{ Err error }

func (e *AgentsError) Error() string { return e.Err.Error() }
func (e *AgentsError) Unwrap() error { return e.Err }

// members makes agents those of a run.
func members(of []Agent) (all []member) {
	for _, a := range of {
		all = append(all, member{Agent: a})
	}
	return all
}

// present returns the agents that carry loads now.
func (r *runner) present() (agents []Agent) {
	for i := range r.agents {
		if r.agents[i].absent == nil {
			agents = append(agents, r.agents[i].Agent)
		}
	}
	return agents
}

// isVoid reports whether a trial failed only because agents were lost. It says nothing of the target then.
func (r *runner) isVoid(ctx context.Context, failed error) bool {
	return failed != nil && len(r.agents) > 0 && context.Cause(ctx) == nil && consistsOf(failed, func(err error) bool {
		_, lost := err.(*generator.LostError) //nolint:errorlint // each link of the chain is looked at
		return lost
	})
}

// attempt measures what belongs together, such as a round. If a trial of it is void, it is measured
// again, as a whole, by the agents that are there then: half as often in a run as there are rounds, but at
// least once. The agents are the same in all trials of an attempt that counts.
func (r *runner) attempt(ctx context.Context, measure func() error) error {
	if len(r.present()) < len(r.agents) {
		r.askAgents(ctx, func(m *member) bool { return m.absent != nil })
	}
	for {
		before := r.number
		err := measure()
		void, ok := errors.AsType[*voidError](err)
		if !ok {
			return err
		}
		var lost *generator.LostError
		errors.As(void, &lost)
		if most := max(1, r.experiment.Design.Rounds/2); r.repeated >= most {
			return &AgentsError{fmt.Errorf("%w; agents were lost before, and this run measures again for that %d times at most", lost, most)}
		}
		r.repeated++
		if r.of > 0 {
			r.of += r.number - before
		}
		r.askAgents(ctx, func(*member) bool { return true })
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if len(r.present()) == 0 {
			return &AgentsError{fmt.Errorf("no agent is left: %s", r.absences())}
		}
	}
}

// askAgents asks some agents whether they carry loads from now on.
func (r *runner) askAgents(ctx context.Context, which func(*member) bool) {
	var asking sync.WaitGroup
	for i := range r.agents {
		if m := &r.agents[i]; which(m) {
			asking.Go(func() { m.Address, m.Descriptors, m.absent = m.Ask(ctx) })
		}
	}
	asking.Wait()
}

// absences says why agents carry nothing; empty if all do.
func (r *runner) absences() string {
	var all []string
	for i := range r.agents {
		if err := r.agents[i].absent; err != nil {
			all = append(all, err.Error())
		}
	}
	return strings.Join(all, "; ")
}

// unable returns the error of a plan that the agents cannot carry. Without agents that are absent, the plan is
// at fault.
func (r *runner) unable(err error) error {
	if absent := r.absences(); absent != "" {
		return &AgentsError{fmt.Errorf("the agents that are left cannot carry the load: %w; lost: %s", err, absent)}
	}
	return &PlanError{err}
}
