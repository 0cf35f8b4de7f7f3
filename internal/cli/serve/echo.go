package serve

import (
	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/services/echo"
)

func echoCommand() *cobra.Command {
	c := echo.Defaults()
	var verbose bool
	cmd := &cobra.Command{
		Use:   "echo",
		Short: "Echo over TCP and HTTP/1.1",
		Example: `  dyno serve echo --tcp 127.0.0.1:7000
  dyno serve echo --http 127.0.0.1:8080 --admin 127.0.0.1:8081`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Logger = logger(cmd.ErrOrStderr(), verbose)
			s, err := echo.New(c)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.TCP, "tcp", c.TCP, "TCP address: host:port or unix:PATH")
	f.StringVar(&c.HTTP, "http", c.HTTP, "HTTP address: host:port or unix:PATH")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit addresses that other machines can reach")
	c.AdminFlags(f)
	f.IntVar(&c.BufferBytes, "buffer", c.BufferBytes, "bytes held of a TCP connection whose client does not read")
	f.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "TCP connections served at once; further ones wait")
	f.Int64Var(&c.MaxBodyBytes, "max-body", c.MaxBodyBytes, "bytes of an HTTP body")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long open connections may continue at the end")
	f.BoolVarP(&verbose, "verbose", "v", false, "log the events of single connections")
	return cmd
}
