package serve

import (
	"fmt"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/internal/units"
	"dyno/services/relay"
)

func relayCommand() *cobra.Command {
	c := relay.Defaults()
	var (
		verbose bool
		cpus    string
		network networkFlags
	)
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Forward TCP connections, by a chosen concurrency model",
		Long: `Forward TCP connections, by a chosen concurrency model.

A name in --to is looked up at the start, every 30 s, and when none of its addresses accepts a
connection. The addresses are tried in turn, IPv4 first, each for its share of --connect-timeout.
Connections begin with the address that accepted last.`,
		Example: `  dyno serve relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --model epoll
  dyno serve relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --network delay=20ms,jitter=5ms`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Logger = logger(cmd.ErrOrStderr(), verbose)
			if cpus != "" {
				var err error
				if c.CPUs, err = units.ParseCPUs(cpus); err != nil {
					return command.Fail(command.ExitUsage, fmt.Errorf("--cpus: %w", err), "")
				}
			}
			if network.given(cmd.Flags()) {
				profile, err := network.profile()
				if err != nil {
					return command.Fail(command.ExitUsage, err, "")
				}
				c.Conditions = profile
			}
			s, err := relay.New(c)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", c.Listen, "where clients connect: host:port or unix:PATH")
	f.StringVar(&c.To, "to", c.To, "the upstream: host:port or unix:PATH; a name is looked up again when connecting fails")
	f.StringVar((*string)(&c.Model), "model", string(c.Model), "goroutine, pool, epoll or pinned")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit listening where other machines can reach it")
	c.AdminFlags(f)
	f.IntVar(&c.Workers, "workers", c.Workers, "pool: how many goroutines forward")
	f.IntVar(&c.Queue, "queue", c.Queue, "pool: how many ready connections may wait for a worker")
	f.IntVar(&c.Loops, "loops", c.Loops, "epoll: how many loops (default one per CPU)")
	f.StringVar(&cpus, "cpus", "", "pinned: a loop on each of these CPUs (default all it may use)")
	f.IntVar(&c.BufferBytes, "buffer", c.BufferBytes, "bytes held per direction of a connection before reading the fast side stops")
	f.IntVar(&c.ReadBudgetBytes, "read-budget", c.ReadBudgetBytes, "bytes forwarded for one connection before the next one's turn")
	f.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "clients served at once")
	f.StringVar((*string)(&c.Full), "when-full", string(c.Full), "beyond that, connections: wait, or reject")
	f.DurationVar(&c.ConnectTimeout, "connect-timeout", c.ConnectTimeout, "of connecting to the upstream, at all of its addresses")
	f.DurationVar(&c.IdleTimeout, "idle-timeout", c.IdleTimeout, "ends a connection that has been idle for so long; 0 is never")
	f.DurationVar(&c.HeaderTimeout, "header-timeout", c.HeaderTimeout, "of the client's PROXY protocol header")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long open connections may continue at the end")
	f.StringVar((*string)(&c.ProxyIn), "proxy-in", string(c.ProxyIn), "PROXY protocol header from clients: off or require")
	f.StringVar((*string)(&c.ProxyOut), "proxy-out", string(c.ProxyOut), "PROXY protocol header to the upstream: off, v1 or v2")
	f.BoolVarP(&verbose, "verbose", "v", false, "log the events of single connections")
	network.flags(f)
	return cmd
}
