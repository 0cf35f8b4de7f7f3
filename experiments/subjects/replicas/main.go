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
	root := measurement.NewCommand("replicas", "Measure rollbacks of gray releases, and the loss of a replica")
	measurement.Add[Rollback](root, "rollback", "How long a gray release takes to be withdrawn, from all clients that had it")
	measurement.Add[Failover](root, "failover", "Which clients go on at another replica when theirs is killed, and how soon")
	return root
}
