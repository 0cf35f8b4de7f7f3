package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/arguments"
	"dyno/cli/board"
	"dyno/cli/help"
	"dyno/cli/live"
	"dyno/cli/output"
	"dyno/cli/planflags"
	"dyno/cli/quick"
	"dyno/internal/buildinfo"
	"dyno/internal/errno"
	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/judge/verdict/expr"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/lab/trial"
	"dyno/report/export"
	"dyno/report/figure"
	"dyno/report/html"
	"dyno/report/short"
	"dyno/results/mask"
	"dyno/results/push"
	"dyno/results/rundir"
)

// outputFlags say where results go. Run and the quick loads share it.
type outputFlags struct {
	dir     string
	json    string
	quiet   bool
	noColor bool
	noTUI   bool
	full    bool
	strict  bool // a threshold that is kept only as measured is an error
	// histogram and format are of quick loads.
	histogram bool
	format    string // empty: text
	push      live.PushFlags
}

func (o *outputFlags) flags(f *pflag.FlagSet, dir string, own live.Outputs) {
	f.StringVarP(&o.dir, "out", "o", "", "the run folder to create (default "+dir+")")
	f.StringVar(&o.json, "json", "", "write the results as JSON to `FILE`, or - for standard output")
	f.BoolVar(&o.full, "full", false, "print the whole report, not only its summary")
	f.BoolVar(&o.strict, "strict", false, "exit code 99 also if a threshold is kept as measured, with too few requests to be sure")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&o.noTUI, "no-tui", false, "a row a second instead of a board on the terminal")
	f.BoolVar(&o.noColor, "no-color", false, "no colour on the terminal, as with NO_COLOR in the environment")
	o.push.Flags(f, own)
}

func (a *app) runCommand() *cobra.Command {
	var (
		out    outputFlags
		o      = fileOptions()
		quick  quick.Load
		file   planflags.Flags
		resume string
		loads  = pflag.NewFlagSet("", pflag.ContinueOnError) // the flags of a quick load
	)
	cmd := &cobra.Command{
		Use:   "run FILE…|URL…",
		Short: "Run experiments; a URL instead of a file is a quick load",
		Example: `  dyno run experiments/reports/R1-concurrency-models.yaml
  dyno run --short --set seed=7 relay.yaml
  dyno run --resume runs/relay-models-20260101-120000
  dyno run -c 64 -z 10s http://127.0.0.1:8080/`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && resume == "" {
				return exit.Misused("as in: dyno run experiment.yaml", "dyno run: want at least one file")
			}
			if hint := arguments.RateInQuiet(cmd, args); hint != "" {
				return exit.Misused(hint, "dyno run: want files or URLs, got a number")
			}
			if len(args) > 0 && resume != "" {
				return exit.Misused("the run folder holds its experiment; leave out the file", "--resume continues one run, and there is %q too", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && out.dir != "" {
				return exit.Misused("run them one by one, or leave out --out", "--out names one run folder, and there are %d experiments", len(args))
			}
			if len(args) > 1 && out.json != "" && out.json != "-" {
				return exit.Misused("run them one by one, or use --json -", "--json names one file, and there are %d experiments", len(args))
			}
			if resume != "" {
				return a.resume(cmd.Context(), resume, o.Set, out)
			}
			// All files are read before the first is run: a fault in the last one should
			// not cost the time of the others.
			var experiments []*plan.Experiment
			var faults []error
			for _, arg := range args {
				var (
					e   *plan.Experiment
					err error
				)
				if arguments.IsURL(arg) || arguments.IsAddress(arg) {
					e, err = quick.Plan(plan.HTTP, arg)
				} else if err = onlyForURLs(loads, arg); err == nil {
					e, err = planfile.ReadFile(arg, file.Settings(o))
				}
				faults = append(faults, err)
				experiments = append(experiments, e)
			}
			if err := errors.Join(faults...); err != nil {
				return exit.With(exit.Usage, err, "")
			}
			// The result of one experiment does not affect the next. The exit code is
			// that of the first that failed.
			var failed []error
			for i, e := range experiments {
				if ended := context.Cause(cmd.Context()); i > 0 && ended != nil {
					failed = append(failed, fmt.Errorf("%s was not begun: %w", e.Name, ended))
					break
				}
				j := job{experiment: e, output: out}
				if e.File == "" {
					j.flags = &quick
				}
				if err := a.measure(cmd.Context(), j); err != nil {
					failed = append(failed, err)
				}
			}
			if len(failed) < 2 {
				return errors.Join(failed...)
			}
			code, hint := classify(failed[0])
			return exit.With(code, errors.Join(failed...), hint)
		},
	}
	f := cmd.Flags()
	out.flags(f, "runs/NAME-TIME", a.outputs)
	fileFlags(f, &o)
	file.Register(f, func(field string) bool { return field == "profile.kinds" }, nil, plan.HTTP)
	f.StringVar(&resume, "resume", "", "continue the interrupted run in this `DIR`: whole rounds are kept, a broken one is measured again, by the agents that its command named, unless there are others now; credentials are not kept, so that an experiment with some must be at hand")
	quick.Flags(loads, a.stdin, "capacity", plan.HTTP)
	a.agents.Flags(f)
	f.AddFlagSet(loads)
	help.ByGroup(cmd, "set short resume "+help.MostUsed)
	return cmd
}

// onlyForURLs refuses a quick load's flags if the argument is a file, and says where
// these settings belong.
func onlyForURLs(loads *pflag.FlagSet, file string) error {
	var faults []error
	loads.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		remedy := "write it into the file"
		if of, ok := f.Value.(*planflags.Flag); ok && of.Setting != "" {
			remedy = fmt.Sprintf("use --set %s=%s", of.Setting, of)
		}
		faults = append(faults, fmt.Errorf("--%s is for a URL, and %s is a file: %s", f.Name, file, remedy))
	})
	return errors.Join(faults...)
}

