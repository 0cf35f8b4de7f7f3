// Package serve has dyno's commands that start the reference services. program.go replaces dyno by
// the service where that is a program of its own.
package serve

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/hangup"
	"dyno/internal/settings"
)

// Command returns dyno serve with the commands of all services below it.
func Command() *cobra.Command {
	cmd := arguments.Group(&cobra.Command{Use: "serve", Short: "Run a reference service"})
	cmd.AddCommand(relayCommand(), echoCommand(), eventsCommand(), channelsCommand(), controlCommand(), llmCommand(), botCommand())
	return cmd
}

// A service runs until its context ends.
type service interface {
	Serve(ctx context.Context) error
}

// serviceCommand completes a command that runs the service which start makes of the settings.
func serviceCommand(cmd *cobra.Command, s *settings.Settings, start func(*cobra.Command, *settings.Settings) (service, error)) *cobra.Command {
	cmd.Args = arguments.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		hangup.Outlive(cmd.Context())
		s.Read()
		service, err := start(cmd, s)
		if err != nil {
			return err
		}
		return service.Serve(cmd.Context())
	}
	s.AddFlags(cmd.Flags())
	return cmd
}

// logger returns the logger of a service, which writes JSON lines.
func logger(stderr io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	l := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(l) // also of what libraries write by package log
	return l
}
