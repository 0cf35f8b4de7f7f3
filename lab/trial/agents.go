package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/load/engine"
	"dyno/results/rundir"
)

// An Agent carries parts of loads on another machine.
type Agent struct {
	Carrier
	Name        string
	Address     string
	Descriptors int // that a process there may have
	Connections int // that the machine's owner allows a part of a load; 0: unknown
}

// A Carrier here can be lost.
type Carrier interface {
	generator.Carrier
	Recoverable
}

// A Recoverable agent can be lost, and come back.
type Recoverable interface {
	// Ask is called after a trial in which a process was lost. It returns when no process of that trial
	// can act any longer. It returns the address and the descriptors for the next process. Or it
	// returns why there is none.
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

// An AgentsError says that a run ended because agents were lost. The folder has the measured trials,
// and Resume measures the rest.
type AgentsError struct{ Err error }

func (e *AgentsError) Error() string { return e.Err.Error() }
func (e *AgentsError) Unwrap() error { return e.Err }

// members makes agents the members of a run.
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

// isVoid reports whether a trial failed only because agents were lost. It says nothing of the target then: that one
// ends with its agent.
func (r *runner) isVoid(ctx context.Context, failed error) bool {
	_, lost := errors.AsType[*generator.LostError](failed)
	return lost && len(r.agents)+len(r.hosts) > 0 && context.Cause(ctx) == nil && consistsOf(failed, func(err error) bool {
		switch err.(type) { //nolint:errorlint // each link of the chain is looked at
		case *generator.LostError, *Fault, *engine.Unreachable:
			return true
		}
		return false
	})
}

// attempt measures what belongs together, such as a round. If one of its trials is void, it is measured
// again, as a whole, by the agents available then: half as often in a run as there are rounds, but at
// least once. The agents are the same in all trials of an attempt that counts. Targets and services
// stay on theirs.
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
		gone := r.askHosts(ctx)
		if err := cmp.Or(context.Cause(ctx), gone); err != nil {
			return err
		}
		if len(r.agents) > 0 && len(r.present()) == 0 {
			return &AgentsError{fmt.Errorf("no agent is left: %s", r.absences())}
		}
	}
}