// fileOptions returns the options with which every experiment file is read.
func fileOptions() planfile.Options { return planfile.Options{Expressions: expr.Checks} }

// resume continues an interrupted run, whose experiment is in its folder. The credentials of it
// are not: the file must be at hand, and a setting that is one is given again.
func (a *app) resume(ctx context.Context, dir string, set map[string]string, out outputFlags) error {
	if out.dir != "" {
		return exit.Misused("leave out --out", "--resume names the run folder already")
	}
	before, err := rundir.ReadRun(dir)
	if err != nil {
		return exit.With(exit.Usage, err, "a run folder holds a run.json; dyno run creates one")
	}
	if !before.IsJudged() {
		// Only the verdict may be missing: then there is nothing to measure, and the experiment is not needed.
		if after, err := verdict.ReadRun(dir); err == nil && after.Complete {
			_, err := a.conclude(job{output: out}, dir, true, nil)
			return err
		}
	}
	recorded := &before.Plan
	if recorded.Source == "" {
		return exit.Misused("run it again", "%s: the run was made from flags, and there is no file to continue from", dir)
	}
	o := fileOptions()
	o.Short, o.Set = recorded.Short, maps.Clone(recorded.Set)
	for name, value := range recorded.Set {
		again, given := set[name]
		switch {
		case !strings.Contains(value, mask.Sign):
		case !given:
			return exit.Misused(fmt.Sprintf("add --set %s=VALUE, with the value that it had", name), "%s: the value of %s is a credential, and is not kept", dir, name)
		default:
			o.Set[name] = again
		}
	}
	var e *plan.Experiment
	if recorded.Masked {
		if e, err = planfile.ReadFile(recorded.File, o); err != nil {
			return exit.With(exit.Usage, fmt.Errorf("%s: the credentials of the experiment are not kept, so that its file is needed: %w", dir, err),
				"begin in the folder in which the run began, with the file that it had")
		}
	} else if e, err = planfile.Parse(recorded.File, []byte(recorded.Source), o); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("the experiment in %s: %w", dir, err), "this version reads it differently; run it again")
	}
	out.dir = dir
	if err := a.agents.Recall(before.Command); err != nil {
		return err
	}
	return a.measure(ctx, job{experiment: e, output: out, resume: true})
}

// A job is an experiment to run, and says what to do with the results.
type job struct {
	experiment *plan.Experiment
	output     outputFlags
	quick      bool                            // a quick load, which keeps no folder unless one is named
	flags      *quick.Load                     // from which the experiment was made; nil: from a file, or it is complete
	comparison *quick.Comparison               // whose design a pilot completes; nil: it is complete
	chosen     *rundir.Message                 // what it said
	resume     bool                            // the folder exists and holds a part of the run
	ask        func(ctx context.Context) error // asks the server what it speaks; nil: that is known
	gate       gate
}

