// Package agents connects a load to agents. Some agents carry the load (agents.go), and some run processes that the
// plan places on their machines (place.go). Flags name the agents, choose them from a fleet (choice.go), which a
// control plane knows (control.go), or have Kubernetes run them (kubernetes.go). The commands agent and fleet are
// here too.
package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/kubernetes"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
	"dyno/lab/plan"
	"dyno/lab/trial"
)

// An Access is how a command reaches agents: those that carry its load, and those on whose machines its plan places
// processes.
type Access struct {
	stdout, stderr io.Writer
	atEnd          func(func() error) // adds what gives back what is held

	addresses []string              // of the agents that flags name
	recalled  bool                  // they are those of the command that began a run
	choice    Choice                // of agents of a fleet
	Identity  string                // the folder of the certificate for them
	cluster   kubernetes.Config     // of agents that Kubernetes runs for this command
	role      bool                  // --kubernetes-rbac
	job       *kubernetes.Job       // that runs them
	chosen    []trial.Agent         // by the choice, or of the job
	hosts     map[string]trial.Host // agents on whose machines the plan places processes; kept with chosen
}

// New returns the access of a command, whose end calls what atEnd adds.
func New(stdout, stderr io.Writer, atEnd func(func() error)) *Access {
	return &Access{stdout: stdout, stderr: stderr, atEnd: atEnd}
}

// Choose has a task's agents carry the load, as flags would. Reserved are the machines that the task waits for, or nil.
func (a *Access) Choose(identity string, of *queue.Agents, control ControlPlane, reserved *registry.Reservation) {
	a.Identity = identity
	a.choice = Choice{Agents: *of, given: true, Control: control, reservation: reserved}
}

// CarryLoad tells whether agents carry the load.
func (a *Access) CarryLoad() bool {
	return len(a.addresses) > 0 || a.choice.IsWanted() || a.cluster.Agents != 0
}

// Flags adds the flag that names agents.
func (a *Access) Flags(f *pflag.FlagSet) {
	a.IdentityFlag(f)
	f.StringArrayVar(&a.addresses, "agent", nil, "have the agent at `HOST:PORT` carry the load, and not this machine, or the target that the plan places with it (dyno agent); may be repeated: each carries its share")
	a.choice.Flags(f)
	a.kubernetesFlags(f)
}

// Recall takes the agents from the command that began a run, unless there are some now.
func (a *Access) Recall(command []string) error {
	if a.CarryLoad() {
		return nil
	}
	var began Access
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	began.Flags(f)
	if err := f.Parse(command); err != nil {
		return fmt.Errorf("the command that began the run: %w", err)
	}
	if control := a.choice.Control; len(control.servers) > 0 || control.TokenFile != "" {
		began.choice.Control = control
	}
	a.addresses, a.choice, a.Identity, a.cluster = began.addresses, began.choice, cmp.Or(a.Identity, began.Identity), began.cluster
	a.recalled = true
	return nil
}

// IdentityFlag adds the flag that names the certificate for agents.
func (a *Access) IdentityFlag(f *pflag.FlagSet) {
	f.StringVar(&a.Identity, "identity", "", "connect to agents as the coordinator whose certificate is in `FOLDER` (dyno fleet authority)")
}

// coordinator returns this dyno as a member of the fleet that --identity names; nil without the flag.
func (a *Access) coordinator() (*identity.Member, error) {
	const hint = "the folder of dyno fleet authority"
	if a.Identity == "" {
		return nil, nil
	}
	m, err := identity.Load(filepath.Join(a.Identity, identity.MemberFile))
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--identity: %w", err), hint)
	}
	if m.Peer().Role != identity.Coordinator {
		return nil, exit.Misused(hint, "--identity: %s has the certificate of an agent: only coordinators connect to agents", a.Identity)
	}
	return m, nil
}

// refuseRevoked has a coordinator refuse members that are revoked in the control plane, now and until this command ends.
func (a *Access) refuseRevoked(ctx context.Context, m *identity.Member, control *ControlPlane) error {
	if m == nil {
		return nil
	}
	r, err := control.Existing(registry.Trust)
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
		return Explain(err)
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
func (a *Access) followRevoked(ctx context.Context, r *registry.Registry, log *slog.Logger, apply func(*identity.Revocations)) {
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

// Connect asks the agents what they are that carry the load, and those on whose machines the plan places
// processes. The latter carry no load.
func (a *Access) Connect(ctx context.Context, e *plan.Experiment) (load []trial.Agent, hosts map[string]trial.Host, err error) {
	if a.chosen != nil {
		return a.chosen, a.hosts, nil // by an earlier run of this process
	}
	m, err := a.coordinator()
	if err == nil && a.cluster.Agents != 0 {
		m, err = a.startCluster(ctx)
	} else if err == nil && a.knowsFleet() {
		err = a.refuseRevoked(ctx, m, &a.choice.Control)
	}
	if err != nil {
		return nil, nil, err
	}
	carriers, err := a.connectNamed(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	if a.choice.IsWanted() {
		if err := a.gatherFleet(ctx, m, e); err != nil {
			return nil, nil, err
		}
	}
	placed, err := a.place(ctx, e, carriers)
	if err != nil {
		return nil, nil, err
	}
	if a.Identity != "" && !a.CarryLoad() && len(placed) == 0 {
		return nil, nil, exit.Misused("as in: --identity fleet --agent 10.0.0.2:7300", "--identity: there is no agent to connect to")
	}
	distinct := map[string]registry.Agent{} // of those placed, by name
	for _, of := range placed {
		distinct[of.Name] = of
	}
	var fences map[string]int64 // by name
	if a.choice.IsWanted() {
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
	if a.choice.IsWanted() || a.job != nil {
		a.chosen, a.hosts = load, hosts
	}
	return load, hosts, nil
}

// connectNamed connects to the agents that --agent names.
func (a *Access) connectNamed(ctx context.Context, m *identity.Member) ([]*fleet.Agent, error) {
	if a.choice.IsWanted() && len(a.addresses) > 0 {
		return nil, exit.Misused("leave out one of the two", "--agent: --fleet, --agents and --exclusive choose the agents already")
	}
	for _, address := range a.addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, exit.Misused("as in: --agent 127.0.0.1:7300", "--agent: %q is not an address", address)
		}
	}
	if a.job != nil {
		return connectTo(ctx, m, a.job.Addresses()...)
	}
	connected, err := connectTo(ctx, m, a.addresses...)
	if err != nil && a.recalled {
		err = exit.With(exit.Usage, err, "the run began with this agent: start it again, or name others with --agent or --fleet")
	}
	return connected, err
}

// connectChosen connects to the agents that the choice has for the load. If the run has their machines, and those of
// the placed ones, for itself, it returns the fences. The release gives all back.
func (a *Access) connectChosen(ctx context.Context, m *identity.Member, placed []registry.Agent) (carriers []*fleet.Agent, fences map[string]int64, err error) {
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
func (a *Access) connectHosts(ctx context.Context, m *identity.Member, placed map[string]registry.Agent, fences map[string]int64) (map[string]trial.Host, error) {
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

// locate returns what finds an agent of the fleet or the job by its name; nil where addresses name agents.
func (a *Access) locate(name string) func(context.Context) (string, error) {
	if a.job != nil {
		return func(ctx context.Context) (string, error) { return a.job.Locate(ctx, name) }
	}
	if len(a.addresses) > 0 || !a.knowsFleet() {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		var now registry.Agent
		err := a.choice.Control.Use(registry.Fleet, func(r *registry.Registry) (err error) {
			now, err = agentNamed(ctx, r, name)
			return err
		})
		return now.Address, err
	}
}
