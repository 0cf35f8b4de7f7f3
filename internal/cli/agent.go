package cli

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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/buildinfo"
	"dyno/internal/cli/command"
	"dyno/internal/settings"
	"dyno/lab/fleet"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
	"dyno/lab/plan"
	"dyno/lab/trial"
	"dyno/observe"
)

func (a *app) agentCommand() *cobra.Command {
	c := agent.Defaults()
	s := settings.New(&c)
	var control controlPlane
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Carry parts of loads for dyno on another machine, or their target",
		Long: `Carry parts of loads for dyno on another machine, or start and observe their target there.

dyno http --agent HOST:PORT, and other loads, have the agents send all requests, and coordinate
them. Files that a load reads, such as certificates and rows of data, must be on the agents'
machines, below the folder of --files, and plans name them as they are called there. All have
the same version of dyno.

A trial whose agent is lost is void: the agent ended, or was silent for 15 s. The trial is measured again,
with the others of its round, by the agents that are there. A target waits 15 s for its agent.

A plan may also place its target and its services on an agent's machine, by labels: target.agent
and services.NAME.agent. The agent starts them there, or observes what runs there already, and dyno records
the same figures as of its own machine. An agent starts no program that --command does not name,
and observes no other process without --observe.

Coordinators cannot go beyond what the agent allows: --network, --files, --user, --max-parts,
--max-connections, --max-time, --command and --observe.

An agent that other machines reach belongs to a fleet: it joins with the token that
dyno fleet authority prints, and answers coordinators of its fleet only.

With --control-plane, the agent registers: dyno fleet list shows it, and loads choose it by its
labels. If no control plane answers, the agent tries again every second.`,
		Example: `  dyno agent --listen 127.0.0.1:7300 --name a --label zone=1
  dyno agent --join TOKEN@10.0.0.1:7200 --identity agent --listen 10.0.0.2:7300 --allow-remote
  dyno agent --name a --label zone=1 --control-plane http://127.0.0.1:7100
  dyno agent --listen 127.0.0.1:7302 --label role=target --command /usr/sbin/nginx
  dyno http --agent 127.0.0.1:7300 --agent 127.0.0.1:7301 -R 5000 http://127.0.0.1:8080/`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Read()
			if err := s.Validate(c.Check); err != nil {
				return err
			}
			level := slog.LevelInfo
			if s.Verbose {
				level = slog.LevelDebug
			}
			c.Lines = &agent.Lines{}
			c.Version, c.Logger = buildinfo.Version(), slog.New(slog.NewJSONHandler(io.MultiWriter(a.stderr, c.Lines), &slog.HandlerOptions{Level: level}))
			server, err := agent.New(cmd.Context(), c)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "dyno fleet authority lets machines join, and prints how")
			}
			if addresses := control.addresses(); len(addresses) > 0 {
				return serveRegistered(cmd.Context(), server, c.Logger, &control, addresses)
			}
			return server.Serve(cmd.Context())
		},
	}
	s.AddFlags(cmd.Flags())
	control.flags(cmd.Flags())
	return cmd
}

// joinRetry is how long an agent waits for a control plane that is away.
const joinRetry = time.Second

// serveRegistered has an agent serve, and be registered meanwhile.
func serveRegistered(ctx context.Context, server *agent.Server, log *slog.Logger, control *controlPlane, addresses []string) error {
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	err := func() error {
		address, err := advertised(server.Addr(), addresses[0])
		if err != nil {
			return err
		}
		r, err := control.open(addresses, log)
		if err != nil {
			return err
		}
		defer r.Close()
		for {
			m, err := r.Join(ctx, server.Info(), address, observable(), server.SetTerms)
			switch {
			case err == nil:
				return m.Keep(ctx)
			case !registry.IsAway(err):
				return explainControl(err)
			}
			log.Warn("the control plane does not answer", "error", err, "again_after", joinRetry)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(joinRetry):
			}
		}
	}()
	stop()
	return errors.Join(err, <-served)
}

// observable returns the names of what can be observed on this machine.
func observable() string {
	var names []string
	for _, f := range observe.Look().Facilities {
		if f.Available {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ",")
}

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
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--identity: %w", err), hint)
	}
	if m.Peer().Role != identity.Coordinator {
		return nil, command.Usage(hint, "--identity: %s has the certificate of an agent: only coordinators connect to agents", a.identity)
	}
	return m, nil
}

// connectAgents asks the agents what they are that carry the load, and those on whose machines the plan places
// processes. The latter carry no load.
func (a *app) connectAgents(ctx context.Context, e *plan.Experiment) (load []trial.Agent, hosts map[string]trial.Host, err error) {
	if a.chosen != nil {
		return a.chosen, a.hosts, nil // by an earlier run of this process
	}
	m, err := a.coordinator()
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
		return nil, nil, command.Usage("as in: --identity fleet --agent 10.0.0.2:7300", "--identity: there is no agent to connect to")
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
		load = append(load, trial.Agent{Carrier: of, Name: of.Info.Name, Address: of.Address, Descriptors: of.Info.Descriptors})
	}
	if a.choice.wanted() {
		a.chosen, a.hosts = load, hosts
	}
	return load, hosts, nil
}

// connectNamed connects to the agents that --agent names.
func (a *app) connectNamed(ctx context.Context, m *identity.Member) ([]*fleet.Agent, error) {
	if a.choice.wanted() && len(a.agents) > 0 {
		return nil, command.Usage("leave out one of the two", "--agent: --fleet, --agents and --exclusive choose the agents already")
	}
	for _, address := range a.agents {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, command.Usage("as in: --agent 127.0.0.1:7300", "--agent: %q is not an address", address)
		}
	}
	connected, err := connectTo(ctx, m, a.agents...)
	if err != nil && a.recalled {
		err = command.Fail(command.ExitUsage, err, "the run began with this agent: start it again, or name others with --agent or --fleet")
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