// measure runs an experiment, judges it and prints the results. A quick load that names
// no folder leaves none, unless it was cut short: then the folder holds all that was
// measured.
func (a *app) measure(ctx context.Context, j job) (err error) {
	if printed, err := a.agents.PrintedRole(); printed {
		return err
	}
	if j.flags != nil {
		defer func() {
			if wrong := (*trial.PlanError)(nil); errors.As(err, &wrong) {
				err = exit.With(exit.Usage, errors.New(j.flags.Renamed(err.Error())), "")
			}
		}()
	}
	receivers, err := a.checkOutput(&j.output)
	if err != nil {
		return err
	}
	if j.experiment.Capacity != nil && j.flags != nil {
		if err := j.asked(ctx); err != nil {
			return err
		}
		if err := a.findRange(ctx, j.flags, j.experiment, j.output.quiet); err != nil {
			return err
		}
	}
	if j.comparison != nil {
		j.chosen = a.design(ctx, j.comparison, j.experiment, j.output.quiet)
	}
	dir, keep, err := j.folder()
	if err != nil {
		return err
	}
	defer func() {
		switch {
		case !keep:
			a.discard(filepath.Dir(dir))
		case j.output.dir == "":
			_ = errors.Join(os.Remove(dir), os.Remove(filepath.Dir(dir))) // if they are empty: nothing began
		}
	}()
	shown, end := a.display(j)
	defer end()
	if err := j.asked(ctx); err != nil {
		return err
	}
	senders, endSenders, err := a.send(j.experiment.Name, dir, keep, receivers)
	if err != nil {
		return err
	}
	defer endSenders()
	ran, err := a.carryOut(ctx, j, dir, keep, append(live.Watchers{shown}, senders...))
	if err != nil {
		return err
	}
	end() // results are printed where it was
	keep, err = a.conclude(j, dir, keep, ran)
	return err
}

// asked asks the server what it speaks, once.
func (j *job) asked(ctx context.Context) error {
	ask := j.ask
	if j.ask = nil; ask == nil {
		return nil
	}
	return ask(ctx)
}

// checkOutput refuses an output that results could not be written to: that should not cost the time of
// a run. What is in a file stays until there is something else. It returns who gets live figures.
func (a *app) checkOutput(o *outputFlags) ([]push.Config, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	receivers, err := o.push.Configs(os.LookupEnv)
	if err != nil {
		return nil, exit.With(exit.Usage, err, "")
	}
	return receivers, output.CheckJSON(a.stdout, o.json)
}

// folder returns the run folder of a job, and whether it is kept whatever becomes of the run. One that is
// not is alone in a temporary folder.
func (j *job) folder() (dir string, keep bool, err error) {
	switch {
	case j.output.dir != "":
		return j.output.dir, true, nil
	case j.quick:
		temp, err := os.MkdirTemp("", "dyno-")
		return filepath.Join(temp, "run"), false, err
	}
	if dir, err = makeNumbered(filepath.Join("runs", withTime(j.experiment.Name))); err != nil {
		err = &trial.FolderError{Err: fmt.Errorf("run folder: %w", err)}
	}
	return dir, true, err
}

// makeNumbered makes a folder of this name. If there is one, which is of a run that began in the same second, a number
// follows the name.
func makeNumbered(name string) (dir string, err error) {
	dir = name
	for n := 2; ; n++ {
		if err = os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return "", err
		}
		if err = os.Mkdir(dir, 0o755); !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
		dir = fmt.Sprintf("%s-%d", name, n)
	}
}

// withTime returns a name that tells runs apart.
func withTime(name string) string { return name + "-" + time.Now().Format("20060102-150405") }

// display returns the watcher that shows a run, and a function that ends it: a feed for the process that
// started the run, a board on a terminal, or rows.
func (a *app) display(j job) (w trial.Watcher, end func()) {
	switch {
	case a.feed != nil:
		return a.feed, func() {}
	case j.output.quiet:
		return live.Watchers{}, func() {}
	}
	title := j.experiment.Name
	if j.quick {
		title = mask.Text("", plan.Unquote(j.experiment.Variants[0].Describe()))
	}
	title = figure.Printable(title)
	if !j.output.noTUI && output.HasBoard(a.stderr, os.Getenv) {
		b := board.Start(terminal.Raw(a.stderr), title, output.Coloured(j.output.noColor, os.Getenv))
		return b, sync.OnceFunc(b.Close)
	}
	fmt.Fprintln(a.stderr, "measuring: "+title) // the first row comes after a second, or after a build
	return live.NewRows(a.stderr), func() {}
}

