// Command collections measures garbage collectors: what a program's log says of its collections, and what pools of
// goroutines change.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

// newCommand returns the command line: a command for each program.
func newCommand() *cobra.Command {
	root := measurement.NewCommand("collections", "Measure garbage collectors: what a log says of collections, and goroutines with and without a pool")
	measurement.Add[Log](root, "log", "The collections in the log of a Go program or a JVM")
	measurement.Add[Tasks](root, "tasks", "Many tasks at once, each by a goroutine of its own or by a pool")
	return root
}
