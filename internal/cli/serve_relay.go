package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"dyno/internal/units"
	"dyno/services/relay"
	"dyno/services/relay/channels"
)

func (a *app) serveRelayCommand() *cobra.Command {
	c := relay.Defaults()
	var (
		verbose bool
		cpus    string
		network networkFlags
		file    string
	)
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Forward TCP connections, by a chosen concurrency model",
		Example: `  dyno serve relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --model epoll
  dyno serve relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --network delay=20ms,jitter=5ms
  dyno serve relay --channels channels.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Logger = a.logger(verbose)
			if file != "" {
				if c.Listen != "" || c.To != "" {
					return usage("the file says where channels listen", "--channels excludes --listen and --to")
				}
				return a.serveChannels(cmd.Context(), file, &c)
			}
			if cpus != "" {
				var err error
				if c.CPUs, err = units.ParseCPUs(cpus); err != nil {
					return &failure{exitUsage, fmt.Errorf("--cpus: %w", err), ""}
				}
			}
			if network.given(cmd.Flags()) {
				profile, err := network.profile()
				if err != nil {
					return &failure{exitUsage, err, ""}
				}
				c.Conditions = profile
			}
			s, err := relay.New(c)
			if err != nil {
				return &failure{exitUsage, err, ""}
			}
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", c.Listen, "where clients connect: host:port or unix:PATH")
	f.StringVar(&c.To, "to", c.To, "the upstream: host:port or unix:PATH")
	f.StringVar((*string)(&c.Model), "model", string(c.Model), "goroutine, pool, epoll or pinned")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit listening where other machines reach it")
	f.StringVar(&c.Admin, "admin", c.Admin, "address of /metrics, /healthz, /readyz and /debug/pprof")
	f.IntVar(&c.Workers, "workers", c.Workers, "pool: how many goroutines forward")
	f.IntVar(&c.Queue, "queue", c.Queue, "pool: how many ready connections may wait for a worker")
	f.IntVar(&c.Loops, "loops", c.Loops, "epoll: how many loops (default one per CPU)")
	f.StringVar(&cpus, "cpus", "", "pinned: a loop on each of these CPUs (default all it may use)")
	f.IntVar(&c.BufferBytes, "buffer", c.BufferBytes, "bytes held per direction of a connection before the fast side is not read any more")
	f.IntVar(&c.ReadBudgetBytes, "read-budget", c.ReadBudgetBytes, "bytes forwarded of one connection before the next has its turn")
	f.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "clients served at once")
	f.StringVar((*string)(&c.Full), "when-full", string(c.Full), "beyond that, connections: wait, or reject")
	f.DurationVar(&c.ConnectTimeout, "connect-timeout", c.ConnectTimeout, "of connecting to the upstream")
	f.DurationVar(&c.IdleTimeout, "idle-timeout", c.IdleTimeout, "ends a connection on which nothing moves; 0 is never")
	f.DurationVar(&c.HeaderTimeout, "header-timeout", c.HeaderTimeout, "of the client's PROXY protocol header")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long open connections may go on at the end")
	f.StringVar((*string)(&c.ProxyIn), "proxy-in", string(c.ProxyIn), "PROXY protocol header from clients: off or require")
	f.StringVar((*string)(&c.ProxyOut), "proxy-out", string(c.ProxyOut), "PROXY protocol header to the upstream: off, v1 or v2")
	f.BoolVarP(&verbose, "verbose", "v", false, "log what happens to single connections")
	f.StringVar(&file, "channels", "", "multi-channel processing instead: carry records from sources to sinks as this `FILE` says")
	network.flags(f)
	return cmd
}

// serveChannels carries records between the sources and sinks of a file.
func (a *app) serveChannels(ctx context.Context, file string, c *relay.Config) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return &failure{exitUsage, err, ""}
	}
	config, err := channels.ParseConfig(file, src)
	if err != nil {
		return &failure{exitUsage, err, ""}
	}
	stdin, ok := a.stdin.(*os.File)
	if !ok {
		return errors.New("standard input is not a file")
	}
	return relay.ServeChannels(ctx, relay.ChannelsConfig{
		Channels: config, Admin: c.Admin, Logger: c.Logger, Stdin: stdin, Stdout: a.stdout,
	})
}
