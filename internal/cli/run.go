package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/experiment"
	"dyno/report"
	"dyno/rundir"
	"dyno/trial"
	"dyno/verdict"
)

// An output says where results go. Run and the quick loads share it.
type output struct {
	dir     string
	json    string
	quiet   bool
	noColor bool
}

func (o *output) flags(f *pflag.FlagSet, dir string) {
	f.StringVarP(&o.dir, "out", "o", "", "the run folder to create (default "+dir+")")
	f.StringVar(&o.json, "json", "", "write the results as JSON to `FILE`, or - for standard output")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&o.noColor, "no-color", false, "no colour (there is none in this version)")
}

func (a *app) runCommand() *cobra.Command {
	var (
		out   output
		o     experiment.Options
		quick quickLoad
	)
	cmd := &cobra.Command{
		Use:   "run FILE…",
		Short: "Run experiments; a URL instead of a file is a quick load",
		Example: `  dyno run experiments/reports/R1-concurrency-models.yaml
  dyno run --short --set seed=7 relay.yaml
  dyno run http://127.0.0.1:8080/`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("as in: dyno run experiment.yaml", "dyno run: want at least one file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && out.dir != "" {
				return usage("run them one by one, or leave --out away", "--out names one run folder, and there are %d experiments", len(args))
			}
			if len(args) > 1 && out.json != "" && out.json != "-" {
				return usage("run them one by one, or use --json -", "--json names one file, and there are %d experiments", len(args))
			}
			o.CheckThreshold, o.CheckClaim = verdict.CheckThreshold, verdict.CheckClaim
			// All files are read before the first is run: a fault in the last one
			// should not cost the time of the others.
			var experiments []*experiment.Experiment
			var faults []error
			for _, arg := range args {
				var (
					e   *experiment.Experiment
					err error
				)
				if strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") {
					e, err = quick.http(arg)
				} else {
					e, err = experiment.ReadFile(arg, o)
				}
				faults = append(faults, err)
				experiments = append(experiments, e)
			}
			if err := errors.Join(faults...); err != nil {
				return &failure{exitUsage, err, ""}
			}
			for _, e := range experiments {
				if err := a.measure(cmd.Context(), e, out, false); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	out.flags(f, "runs/NAME-TIME")
	f.BoolVar(&o.Short, "short", false, "the experiment's short form: fewer rounds, shorter windows")
	f.StringToStringVar(&o.Set, "set", nil, "set a variable of the experiment, or its rounds or seed, as `NAME=VALUE`")
	quick.defaults()
	return cmd
}

// measure runs an experiment, judges it and prints the results. A quick load
// that names no folder leaves none, unless it was cut short: then the folder is
// all there is of what was measured.
func (a *app) measure(ctx context.Context, e *experiment.Experiment, out output, quick bool) (err error) {
	// Opened now: a file that cannot be written should not cost the time of a run.
	var asJSON *os.File
	if out.json != "" && out.json != "-" {
		if asJSON, err = os.Create(out.json); err != nil {
			return &failure{exitUsage, fmt.Errorf("--json: %w", err), ""}
		}
		defer func() { err = errors.Join(err, asJSON.Close()) }()
	}
	dir, keep := out.dir, true
	switch {
	case dir == "" && quick:
		var temp string
		if temp, err = os.MkdirTemp("", "dyno-"); err != nil {
			return err
		}
		defer func() {
			if !keep {
				err = errors.Join(err, os.RemoveAll(temp))
			}
		}()
		dir, keep = filepath.Join(temp, "run"), false
	case dir == "":
		dir = filepath.Join("runs", e.Name+"-"+time.Now().Format("20060102-150405"))
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	ran := trial.Run(ctx, e, trial.Options{
		Dir:     dir,
		Program: program,
		Command: append([]string{"dyno"}, a.args...),
		Version: version(),
		Watcher: newProgress(a.stderr, out.quiet),
	})
	var none *trial.FolderError
	if errors.As(ran, &none) {
		return ran
	}
	folder, err := rundir.Open(dir)
	if err != nil {
		return errors.Join(ran, err)
	}
	if err := verdict.Judge(folder); err != nil {
		return errors.Join(ran, err)
	}
	// Not being able to write the verdict down is no reason not to print it.
	rewritten := folder.Rewrite()
	if ran != nil && !keep {
		keep = slices.ContainsFunc(folder.Trials, func(t *rundir.TrialFolder) bool { return t.Counts.Sent > 0 })
	}
	if keep && (!out.quiet || out.dir == "" && quick) {
		fmt.Fprintf(a.stderr, "run folder: %s\n", dir)
	}
	err = a.print(folder, out.json, asJSON)
	if ran != nil {
		return errors.Join(ran, err)
	}
	if err := errors.Join(rewritten, err); err != nil {
		return err
	}
	return judged(&folder.Run)
}

// print writes the results: JSON where it was asked for, and the text unless
// the JSON has taken its place.
func (a *app) print(folder *rundir.Folder, json string, file *os.File) error {
	if json == "-" {
		return report.JSON(a.stdout, &folder.Run)
	}
	err := report.Text(a.stdout, folder)
	if file != nil {
		err = errors.Join(err, report.JSON(file, &folder.Run))
	}
	return err
}

// judged turns a verdict into the command's error.
func judged(run *rundir.Run) error {
	var broken []string
	for _, t := range run.Thresholds {
		if !t.OK {
			broken = append(broken, t.Text)
		}
	}
	switch {
	case !run.Valid:
		return &failure{exitInvalid, errors.New("the run is invalid: its figures say more about the generator or the machine than about the target"),
			"the flags above say why, and what would help"}
	case len(broken) > 0:
		return &failure{exitThreshold, fmt.Errorf("threshold broken: %s", strings.Join(broken, "; ")), ""}
	}
	return nil
}
