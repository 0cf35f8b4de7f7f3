// Command serialization measures policies in gob, Protocol Buffers and FlatBuffers as who receives them does: by how
// long reading and writing take, what a message that is kept takes of memory, and times at a rate.
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
	root := measurement.NewCommand("serialization", "Measure policies in gob, Protocol Buffers and FlatBuffers")
	measurement.Add[Message](root, "message", "Reading, writing and keeping a message")
	measurement.Add[Rate](root, "rate", "Messages that arrive at a rate")
	return root
}
