package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/agents"
	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/cli/tenants"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/hangup"
	"dyno/internal/settings"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/lab/trial"
	"dyno/results/mask"
	"dyno/results/rundir"
	"dyno/results/upload"
)

// queueCommand is about the tasks that a control plane keeps.
func (a *app) queueCommand() *cobra.Command {
	var control agents.ControlPlane
	cmd := arguments.Group(&cobra.Command{
		Use:   "queue",
		Short: "Run the experiments that were submitted to a fleet",
		Long: `Run the experiments that were submitted to a fleet, and show or cancel them.

The control plane keeps the tasks (dyno submit). Workers take them, those of the highest priority
first, and run one at a time each: dyno queue work. If a worker is lost, another one runs its task,
and continues the run if it has the folder. Tenants share the workers by their weights.`,
		Example: `  dyno submit relay.yaml
  dyno queue work --results runs
  dyno queue list`,
	})
	add := func(c *cobra.Command, run tenants.Action) {
		control.Flags(c.Flags())
		c.RunE = func(cmd *cobra.Command, args []string) error {
			return explainQueue(control.Use(registry.Queue, func(r *registry.Registry) error {
				return run(cmd.Context(), &queue.Queue{Registry: r}, append(args, "")[0])
			}))
		}
		cmd.AddCommand(c)
	}
	one := arguments.ExactArgs(1, "a task's ID")
	add(&cobra.Command{Use: "list", Short: "List the tasks in the order in which they are taken", Example: "  dyno queue list", Args: arguments.NoArgs}, a.listTasks)
	add(&cobra.Command{Use: "show ID", Short: "Show a task and its attempts, as JSON", Example: "  dyno queue show k3v7q2mz", Args: one}, a.showTask)
	add(&cobra.Command{Use: "cancel ID", Short: "Cancel a task; if it runs, its run ends in order", Example: "  dyno queue cancel k3v7q2mz", Args: one},
		func(ctx context.Context, q *queue.Queue, id string) error { return q.Cancel(ctx, id) })
	add(&cobra.Command{Use: "remove ID", Short: "Remove a task that has ended, or that cannot be read", Example: "  dyno queue remove k3v7q2mz", Args: one},
		func(ctx context.Context, q *queue.Queue, id string) error { return q.Remove(ctx, id) })
	add(&cobra.Command{Use: "tenants", Short: "List the tenants, their shares and their bounds", Example: "  dyno queue tenants", Args: arguments.NoArgs},
		func(ctx context.Context, q *queue.Queue, _ string) error { return tenants.List(ctx, q, a.stdout) })
	add(tenants.Command())
	add(tenants.Watch(a.stdout))
	cmd.AddCommand(a.workCommand())
	return cmd
}

func (a *app) listTasks(ctx context.Context, q *queue.Queue, _ string) error {
	tasks, broken, err := q.Tasks(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "NAME", "STATE", "PRIORITY", "DUE", "ATTEMPTS", "PREDICTED", "TOOK", "EXIT CODE", "RESULT"}}
	for i := range tasks {
		t := &tasks[i]
		due, took, code, result := "now", "-", "-", "-"
		if t.Due.After(time.Now()) {
			due = t.Due.Local().Format(time.DateTime)
		}
		if r := t.Latest(); r != nil && !r.Ended.IsZero() {
			took, code, result = output.Seconds(r.Ended.Sub(r.Began).Seconds()), fmt.Sprint(r.Code), cmp.Or(r.Result, r.Message, "-")
		}
		if t.State != queue.Queued {
			due = "-"
		}
		rows = append(rows, []string{
			t.ID, t.Name, string(t.State), fmt.Sprint(t.Priority), due, fmt.Sprint(t.Fence), output.Seconds(queue.Predict(t, tasks)), took, code, result,
		})
	}
	if slices.ContainsFunc(tasks, func(t queue.Task) bool { return t.Tenant != "" }) {
		rows[0] = append(rows[0], "TENANT")
		for i := range tasks {
			rows[i+1] = append(rows[i+1], tasks[i].TenantName())
		}
	}
	for _, b := range broken {
		rows = append(rows, []string{b.Name, "-", string(queue.Broken), "-", "-", "-", "-", "-", "-", b.Reason})
	}
	return output.Table(a.stdout, rows)
}

func (a *app) showTask(ctx context.Context, q *queue.Queue, id string) error {
	t, err := q.Task(ctx, id)
	if err != nil {
		return err
	}
	to := json.NewEncoder(a.stdout)
	to.SetIndent("", "  ")
	return to.Encode(t)
}

