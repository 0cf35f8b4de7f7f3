// Package serve has dyno's commands that start the reference services. program.go replaces dyno by
// the service where that is a program of its own.
package serve

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
)

// Command returns dyno serve with the commands of all services below it.
func Command() *cobra.Command {
	cmd := command.Group(&cobra.Command{Use: "serve", Short: "Run a reference service"})
	cmd.AddCommand(relayCommand(), echoCommand(), eventsCommand(), channelsCommand(), controlCommand(), llmCommand(), botCommand())
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
