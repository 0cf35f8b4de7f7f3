// Command go measures what a Go program takes of its runtime: goroutines that start, layers around a call,
// values that escape to the heap, collections of garbage. The folder dotnet next to it has the same
// loops in C#.
package main

import (
	"context"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

// newCommand returns the command line: a command for each program.
func newCommand() *cobra.Command {
	root := measurement.NewCommand("go", "Measure what a Go program takes of its runtime")
	measurement.Add[Create](root, "create", "Goroutines that are started, and run to their end")
	measurement.Add[Layers](root, "layers", "Layers of middleware around an HTTP handler")
	measurement.Add[Escape](root, "escape", "A buffer on the stack, or on the heap because a request holds it")
	measurement.Add[Collect](root, "collect", "Pauses of the garbage collector, with much that stays alive")
	return root
}

// allocated returns the bytes that the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
