// Command replicas starts a control plane and clients of it, and measures what rollbacks and the loss of a replica
// do to the clients.
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
	root := &cobra.Command{
		Use:               "replicas",
		Short:             "Measure rollbacks of gray releases, and the loss of a replica",
		Long:              measurement.Long,
		Args:              command.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	measurement.Add[Rollback](root, "rollback", "How long a gray release takes to be withdrawn, from all clients that had it")
	measurement.Add[Failover](root, "failover", "Which clients go on at another replica when theirs is killed, and how soon")
	return root
}
