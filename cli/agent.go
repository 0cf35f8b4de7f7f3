package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
	"dyno/lab/plan"
	"dyno/lab/trial"
)

// agentFlag adds the flag that names agents.
func (a *app) agentFlag(f *pflag.FlagSet) {
	a.identityFlag(f)
	f.StringArrayVar(&a.agents, "agent", nil, "have the agent at `HOST:PORT` carry the load, and not this machine, or the target that the plan places with it (dyno agent); may be repeated: each carries its share")
	a.choice.flags(f)
}

// recallAgents takes the agents from the command that began a run, unless there are some now.
func (a *app) recallAgents(command []string) error {
	if len(a.agents) > 0 || a.choice.wanted() {
		return nil
	}
	var began app
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	began.agentFlag(f)
	if err := f.Parse(command); err != nil {
		return fmt.Errorf("the command that began the run: %w", err)
	}
	if control := a.choice.control; len(control.servers) > 0 || control.tokenFile != "" {
		began.choice.control = control
	}
	a.agents, a.choice, a.identity = began.agents, began.choice, cmp.Or(a.identity, began.identity)
	a.recalled = true
	return nil
}

func (a *app) identityFlag(f *pflag.FlagSet) {
	f.StringVar(&a.identity, "identity", "", "connect to agents as the coordinator whose certificate is in `FOLDER` (dyno fleet authority)")
}

// coordinator returns this dyno as a member of the fleet that --identity names; nil without the flag.
func (a *app) coordinator() (*identity.Member, error) {
	const hint = "the folder of dyno fleet authority"
	if a.identity == "" {
		return nil, nil
	}
	m, err := identity.Load(filepath.Join(a.identity, identity.MemberFile))
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--identity: %w", err), hint)
	}
	if m.Peer().Role != identity.Coordinator {
		return nil, exit.Misused(hint, "--identity: %s has the certificate of an agent: only coordinators connect to agents", a.identity)
	}
	return m, nil
}

// refuseRevoked has a coordinator refuse members that are revoked in the control plane, now and until this command ends.
func (a *app) refuseRevoked(ctx context.Context, m *identity.Member, control *controlPlane) error {
	if m == nil {
		return nil
	}
	r, err := control.existingIn(registry.Trust)
	if err != nil {
		return err
	}
	known := make(chan error, 1)
	a.followRevoked(ctx, r, slog.New(slog.DiscardHandler), func(revoked *identity.Revocations) {
		refused := m.SetRevoked(revoked)
		select {
		case known <- refused:
		default: // the first answer is what is waited for
		}
	})
	if _, err := r.Revoked(ctx); err != nil { // says why it cannot be known
		return explainControl(err)
	}
	select {
	case err = <-known:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if errors.Is(err, identity.ErrRevoked) {
		err = exit.With(exit.Usage, fmt.Errorf("--identity: %w", err), "the fleet's manager revoked it; dyno fleet authority makes another one")
	}
	return err
}

// followRevoked calls apply with who is revoked, whenever that changes, until this command ends. It closes the registry then.
func (a *app) followRevoked(ctx context.Context, r *registry.Registry, log *slog.Logger, apply func(*identity.Revocations)) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	a.atEnd(func() error {
		stop()
		<-ended
		r.Close()
		return nil
	})
	go func() {
		defer close(ended)
		err := r.FollowRevoked(ctx, log, func(revoked *identity.Revocations) error {
			apply(revoked)
			return nil
		})
		if err != nil {
			log.Error("who is revoked cannot be followed", "error", err)
		}
	}()
}