func (a *app) workCommand() *cobra.Command {
	w := worker{app: a}
	w.limits.Limits = agent.Defaults().Limits
	s := settings.New(&w.limits)
	var name, results string
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Take tasks and run them, one at a time",
		Long: `Take tasks and run them, one at a time, until SIGTERM or SIGINT. The run under way is then put back,
and another worker continues it. Where no agents are asked for, this machine carries the load: start
one worker on a machine.

Who may change the control plane's namespace ` + registry.Queue + ` says what runs here, within what this machine's
owner allows, as an agent's owner does: --command, --files, --network, --max-connections, --max-time and
--observe. Without --command, experiments start no program here. What they place with agents is for these to
limit. No experiment changes kernel settings. The worker has its own rights: start it as a user of its own.

With s3://BUCKET/PREFIX, a run folder is in runs until it is uploaded. The environment has the
credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), or the files and services of AWS do.
AWS_ENDPOINT_URL names another store than AWS, and AWS_REGION its region.`,
		Example: `  dyno queue work --results runs
  dyno queue work --results runs --command '/srv/bin/*' --files /srv/experiments
  AWS_ENDPOINT_URL=http://127.0.0.1:9000 dyno queue work --results s3://dyno/nightly`,
		Args: arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			s.Read()
			if err := s.Validate(w.limits.Check); err != nil {
				return err
			}
			if err := w.open(ctx, results); err != nil {
				return err
			}
			r, err := w.control.Existing(registry.Queue)
			if err != nil {
				return err
			}
			defer r.Close()
			q := queue.Queue{Registry: r}
			if _, _, err := q.Tasks(ctx); err != nil {
				return explainQueue(err)
			}
			if w.fleet, err = w.control.Existing(registry.Fleet); err != nil {
				return err
			}
			defer w.fleet.Close()
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			hangup.Refuse(cmd.Context(), log)
			of := queue.Worker{Queue: &q, Name: name, Has: w.has, Prepare: w.prepare, Waiting: w.keepReserved, Logger: log, Abort: func() {
				log.Error("the lease ends, and the run does not: this process ends with all that it has started")
				os.Exit(exit.Failed)
			}}
			return of.Work(ctx)
		},
	}
	f := cmd.Flags()
	s.AddFlags(f)
	w.control.Flags(f)
	a.agents.IdentityFlag(f)
	f.StringVar(&results, "results", "runs", "`WHERE` run folders go: a folder, or s3://BUCKET/PREFIX")
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	f.StringVar(&name, "name", host, "what this worker is called in attempts")
	return cmd
}

// workerLimits are what the owner of a worker's machine allows.
type workerLimits struct{ agent.Limits }

// Check reports how fields have to go together, beyond what their tags say.
func (l *workerLimits) Check(r *fields.Report) { l.CheckCommands(r) }

// A worker runs tasks as dyno run does.
type worker struct {
	app     *app
	limits  workerLimits
	allowed *trial.Limits // of limits
	control agents.ControlPlane
	start   string        // the folder that the process began in
	runs    string        // the folder of run folders
	store   *upload.Store // to which they are moved; nil: they stay
	fleet   *registry.Registry
	// reserved are machines that a task waits for; nil: none are.
	reserved     *registry.Reservation
	reservedTask string // the task's ID
}

// open checks where results go. Runs begin in different folders, so all paths are made absolute.
func (w *worker) open(ctx context.Context, results string) (err error) {
	w.runs = results
	if strings.HasPrefix(results, upload.Scheme) {
		w.runs = "runs"
		if w.store, err = upload.Open(ctx, results); err != nil {
			return exit.With(exit.Usage, fmt.Errorf("--results: %w", err), "as in: --results s3://BUCKET/PREFIX; AWS_ENDPOINT_URL names the store, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY the credentials")
		}
	}
	w.control.SetDefault() // its tasks start no control plane
	if w.start, err = os.Getwd(); err != nil {
		return err
	}
	w.allowed = &trial.Limits{}
	if w.allowed.Loads, w.allowed.Programs, err = w.limits.Split(); err != nil {
		return exit.With(exit.Usage, err, "as in: --files /srv/experiments")
	}
	for _, path := range []*string{&w.runs, &w.app.agents.Identity, &w.control.TokenFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(w.start, *path)
		}
	}
	return os.MkdirAll(w.runs, 0o755)
}