// meanwhile says what dyno does before a load has anything to show, if that takes longer than a moment. end must be
// called once it is done.
func (a *app) meanwhile(quiet bool, what string) (end func()) {
	if quiet {
		return func() {}
	}
	said := make(chan struct{})
	t := time.AfterFunc(50*time.Millisecond, func() {
		defer close(said)
		fmt.Fprintln(a.stderr, figure.Printable(mask.Text("", what)))
	})
	return func() {
		if !t.Stop() {
			<-said
		}
	}
}

// send returns the watchers that send a run elsewhere, and a function that ends them: one for dyno ui,
// which follows a folder that is kept, and one for the receivers of live figures.
func (a *app) send(name, dir string, keep bool, receivers []push.Config) (w live.Watchers, end func(), err error) {
	end = func() {}
	if len(receivers) > 0 {
		run := push.Run{Name: filepath.Base(dir), Experiment: name}
		if !keep {
			run.Name = withTime(name)
		}
		p, err := live.NewPusher(run, receivers)
		if err != nil {
			return nil, nil, err
		}
		w, end = live.Watchers{p}, func() { p.Close(a.stderr) }
	}
	if keep && a.feed == nil {
		file, endPushes := live.OpenLiveFile(dir), end
		w, end = append(w, file), func() { endPushes(); file.Close() }
	}
	return w, end, nil
}

