package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/cli/command"
	"dyno/internal/settings"
	"dyno/lab/fleet"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/identity"
	"dyno/lab/trial"
)

func (a *app) agentCommand() *cobra.Command {
	c := agent.Defaults()
	s := settings.New(&c)
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Carry parts of loads for dyno on another machine",
		Long: `Carry parts of loads for dyno on another machine.

dyno http --agent HOST:PORT, and other loads, have the agents send all requests, and coordinate
them. Files that a load reads, such as certificates and rows of data, must be on the agents'
machines, below the folder of --files, and plans name them as they are called there. All have
the same version of dyno.

Coordinators cannot go beyond what the agent allows: --network, --files, --user, --max-parts,
--max-connections and --max-time.

An agent that other machines reach belongs to a fleet: it joins with the token that
dyno fleet authority prints, and answers coordinators of its fleet only.`,
		Example: `  dyno agent --listen 127.0.0.1:7300 --name a --label zone=1
  dyno agent --join TOKEN@10.0.0.1:7200 --identity agent --listen 10.0.0.2:7300 --allow-remote
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
			c.Version, c.Logger = version(), slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
			server, err := agent.New(cmd.Context(), c)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "dyno fleet authority lets machines join, and prints how")
			}
			return server.Serve(cmd.Context())
		},
	}
	s.AddFlags(cmd.Flags())
	return cmd
}

// agentFlag adds the flag that names agents.
func (a *app) agentFlag(f *pflag.FlagSet) {
	f.StringVar(&a.identity, "identity", "", "connect to agents as the coordinator whose certificate is in `FOLDER` (dyno fleet authority)")
	f.StringArrayVar(&a.agents, "agent", nil, "have the agent at `HOST:PORT` carry the load, and not this machine (dyno agent); may be repeated: each carries its share")
}

// coordinator returns this dyno as a member of the fleet that --identity names; nil without the flag.
func (a *app) coordinator() (*identity.Member, error) {
	const hint = "the folder of dyno fleet authority"
	if a.identity == "" {
		return nil, nil
	}
	if len(a.agents) == 0 {
		return nil, command.Usage("as in: --identity fleet --agent 10.0.0.2:7300", "--identity: there is no agent to connect to")
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

// connectAgents asks the agents that the flags name what they are.
func (a *app) connectAgents(ctx context.Context) ([]trial.Agent, error) {
	for _, address := range a.agents {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, command.Usage("as in: --agent 127.0.0.1:7300", "--agent: %q is not an address", address)
		}
	}
	m, err := a.coordinator()
	if err != nil {
		return nil, err
	}
	connected, err := fleet.Connect(ctx, version(), m, a.agents...)
	if err != nil {
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--agent: %w", err), "dyno agent starts one")
	}
	var all []trial.Agent
	for _, of := range connected {
		all = append(all, trial.Agent{Carrier: of, Name: of.Info.Name, Address: of.Address, Descriptors: of.Info.Descriptors})
	}
	return all, nil
}
