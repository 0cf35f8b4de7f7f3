package serve

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/services/channels"
)

func channelsCommand() *cobra.Command {
	var (
		c       channels.ServeConfig
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "channels FILE",
		Short: "Carry records from sources to sinks, in order and without loss",
		Long: `Channels carries records from TCP listeners, growing files and standard input
to TCP peers, files and standard output, as configured in a YAML file. Each channel has
one source, one sink and a bounded buffer between them, and accounts for every
record: received = delivered + dropped + pending.`,
		Example: "  dyno serve channels channels.yaml --admin 127.0.0.1:9090\n\nA file of channels:\n\n" +
			"  " + strings.ReplaceAll(strings.TrimSpace(channels.Example), "\n", "\n  ") + "\n\n" +
			"docs/channels.md lists all fields.",
		Args: command.ExactArgs(1, "a file of channels"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := args[0]
			src, err := os.ReadFile(file)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			if c.Channels, err = channels.ParseConfig(file, src); err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			if err := c.CheckAdmin(c.Channels.AllowRemote); err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			stdin, ok := cmd.InOrStdin().(*os.File)
			if !ok {
				return errors.New("standard input is not a file")
			}
			c.Logger, c.Stdin, c.Stdout = logger(cmd.ErrOrStderr(), verbose), stdin, cmd.OutOrStdout()
			return channels.Serve(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	c.AdminFlags(f)
	f.BoolVarP(&verbose, "verbose", "v", false, "log the events of single connections")
	return cmd
}
