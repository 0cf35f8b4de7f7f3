// Command events-variants is dyno serve events with the steps of report R4 towards the hub's own way of sending
// events. A ladder shows what each step contributes.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/hangup"
	"dyno/internal/settings"
	"dyno/services/events"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

func newCommand() *cobra.Command {
	c := events.Defaults()
	s := settings.New(&c)
	v := hubs
	cmd := &cobra.Command{
		Use:   "events-variants",
		Short: "Publish and subscribe to server-sent events, sent in ways that a ladder compares",
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangup.Outlive(cmd.Context())
			s.Read()
			if v != hubs {
				c.Send = (&writer{variant: v}).send
			}
			if c.Hijack && !v.single {
				return exit.Misused("--hijack=false", "--hijack: line by line, every line would be a packet of its own")
			}
			c.Complete(s.Given)
			if err := s.Validate(c.Check); err != nil {
				return exit.Misused("", "%w", err)
			}
			c.Logger = command.Logger(cmd.ErrOrStderr(), s.Verbose)
			server, err := events.New(c)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			return server.Serve(cmd.Context())
		},
	}
	s.AddFlags(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&v.pooled, "pooled-buffers", v.pooled, "encode into buffers that are reused")
	f.BoolVar(&v.once, "encode-once", v.once, "encode an event once for all subscribers")
	f.BoolVar(&v.single, "single-write", v.single, "write an event with one call instead of line by line")
	return cmd
}
