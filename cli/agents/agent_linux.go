package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/buildinfo"
	"dyno/internal/exit"
	"dyno/internal/hangup"
	"dyno/internal/settings"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/registry"
	"dyno/observe"
)

// AgentCommand carries parts of loads, or their target.
func (a *Access) AgentCommand() *cobra.Command {
	c := agent.Defaults()
	s := settings.New(&c)
	var control ControlPlane
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
  DYNO_JOIN_TOKEN=TOKEN dyno agent --join 10.0.0.1:7200 --identity agent --listen 10.0.0.2:7300 --allow-remote
  dyno agent --name a --label zone=1 --control-plane http://127.0.0.1:7100
  dyno agent --listen 127.0.0.1:7302 --label role=target --command /usr/sbin/nginx
  dyno http --agent 127.0.0.1:7300 --agent 127.0.0.1:7301 -R 5000 http://127.0.0.1:8080/`,
		Args: arguments.NoArgs,
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
			hangup.Refuse(cmd.Context(), c.Logger)
			server, err := agent.New(cmd.Context(), c)
			if err != nil {
				return exit.With(exit.Usage, err, "dyno fleet authority lets machines join, and prints how")
			}
			if addresses := control.Addresses(); len(addresses) > 0 {
				return serveRegistered(cmd.Context(), server, c.Logger, &control, addresses)
			}
			err = server.Serve(cmd.Context())
			if err == nil && c.IdleTimeout > 0 {
				err = context.Cause(cmd.Context()) // for a Job, an agent that is ended before it is idle has failed
			}
			return err
		},
	}
	s.AddFlags(cmd.Flags())
	control.Flags(cmd.Flags())
	return cmd
}

// joinRetry is how long an agent waits for a control plane that is away.
const joinRetry = time.Second

// serveRegistered has an agent serve, and be registered meanwhile.
func serveRegistered(ctx context.Context, server *agent.Server, log *slog.Logger, control *ControlPlane, addresses []string) error {
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	err := func() (ended error) {
		address, err := advertised(server.Addr(), addresses[0])
		if err != nil {
			return err
		}
		r, err := control.Open(registry.Fleet, addresses, log)
		if err != nil {
			return err
		}
		defer r.Close()
		trust, err := control.Open(registry.Trust, addresses, log)
		if err != nil {
			return err
		}
		defer trust.Close()
		trusted := make(chan error, 1)
		go func() {
			err := trust.FollowRevoked(ctx, log, server.SetRevoked)
			if err != nil {
				stop() // the agent itself is revoked
			}
			trusted <- err
		}()
		defer func() {
			stop()
			if revoked := <-trusted; revoked != nil {
				ended = exit.With(exit.Usage, fmt.Errorf("--identity: %w", revoked), "the fleet's manager revoked it; with an empty folder and a token, the agent can join again")
			}
		}()
		for {
			m, err := r.Join(ctx, server.Info(), address, observable(), server.SetTerms)
			switch {
			case err == nil:
				return m.Keep(ctx)
			case !registry.IsAway(err):
				return Explain(err)
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

// advertised returns the address at which others reach an agent. An agent that listens at all addresses advertises the
// one from which its machine reaches the control plane.
func advertised(listen net.Addr, control string) (string, error) {
	at, ok := listen.(*net.TCPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return listen.String(), nil
	}
	u, err := url.Parse(control)
	if err != nil {
		return "", err
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))) // sends nothing
	if err != nil {
		return "", err
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return net.JoinHostPort(host, fmt.Sprint(at.Port)), errors.Join(err, conn.Close())
}
