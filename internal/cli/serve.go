package cli

import (
	"log/slog"

	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a reference service",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(a.serveRelayCommand(), a.serveEchoCommand(), a.serveEventsCommand(), a.serveChannelsCommand(), a.serveControlCommand(), a.serveLLMCommand(), a.serveBotCommand())
	return cmd
}

// logger returns the logger of a service: JSON lines on standard error.
func (a *app) logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	l := slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(l) // also of what libraries write by package log
	return l
}
