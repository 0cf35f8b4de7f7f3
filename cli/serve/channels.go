package serve

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dyno/internal/fields"
	"dyno/internal/settings"
	"dyno/internal/terminal"
	"dyno/services/channels"
)

func channelsCommand() *cobra.Command {
	c := fields.Default[channels.Config]()
	return serviceCommand(&cobra.Command{
		Use:   "channels",
		Short: "Carry records from sources to sinks, in order and without loss",
		Long: `Channels carries records from TCP listeners, growing files and standard input
to TCP peers, files and standard output, as configured in a YAML file. Each channel has
one source, one sink and a bounded buffer between them, and accounts for every
record: received = delivered + dropped + pending.`,
		Example: "  dyno serve channels --config channels.yaml --admin 127.0.0.1:9090\n\nA file of channels:\n\n" +
			"  " + strings.ReplaceAll(strings.TrimSpace(channels.Example), "\n", "\n  "),
	}, settings.New(&c), func(cmd *cobra.Command, s *settings.Settings) (service, error) {
		if err := s.Validate(c.Check); err != nil {
			return nil, err
		}
		stdin, ok := cmd.InOrStdin().(*os.File)
		if !ok {
			return nil, errors.New("standard input is not a file")
		}
		return carrier{channels.ServeConfig{Channels: c, Logger: logger(cmd.ErrOrStderr(), s.Verbose), Stdin: stdin, Stdout: terminal.Data(cmd.OutOrStdout())}}, nil
	})
}

// A carrier runs channels.
type carrier struct{ channels.ServeConfig }

// Serve implements service.
func (c carrier) Serve(ctx context.Context) error { return channels.Serve(ctx, c.ServeConfig) }