// has tells whether a run folder is here, so that its run can continue.
func (w *worker) has(folder string) bool {
	_, err := os.Stat(filepath.Join(w.runs, folder, rundir.RunFile))
	return err == nil
}

// prepare implements queue.Worker.
func (w *worker) prepare(ctx context.Context, t *queue.Task, p queue.Plan) (run func(context.Context, *queue.Task) queue.Outcome, release func() error, err error) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.limits, a.extended = w.allowed, w.app.extended
	e, wrong := w.parse(p)
	if wrong == nil && t.Agents != nil {
		var reserved *registry.Reservation
		if t.ID == w.reservedTask {
			reserved = w.reserved
		}
		a.agents.Choose(w.app.agents.Identity, t.Agents, w.control, reserved)
		if _, _, err := a.agents.Connect(ctx, e); err != nil {
			return nil, nil, errors.Join(w.reserve(ctx, t, err), a.release())
		}
	}
	return func(ctx context.Context, t *queue.Task) queue.Outcome {
		if wrong != nil {
			return failed(wrong)
		}
		dir := filepath.Join(w.runs, t.Folder)
		a.args = []string{"run", p.File, "--out", dir}
		return w.run(ctx, a, job{experiment: e, output: outputFlags{dir: dir, quiet: true}, resume: t.Latest().Continued})
	}, a.release, nil
}

// reserve keeps others from the machines that a task wants alone and that carry something now. It returns the error
// that the task met, or queue.ErrReserved.
func (w *worker) reserve(ctx context.Context, t *queue.Task, met error) error {
	busy, ok := errors.AsType[*registry.BusyError](met)
	if !ok || len(busy.Reserve) == 0 {
		return met
	}
	if w.reservedTask != t.ID {
		if err := w.keepReserved(ctx, t.ID); err != nil {
			return err
		}
		v, err := w.fleet.Reserve(ctx)
		if err != nil {
			return err
		}
		w.reserved, w.reservedTask = v, t.ID
	}
	if err := w.reserved.Take(ctx, busy.Reserve); err != nil {
		return errors.Join(met, err)
	}
	return fmt.Errorf("%w: %w", queue.ErrReserved, met)
}

// keepReserved gives back what is reserved for another task than this one.
func (w *worker) keepReserved(ctx context.Context, task string) error {
	if w.reserved == nil || w.reservedTask == task {
		return nil
	}
	v := w.reserved
	w.reserved, w.reservedTask = nil, ""
	return v.Release(ctx)
}

// parse reads a plan, in the folder in which it was submitted if that is on this machine.
func (w *worker) parse(p queue.Plan) (*plan.Experiment, error) {
	err := os.Chdir(p.Folder)
	if err != nil {
		err = os.Chdir(w.start)
	}
	if err != nil {
		return nil, err
	}
	o := fileOptions()
	o.Short, o.Set = p.Short, p.Set
	e, err := planfile.Parse(p.File, []byte(p.Source), o)
	if err != nil {
		return nil, exit.With(exit.Usage, err, "")
	}
	if !w.limits.Observe {
		for i := range e.Variants {
			e.Variants[i].Observe.Server = false // it was not started for dyno
		}
	}
	return e, nil
}

// failed returns what became of a task that ended with an error.
func failed(err error) (o queue.Outcome) {
	var hint string
	o.Code, hint = classify(err)
	o.Message = mask.Text("", err.Error())
	if hint != "" {
		o.Message += "; hint: " + hint
	}
	return o
}

// run runs or continues an experiment as a task.
func (w *worker) run(ctx context.Context, a *app, j job) queue.Outcome {
	dir := j.output.dir
	err := a.measure(ctx, j)
	if j.resume && errors.Is(err, rundir.ErrFinished) {
		// All was measured, and the worker was lost before it could say so.
		_, err = a.conclude(j, dir, true, nil)
	}
	o := queue.Outcome{Code: exit.Done}
	if err != nil {
		o = failed(err)
		o.Locked = errors.Is(err, rundir.ErrBusy)
	}
	o.Result = dir
	o.Done = slices.Contains([]int{exit.Done, exit.Invalid, exit.Regression, exit.Threshold}, o.Code)
	if o.Done && w.store != nil {
		url, err := w.store.Upload(ctx, dir)
		if err == nil {
			o.Result, err = url, os.RemoveAll(dir)
		}
		if err != nil {
			o.Code, o.Done, o.Keep, o.Message = exit.Failed, false, true, "--results: "+err.Error()
		}
	}
	return o
}