// askHosts asks the agents that targets and services are placed with whether they are there. No others take their
// place in a run: a target's figures on another machine are not comparable.
func (r *runner) askHosts(ctx context.Context) error {
	for selector, h := range r.hosts {
		var err error
		if h.Address, _, err = h.Ask(ctx); err != nil {
			return &AgentsError{fmt.Errorf("no agent is left for %s: %w", selector, err)}
		}
		r.hosts[selector] = h
	}
	return nil
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

// recordAgents records what each agent brought to a load, and what was seen of its machine.
func (r *runner) recordAgents(t *rundir.Trial, w *observation.Watch, accounts []generator.Account) {
	if len(accounts) == 0 {
		return
	}
	agents := r.present()
	for i, of := range accounts {
		a, work := agents[i], of.Cost.Completed
		if of.Cost.Streams.Requested > 0 {
			work = of.Cost.Streams.Delivered
		}
		one := rundir.Agent{
			Name: a.Name, Address: a.Address, ClockOffset: of.Clock.Offset.Seconds(), ClockError: of.Clock.Error.Seconds(),
			StartDeviation: of.Late.Seconds(), Share: of.Share, Work: signed(work),
			Generator: generatorFigures(of.Cost, of.Workers, signed(work), false),
		}
		if o := of.Observed; o != nil {
			g, seen := &one.Generator, &o.Generator
			g.RSSBytes, g.RunQueueWaitShare, g.TimeslicesPerSecond, g.StealShare = seen.RSSBytes, seen.RunQueueWaitShare, seen.TimeslicesPerSecond, seen.StealShare
			one.Machine = o.Machine
		}
		t.Agents = append(t.Agents, one)
	}
	subtractOwnUse(t, accounts, w.TargetBoot())
	sumUpAgents(t)
	recordSkew(t)
	recordDeliveryError(t, accounts)
	recordUnavailable(t, accounts)
	for _, of := range accounts {
		if o := of.Observed; o != nil && o.ObserverCPU != nil && t.ObserverCPU != nil {
			*t.ObserverCPU += *o.ObserverCPU
		}
	}
}

// subtractOwnUse subtracts from the foreign CPU time of each agent's machine what the load's other processes used there: each
// part knows only itself, and agents may share a machine with each other and with the target. there is the target's
// machine; empty if it is not known.
func subtractOwnUse(t *rundir.Trial, accounts []generator.Account, there string) {
	for i, of := range accounts {
		o := of.Observed
		if o == nil || o.Boot == "" || o.CPUSeconds == nil || *o.CPUSeconds <= 0 {
			continue
		}
		used := 0. // in seconds
		for n, other := range accounts {
			if n != i && other.Observed != nil && other.Observed.Boot == o.Boot {
				used += other.Cost.Process.Total().Seconds()
			}
		}
		if o.Boot == there && t.Target.CPUSeconds != nil {
			used += *t.Target.CPUSeconds
		}
		if foreign := t.Agents[i].Machine.ForeignShare; foreign != nil {
			*foreign = max(0, *foreign - used / *o.CPUSeconds)
		}
	}
}

// sumUpAgents gives the trial's generator the figures of all agents: memory added up, and the waits of
// the one that waited longest.
func sumUpAgents(t *rundir.Trial) {
	g := &t.Generator
	g.RSSBytes = new(int64(0))
	for i := range t.Agents {
		of := &t.Agents[i].Generator
		if g.RSSBytes != nil && of.RSSBytes != nil {
			*g.RSSBytes += *of.RSSBytes
		} else {
			g.RSSBytes = nil
		}
		if longer(of.RunQueueWaitShare, g.RunQueueWaitShare) {
			g.RunQueueWaitShare, g.TimeslicesPerSecond = of.RunQueueWaitShare, of.TimeslicesPerSecond
		}
		stolen := of.StealShare
		if stolen == nil {
			stolen = t.Agents[i].Machine.StealShare
		}
		if longer(stolen, g.StealShare) {
			g.StealShare = stolen
		}
	}
}

// longer tells whether a figure is known and larger than another, or that is not known.
func longer(a, b *float64) bool { return a != nil && (b == nil || *a > *b) }

// recordSkew records how far apart several agents began.
func recordSkew(t *rundir.Trial) {
	if len(t.Agents) < 2 {
		return
	}
	first, last, earliest, latest := t.Agents[0].StartDeviation, t.Agents[0].StartDeviation, t.Agents[0].StartDeviation, t.Agents[0].StartDeviation
	for _, a := range t.Agents {
		first, last = min(first, a.StartDeviation), max(last, a.StartDeviation)
		earliest, latest = min(earliest, a.StartDeviation-a.ClockError), max(latest, a.StartDeviation+a.ClockError)
	}
	t.StartSkew, t.StartSkewError = new(last-first), new((latest-earliest)-(last-first))
}

// recordDeliveryError records how wrong times of delivery may be: the first agent publishes to the subscribers of all.
// On its own machine they are right.
func recordDeliveryError(t *rundir.Trial, accounts []generator.Account) {
	if t.Streams == nil || t.Counts.Scheduled == 0 {
		return
	}
	for _, of := range accounts[1:] {
		t.Streams.DeliveryError = max(t.Streams.DeliveryError, (accounts[0].Clock.Drifted + of.Clock.Drifted).Seconds())
	}
}

// recordUnavailable records what could not be observed on agents' machines: each reason once, with its agents.
func recordUnavailable(t *rundir.Trial, accounts []generator.Account) {
	var reasons []rundir.Message
	names := map[string][]string{} // by what the reason says
	for i, of := range accounts {
		if of.Observed == nil {
			continue
		}
		for _, why := range of.Observed.Unavailable {
			said := why.String()
			if names[said] == nil {
				reasons = append(reasons, why)
			}
			if name := t.Agents[i].Name; !slices.Contains(names[said], name) {
				names[said] = append(names[said], name)
			}
		}
	}
	for _, why := range reasons {
		t.Unavailable = append(t.Unavailable, texts.New("unavailable.agents", "agents", strings.Join(names[why.String()], ", ")).With("what", why))
	}
}