// connectAgents asks the agents what they are that carry the load, and those on whose machines the plan places
// processes. The latter carry no load.
func (a *app) connectAgents(ctx context.Context, e *plan.Experiment) (load []trial.Agent, hosts map[string]trial.Host, err error) {
	if a.chosen != nil {
		return a.chosen, a.hosts, nil // by an earlier run of this process
	}
	m, err := a.coordinator()
	if err == nil && a.knowsFleet() {
		err = a.refuseRevoked(ctx, m, &a.choice.control)
	}
	if err != nil {
		return nil, nil, err
	}
	carriers, err := a.connectNamed(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	if a.choice.wanted() {
		if err := a.gatherFleet(ctx, m, e); err != nil {
			return nil, nil, err
		}
	}
	placed, err := a.place(ctx, e, carriers)
	if err != nil {
		return nil, nil, err
	}
	if a.identity != "" && len(a.agents) == 0 && !a.choice.wanted() && len(placed) == 0 {
		return nil, nil, exit.Misused("as in: --identity fleet --agent 10.0.0.2:7300", "--identity: there is no agent to connect to")
	}
	distinct := map[string]registry.Agent{} // of those placed, by name
	for _, of := range placed {
		distinct[of.Name] = of
	}
	var fences map[string]int64 // by name
	if a.choice.wanted() {
		if carriers, fences, err = a.connectChosen(ctx, m, slices.Collect(maps.Values(distinct))); err != nil {
			return nil, nil, err
		}
	}
	if hosts, err = a.connectHosts(ctx, m, placed, fences); err != nil {
		return nil, nil, err
	}
	for _, of := range carriers {
		if _, isHost := distinct[of.Info.Name]; isHost {
			continue
		}
		of.Fence = fences[of.Info.Name]
		of.Locate = a.locate(of.Info.Name)
		load = append(load, trial.Agent{Carrier: of, Name: of.Info.Name, Address: of.Address, Descriptors: of.Info.Descriptors, Connections: of.Info.Connections})
	}
	if a.choice.wanted() {
		a.chosen, a.hosts = load, hosts
	}
	return load, hosts, nil
}

// connectNamed connects to the agents that --agent names.
func (a *app) connectNamed(ctx context.Context, m *identity.Member) ([]*fleet.Agent, error) {
	if a.choice.wanted() && len(a.agents) > 0 {
		return nil, exit.Misused("leave out one of the two", "--agent: --fleet, --agents and --exclusive choose the agents already")
	}
	for _, address := range a.agents {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, exit.Misused("as in: --agent 127.0.0.1:7300", "--agent: %q is not an address", address)
		}
	}
	connected, err := connectTo(ctx, m, a.agents...)
	if err != nil && a.recalled {
		err = exit.With(exit.Usage, err, "the run began with this agent: start it again, or name others with --agent or --fleet")
	}
	return connected, err
}

// connectChosen connects to the agents that the choice has for the load. If the run has their machines, and those of
// the placed ones, for itself, it returns the fences. The release gives all back.
func (a *app) connectChosen(ctx context.Context, m *identity.Member, placed []registry.Agent) (carriers []*fleet.Agent, fences map[string]int64, err error) {
	chosen, known, hold, err := a.choice.choose(ctx, m, placed)
	if err != nil {
		return nil, nil, err
	}
	a.atEnd(func() error {
		defer known.Close()
		if hold == nil {
			return nil
		}
		return hold.Release(ctx)
	})
	if hold != nil {
		fences = hold.Fences
	}
	var addresses []string
	for _, of := range chosen {
		addresses = append(addresses, of.Address)
	}
	carriers, err = connectTo(ctx, m, addresses...)
	return carriers, fences, err
}

// connectHosts connects to the agents on whose machines the plan places processes, by their selectors.
func (a *app) connectHosts(ctx context.Context, m *identity.Member, placed map[string]registry.Agent, fences map[string]int64) (map[string]trial.Host, error) {
	hosts := map[string]trial.Host{}
	for selector, of := range placed {
		one, err := connectTo(ctx, m, of.Address)
		if err != nil {
			return nil, err
		}
		there := one[0]
		there.Fence, there.Locate, there.Awaited = fences[of.Name], a.locate(of.Name), true
		hosts[selector] = trial.Host{Machine: there, Recoverable: there, Name: of.Name, Address: of.Address, CPUs: there.Info.CPUs}
	}
	return hosts, nil
}

// locate returns what finds an agent of the fleet by its name; nil where addresses name agents.
func (a *app) locate(name string) func(context.Context) (string, error) {
	if len(a.agents) > 0 || !a.knowsFleet() {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		r, err := a.choice.control.existing()
		if err != nil {
			return "", err
		}
		defer r.Close()
		now, err := agentNamed(ctx, r, name)
		return now.Address, err
	}
}
