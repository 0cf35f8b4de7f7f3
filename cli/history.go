package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/judge/history"
	"dyno/report/changes"
	"dyno/report/html"
	"dyno/results/archive"
	"dyno/results/rundir"
)

func (a *app) historyCommand() *cobra.Command {
	var (
		asJSON, page, from, to string
		query                  history.Query
	)
	cmd := &cobra.Command{
		Use:   "history [DIR…]",
		Short: "Show runs over time, find them, and keep tags, notes and a baseline",
		Long: `history shows the runs below folders over time, and where their figures changed. Each DIR is a
folder of runs or a run folder (default runs). Where a baseline is pinned, each figure is compared with it.

Tags, notes and the baseline are kept in annotations.json in the run folder.`,
		Example: `  dyno history
  dyno history --name relay --metric response.p99 --variant pool runs/nightly
  dyno history --where 'response.p99 > 20ms' --tag release --from 2026-01-01
  dyno history --metric throughput --metric service.p99 --html trend.html runs/a runs/b runs/c
  dyno history tag runs/a release`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, dirs []string) (err error) {
			for _, day := range []struct {
				flag, text string
				end        bool
				into       *time.Time
			}{{"--from", from, false, &query.From}, {"--to", to, true, &query.To}} {
				if day.text == "" {
					continue
				}
				if *day.into, err = history.Instant(day.text, day.end); err != nil {
					return exit.Misused("as in: "+day.flag+" 2026-01-31 or "+day.flag+" 2026-01-31T03:00:00Z", "%s %q: want a day or a time", day.flag, day.text)
				}
			}
			if len(dirs) == 0 {
				dirs = []string{"runs"}
			}
			runs, err := history.Read(dirs...)
			if err != nil {
				return exit.With(exit.Usage, err, "name a folder that holds run folders, or a run folder")
			}
			h, err := history.Trace(runs, query)
			if err != nil {
				return exit.With(exit.Usage, err, "dyno history without flags shows what there is")
			}
			if page != "" {
				return output.Replace(page, func(w io.Writer) error { return html.WriteHistory(w, h) })
			}
			return output.Write(a.stdout, asJSON, h, func(w io.Writer) error { return changes.History(w, h) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&asJSON, "json", "", "write the history as JSON to `FILE`, or - for standard output")
	f.StringVar(&page, "html", "", "write the history to `FILE` as one page that needs no other file")
	f.StringVar(&query.Name, "name", "", "only of the experiment `NAME`")
	f.StringArrayVar(&query.Metrics, "metric", nil, "this `METRIC`, such as throughput or response.p99 (default the experiment's own); may be repeated")
	f.StringVar(&query.Variant, "variant", "", "only this `VARIANT`")
	f.StringArrayVar(&query.Tags, "tag", nil, "only runs with this `TAG`; may be repeated")
	f.StringVar(&query.Where, "where", "", "only runs of which `CONDITION` is true, in the language of thresholds, such as 'response.p99 > 20ms'")
	f.StringVar(&from, "from", "", "only runs from this `DAY` or time on")
	f.StringVar(&to, "to", "", "only runs until the end of this `DAY`, or before a time")
	cmd.AddCommand(annotateCommands()...)
	return cmd
}

// annotateCommands change what is kept about a run.
func annotateCommands() []*cobra.Command {
	var remove bool
	tag := &cobra.Command{
		Use: "tag RUN TAG…", Short: "Add tags to a run", Example: "  dyno history tag runs/relay-20260101-030000 release v1.2",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exit.Misused("as in: "+cmd.UseLine(), "%s: want a run folder and tags", cmd.CommandPath())
			}
			return nil
		},
		RunE: annotate(func(about *archive.Annotations, tags []string) {
			if remove {
				about.Tags = slices.DeleteFunc(about.Tags, func(tag string) bool { return slices.Contains(tags, tag) })
				return
			}
			about.Tags = append(about.Tags, tags...)
		}),
	}
	tag.Flags().BoolVar(&remove, "remove", false, "remove the tags instead")
	return []*cobra.Command{
		tag,
		{
			Use: "note RUN TEXT", Short: "Set the note of a run; an empty one removes it", Example: "  dyno history note runs/relay-20260101-030000 'after the new kernel'",
			Args: arguments.ExactArgs(2, "a run folder and a note"),
			RunE: annotate(func(about *archive.Annotations, note []string) { about.Note = note[0] }),
		},
		{
			Use: "pin RUN", Short: "Make a run the baseline of its experiment", Example: "  dyno history pin runs/relay-20260101-030000",
			Long: "Make a run the baseline of its experiment. dyno history, dyno diff NEW and dyno ui compare with it.\nThe run that was pinned last counts.",
			Args: arguments.ExactArgs(1, "a run folder"),
			RunE: annotate(func(about *archive.Annotations, _ []string) { about.PinnedAt = time.Now().UTC() }),
		},
		{
			Use: "unpin RUN", Short: "Let a run be the baseline no longer", Example: "  dyno history unpin runs/relay-20260101-030000",
			Args: arguments.ExactArgs(1, "a run folder"),
			RunE: annotate(func(about *archive.Annotations, _ []string) { about.PinnedAt = time.Time{} }),
		},
	}
}

// annotate changes what is kept about the run that the first argument names.
func annotate(change func(about *archive.Annotations, args []string)) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		err := archive.Annotate(args[0], func(about *archive.Annotations) { change(about, args[1:]) })
		if err != nil {
			return exit.With(exit.Usage, err, "a run folder holds a run.json; dyno run creates one")
		}
		return nil
	}
}

// baselineOf returns the folder of the baseline that is pinned among the runs next to a run.
func baselineOf(dir string, run *rundir.Run) (string, error) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	folder := filepath.Dir(dir)
	runs, err := history.Read(folder)
	if err != nil {
		return "", exit.With(exit.Usage, err, "name both runs: dyno diff OLD NEW")
	}
	if base := history.Baseline(runs, run.Name); base != nil && base.Dir != dir {
		return base.Dir, nil
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, folder); err == nil {
			folder = rel
		}
	}
	return "", exit.Misused("dyno history pin RUN pins one; or name both runs: dyno diff OLD NEW", "%s: no other run of %s is pinned as the baseline", folder, run.Name)
}