// carryOut runs the trials of a job. The run's own error is the first one; with the second, there was
// no run.
func (a *app) carryOut(ctx context.Context, j job, dir string, keep bool, w trial.Watcher) (ran, err error) {
	o, err := a.options(ctx, j.experiment, dir, keep)
	if err != nil {
		return nil, err
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	if aborter := newAborter(j.experiment, abort); aborter != nil {
		w, o.Times = live.Watchers{w, aborter}, aborter.times
	}
	o.Watcher, o.Chosen = w, j.chosen
	if j.resume {
		ran = trial.Resume(ctx, j.experiment, o)
	} else {
		ran = trial.Run(ctx, j.experiment, o)
	}
	if j.quick {
		ran = trial.Cause(ran)
	}
	var none *trial.NotStartedError
	if errors.As(ran, &none) {
		return nil, ran // what stands in the folder, if anything, is another run
	}
	return ran, nil
}

// conclude prints the results of a run that ended with an error or without. It tells whether the folder is kept.
func (a *app) conclude(j job, dir string, keep bool, ran error) (kept bool, err error) {
	out := &j.output
	folder, err := verdict.Open(dir)
	if err != nil {
		return keep, errors.Join(ran, err)
	}
	var written error
	measured := slices.ContainsFunc(folder.Trials, func(t *rundir.TrialFolder) bool {
		return t.Counts.Sent > 0 || t.Streams != nil && t.Streams.Opened > 0
	})
	keep = keep || ran != nil && measured
	if keep {
		written = output.Replace(filepath.Join(dir, "report.html"), func(w io.Writer) error { return html.Write(w, folder) })
	}
	if j.quick && ran != nil && !measured && out.json == "" {
		return keep, errors.Join(ran, written)
	}
	if keep && (!out.quiet || out.dir == "" && j.quick) {
		fmt.Fprintf(a.stderr, "run folder: %s\n", dir)
	}
	err = a.print(folder, out, keep)
	if errno.Is(err, syscall.EPIPE) {
		// The reader of the results has gone away. Standard error gets them instead.
		err = errors.Join(err, output.Short(a.stderr, folder, out.noColor, keep))
	}
	if ran != nil {
		return keep, errors.Join(ran, err)
	}
	if err := errors.Join(written, err); err != nil {
		return keep, err
	}
	j.gate.strict = out.strict
	err = judged(&folder.Run, j.gate)
	a.remark(&folder.Run, j.gate, err)
	return keep, err
}

// options are those of a run of an experiment into a folder, which is kept or not.
func (a *app) options(ctx context.Context, e *plan.Experiment, dir string, keep bool) (trial.Options, error) {
	program, err := os.Executable()
	if err != nil {
		return trial.Options{}, err
	}
	agents, hosts, err := a.agents.Connect(ctx, e)
	if err != nil {
		return trial.Options{}, err
	}
	if most := os.Getenv("DYNO_QUIET_WAIT"); most != "" {
		d, err := units.ParseDuration(most)
		if err != nil {
			return trial.Options{}, exit.With(exit.Usage, fmt.Errorf("DYNO_QUIET_WAIT: %w", err), "want a time such as 30s, or 0")
		}
		e.Design.QuietWait = min(e.Design.QuietWait, d)
	}
	finder, err := a.agents.PodFinder(ctx, e)
	return trial.Options{
		Agents:    agents,
		Hosts:     hosts,
		Pods:      finder,
		Dir:       dir,
		Program:   program,
		Command:   append([]string{"dyno"}, a.args...),
		Version:   buildinfo.Build(),
		Temporary: !keep,
		Referee:   verdict.NewReferee(),
		Limits:    a.limits,
	}, err
}

// print writes the results in their form, and JSON if that was requested. JSON on standard output stands alone.
func (a *app) print(folder *rundir.Folder, out *outputFlags, kept bool) error {
	asJSON := func(w io.Writer) error { return export.JSON(w, &folder.Run) }
	if out.json == "-" {
		return asJSON(a.stdout)
	}
	o := formOptions{full: out.full, noColor: out.noColor, kept: kept, tag: rundir.TagResponse, forms: a.forms}
	write, err := o.writer(cmp.Or(out.format, plainText))
	if err != nil {
		return err
	}
	err = write(a.stdout, folder)
	if out.histogram {
		err = errors.Join(err, short.Histogram(a.stdout, folder))
	}
	if out.json != "" {
		err = errors.Join(err, output.Replace(out.json, asJSON))
	}
	return err
}

// checkFormat refuses a form that the results of a quick load could not be printed in.
func (o *outputFlags) checkFormat(forms []Form, protocol string, isSearch bool) error {
	if _, err := (&formOptions{forms: forms}).writer(o.format); err != nil {
		return err
	}
	switch {
	case o.format == plainText:
	case o.json == "-" || o.histogram:
		return exit.Misused("leave out --json - and --histogram, or --format", "--format %s: something else is to be printed, too", o.format)
	case slices.Contains(export.LoadTools(), o.format) && (protocol != plan.HTTP || isSearch):
		return exit.Misused("dyno http has it, without --capacity", "--format %s: it is the form of one load of HTTP", o.format)
	}
	return nil
}

// check refuses the name of a format where that of a folder or a file stands.
func (o *outputFlags) check() error {
	if isFormat(o.dir) {
		return exit.Misused("JSON is written by --json FILE, or by --json - to standard output, and other forms by dyno report --format; a folder of that name is ./"+o.dir,
			"--out (-o): it names the run folder here, and %s is a form of output", o.dir)
	}
	if isFormat(o.json) {
		return exit.Misused("as in: --json result.json, or --json - for standard output", "--json: it names a file, and %s is a form of output", o.json)
	}
	return nil
}

// judged turns a verdict into the command's error. Findings about the target come before
// figures that are not identified.
func judged(run *rundir.Run, g gate) error {
	// Failures of the target come first: noise neither causes nor excuses them.
	if err := unanswered(run, g); err != nil {
		return err
	}
	if g.isClosed() {
		if err := g.pass(worse(run), inconclusive(run)); err != nil {
			return err
		}
	}
	broken, open, unsure := thresholds(run, rundir.Broken), thresholds(run, rundir.Undecided), thresholds(run, rundir.KeptAsMeasured)
	switch {
	case len(broken) > 0:
		return exit.With(exit.Threshold, fmt.Errorf("threshold broken: %s", strings.Join(broken, "; ")), "")
	case !run.Valid && run.Plan.Capacity != nil:
		return exit.With(exit.Invalid, fmt.Errorf("no capacity was found: %s", run.Reason.English()), "")
	case !run.Valid:
		return exit.With(exit.Invalid, fmt.Errorf("the run is invalid: %s", run.Reason.English()), "the report says what would help")
	case len(open) > 0:
		return exit.With(exit.Threshold, fmt.Errorf("threshold not measured: %s", strings.Join(open, "; ")), "")
	case g.strict && len(unsure) > 0:
		return exit.With(exit.Threshold, fmt.Errorf("threshold kept as measured, and not for sure: %s", strings.Join(unsure, "; ")),
			"more requests or rounds; without --strict this is no error")
	}
	return nil
}

// isFormat reports whether a value is what other tools call a form of output.
func isFormat(value string) bool {
	return slices.Contains([]string{"json", "csv", "text", "pretty", "html", "markdown", "md", "junit", "ndjson", "quiet", "hist", "summary", "influx-summary", "influx-details", "db", "true", "false"}, value)
}
