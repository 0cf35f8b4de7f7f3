package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := command.Group(&cobra.Command{Use: "serve", Short: "Run a reference service"})
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
