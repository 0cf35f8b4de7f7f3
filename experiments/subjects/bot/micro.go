package main

import (
	"github.com/spf13/cobra"

	"dyno/experiments/subjects/bot/micro"
	"dyno/experiments/subjects/measurement"
)

// microCommand returns the programs that measure single pieces.
func microCommand() *cobra.Command {
	cmd := measurement.NewCommand("micro", "Measure single pieces: layers around routes, JSON libraries, caches, quantiles, guards, ways to write rows")
	measurement.Add[micro.Middleware](cmd, "middleware", "A request's way through the layers around a route")
	measurement.Add[micro.JSON](cmd, "json", "Decoding and encoding a model's answer")
	measurement.Add[micro.Cache](cmd, "cache", "Accesses to a cache whose values come and go")
	measurement.Add[micro.Defer](cmd, "defer", "A function that ends with a call, deferred or not")
	measurement.Add[micro.Quantile](cmd, "quantile", "Response times kept for a P99: buckets, CKMS, HdrHistogram")
	measurement.Add[micro.Guard](cmd, "guard", "Goroutines that a timeout guards")
	measurement.Add[micro.Rows](cmd, "rows", "Rows of the ledger written to a database")
	return cmd
}
