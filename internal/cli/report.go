package cli

import (
	"github.com/spf13/cobra"

	"dyno/report"
	"dyno/rundir"
)

func (a *app) reportCommand() *cobra.Command {
	var format, variant, tag string
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Print the results of a run folder",
		Example: `  dyno report runs/relay-models-20260101-120000
  dyno report --format hgrm --variant epoll-100 --tag service runs/relay-models-20260101-120000`,
		Args: exactArgs(1, "a run folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := rundir.Open(args[0])
			if err != nil {
				return &failure{exitUsage, err, "a run folder holds a run.json; dyno run creates one"}
			}
			switch format {
			case "text":
				return report.Text(a.stdout, folder)
			case "json":
				return report.JSON(a.stdout, &folder.Run)
			case "hgrm":
				if err := report.Hgrm(a.stdout, folder, variant, tag); err != nil {
					return &failure{exitUsage, err, ""}
				}
				return nil
			}
			return usage("text, json or hgrm", "--format %q is not possible", format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "text", "text, json or hgrm (percentile spectrum, as HdrHistogram's plotter reads it)")
	f.StringVar(&variant, "variant", "", "hgrm: of this variant (default the only one)")
	f.StringVar(&tag, "tag", "response", "hgrm: response, service, send_lag, generator_lag, first_byte, failed or connect")
	return cmd
}
