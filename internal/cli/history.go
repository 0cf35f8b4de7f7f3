package cli

import (
	"io"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/internal/cli/output"
	"dyno/report/changes"
	"dyno/results/history"
)

func (a *app) historyCommand() *cobra.Command {
	var (
		asJSON string
		query  history.Query
	)
	cmd := &cobra.Command{
		Use:   "history [DIR]",
		Short: "Show runs over time, and where their figures changed",
		Example: `  dyno history
  dyno history --name relay --metric response.p99 --variant pool runs/nightly`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usage("as in: "+cmd.UseLine(), "%s: want one folder at most, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "runs"
			if len(args) == 1 {
				dir = args[0]
			}
			runs, err := history.Read(dir)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "name the folder that holds the run folders")
			}
			h, err := history.Trace(runs, query)
			if err != nil {
				return command.Fail(command.ExitUsage, err, "dyno history without flags shows what there is")
			}
			return output.Write(a.stdout, asJSON, h, func(w io.Writer) error { return changes.History(w, h) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&asJSON, "json", "", "write the history as JSON to `FILE`, or - for standard output")
	f.StringVar(&query.Name, "name", "", "only of the experiment `NAME`")
	f.StringVar(&query.Metric, "metric", "", "this `METRIC`, such as throughput or response.p99 (default the experiment's own)")
	f.StringVar(&query.Variant, "variant", "", "only this `VARIANT`")
	return cmd
}
