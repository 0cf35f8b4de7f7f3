package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/judge/verdict"
	"dyno/lab/plan"
	"dyno/report/export"
	"dyno/results/rundir"
)

func (a *app) reportCommand() *cobra.Command {
	var (
		format, out    string
		rejudge, pairs bool
		o              = formOptions{kept: true, forms: a.forms}
	)
	cmd := &cobra.Command{
		Use:   "report RUN…",
		Short: "Print the results of a run folder; as Markdown, of several",
		Example: `  dyno report runs/relay-models-20260101-120000
  dyno report --full runs/relay-models-20260101-120000
  dyno report --pairs runs/languages-20260101-120000
  dyno report --format html -o relay.html runs/relay-models-20260101-120000
  dyno report --format markdown --full runs/r1-models runs/r1-mechanisms
  dyno report --format bench runs/relay-models-20260101-120000 | benchstat /dev/stdin
  dyno report --format hgrm --variant epoll-100 --tag service runs/relay-models-20260101-120000
  dyno report --format k6 -o summary.json runs/http-20260101-120000`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Misused("as in: "+cmd.UseLine(), "dyno report: want a run folder")
			}
			write, err := o.writer(format)
			if err != nil {
				return err
			}
			if format != markdown && len(args) > 1 {
				return exit.Misused("one at a time, or --format markdown", "--format %s takes one run, and there are %d", format, len(args))
			}
			var folders []*rundir.Folder
			for _, dir := range args {
				folder, err := verdict.Open(dir)
				if err != nil {
					return exit.With(exit.Usage, err, "a run folder holds a run.json; dyno run creates one")
				}
				if pairs && !folder.Run.Plan.Pairs {
					if err := judgePairs(folder); err != nil {
						return fmt.Errorf("%s: --pairs: %w", dir, err)
					}
				}
				if rejudge {
					if err := errors.Join(verdict.Judge(folder), folder.Rewrite()); err != nil {
						return fmt.Errorf("%s: %w", dir, err)
					}
				}
				folders = append(folders, folder)
			}
			all := func(w io.Writer) error { return write(w, folders...) }
			if out == "" || out == "-" {
				return all(a.stdout)
			}
			return output.Replace(out, all)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "text", "text, html (one file that can be mailed), markdown, json, junit, csv (a row for each variant and metric), csv-trials (a row for each trial), bench (Go benchmark format, for benchstat), hgrm (percentile spectrum, as HdrHistogram's plotter reads it), or a load of HTTP as another tool sums it up: "+strings.Join(export.LoadTools(), ", "))
	f.StringVarP(&out, "out", "o", "", "write to this `FILE`, not to standard output")
	f.StringVar(&o.variant, "variant", "", "hgrm, and forms of other tools: of this variant (default the only one)")
	f.StringVar(&o.tag, "tag", rundir.TagResponse, "hgrm: one of "+strings.Join(rundir.Tags(), ", "))
	f.BoolVar(&o.full, "full", false, "text, markdown: the whole report, not only its summary")
	f.BoolVar(&pairs, "pairs", false, "compare all variants with each other, as design.pairs does; the folder stays as it is, but with --judge")
	f.BoolVar(&rejudge, "judge", false, "judge the run again by this version's rules, and keep that verdict in the folder")
	return cmd
}

// judgePairs judges a run as if its plan had asked for all pairs of variants.
func judgePairs(folder *rundir.Folder) error {
	recorded := &folder.Run.Plan
	n := 0
	for _, v := range recorded.Variants {
		if v.AliasOf == "" {
			n++
		}
	}
	switch {
	case recorded.Base == "" || recorded.Ladder != nil:
		return exit.Misused("a run of an experiment with a section compare", "the run has no variants that were compared with one base")
	case recorded.Duet != nil:
		return exit.Misused("a run without design.duet", "each variant of a duet ran at the same time as the base, and no two others did")
	case n > plan.MostInPairs:
		return exit.Misused(fmt.Sprintf("a run of at most %d variants", plan.MostInPairs), "%d variants are %d pairs", n, n*(n-1)/2)
	}
	recorded.Pairs = true
	return verdict.Judge(folder)
}
