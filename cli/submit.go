package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/agents"
	"dyno/internal/exit"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
	"dyno/lab/planfile"
)

// defaultRetries let a task outlive workers that end, and targets that are down for a while.
const defaultRetries = 2

func (a *app) submitCommand() *cobra.Command {
	var (
		t         queue.Task
		choice    agents.Choice
		at, every string
		o         = fileOptions()
	)
	cmd := &cobra.Command{
		Use:   "submit FILE…",
		Short: "Put experiments into the queue of a fleet",
		Long: `Put experiments into the queue of a fleet: dyno queue work takes them and runs them as dyno run
does. Their IDs go to standard output.

Files that the experiment reads, and programs that it starts, must be on the worker's machine
at the same paths. The control plane keeps the experiment as a secret.`,
		Example: `  dyno submit relay.yaml
  dyno submit --tenant checkout smoke.yaml load.yaml
  dyno submit --every 02:30 --retries 3 nightly.yaml
  dyno submit --priority 10 --fleet zone=1 --agents 4 --exclusive checkout.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Misused("as in: dyno submit experiment.yaml", "dyno submit: want at least one file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now()
			if err := fill(&t, &choice, at, every, now); err != nil {
				return err
			}
			var all []*queue.Submission
			for _, file := range args {
				one := queue.Submission{Task: t}
				var err error
				if one.Plan, err = readPlan(file, o, &one.Task); err != nil {
					return exit.With(exit.Usage, err, "")
				}
				all = append(all, &one)
			}
			var written error
			err := choice.Control.Use(registry.Queue, func(r *registry.Registry) error {
				return (&queue.Queue{Registry: r}).Submit(cmd.Context(), all, func(t *queue.Task) {
					if t.Due.After(now) {
						fmt.Fprintf(a.stderr, "%s is due at %s\n", t.Name, t.Due.Local().Format(time.DateTime))
					}
					_, err := fmt.Fprintln(a.stdout, t.ID)
					written = errors.Join(written, err)
				})
			})
			return errors.Join(explainQueue(err), written)
		},
	}
	f := cmd.Flags()
	fileFlags(f, &o)
	choice.Flags(f)
	f.IntVar(&t.Priority, "priority", 0, "tasks of a higher priority are taken first, then those that were submitted first; among those of a tenant")
	f.StringVar(&t.Tenant, "tenant", "", "whose `TENANT` the task is: tenants share the workers by their weights (dyno queue tenant)")
	f.StringVar(&at, "at", "", "not before `TIME`: of a day, as 02:30, or as 2026-01-02T02:30:00Z")
	f.StringVar(&every, "every", "", "again and again at `TIMES`: a time of day, as 02:30, or five fields of cron, as '30 2 * * 1-5'")
	f.IntVar(&t.Retries, "retries", defaultRetries, "how often it is tried again if it could not be measured, or its worker was lost")
	return cmd
}

// fill sets of a task what flags say.
func fill(t *queue.Task, choice *agents.Choice, at, every string, now time.Time) (err error) {
	switch {
	case t.Retries < 0 || t.Retries > queue.MaxRetries:
		return exit.Misused(fmt.Sprintf("from 0 to %d", queue.MaxRetries), "--retries: %d", t.Retries)
	case t.Priority < -queue.MaxPriority || t.Priority > queue.MaxPriority:
		return exit.Misused(fmt.Sprintf("from %d to %d", -queue.MaxPriority, queue.MaxPriority), "--priority: %d", t.Priority)
	case t.Tenant != "" && queue.CheckTenant(t.Tenant) != nil:
		return exit.Misused("as in: --tenant checkout", "--tenant: %w", queue.CheckTenant(t.Tenant))
	case at != "" && every != "":
		return exit.Misused("leave out one of the two", "--at: --every says when the task is due already")
	case at != "":
		if t.Due, err = queue.ParseAt(at, now); err != nil {
			return exit.Misused("as in: --at 02:30", "--at: %q: %v", at, err)
		}
	case every != "":
		schedule, err := queue.ParseEvery(every)
		if err != nil {
			return exit.Misused("as in: --every 02:30, or --every '30 2 * * 1-5'", "--every: %v", err)
		}
		t.Every, t.Due = every, schedule.Next(now)
	}
	t.Agents, err = choice.Wish()
	return err
}

// readPlan reads an experiment as dyno run does, and names the task after it.
func readPlan(file string, o planfile.Options, t *queue.Task) (p queue.Plan, err error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return p, err
	}
	e, err := planfile.ReadFile(file, o)
	if err != nil {
		return p, err
	}
	t.Name, t.Planned = e.Name, e.LoadTime().Seconds()
	p = queue.Plan{File: path, Source: string(e.Source), Short: o.Short, Set: o.Set}
	p.Folder, err = os.Getwd()
	return p, err
}

// explainQueue gives an error of the queue its exit code and a hint.
func explainQueue(err error) error {
	var (
		full  *queue.FullError
		large *queue.LargeError
		quota *queue.QuotaError
		ended *queue.EndedError
		runs  *queue.RunningError
		wrong *registry.BrokenError
	)
	switch {
	case errors.Is(err, queue.ErrUnknown):
		return exit.With(exit.Usage, err, "dyno queue list shows the tasks")
	case errors.As(err, &full):
		return exit.With(exit.Usage, err, "dyno queue cancel takes one off; dyno queue work runs them")
	case errors.As(err, &quota):
		return exit.With(exit.Usage, err, fmt.Sprintf("wait until some have run, or raise the bound: dyno queue tenant %s --max-waiting N", quota.Tenant))
	case errors.As(err, &large):
		return exit.With(exit.Usage, err, "move bodies and data into files, which the experiment names")
	case errors.As(err, &wrong):
		return exit.With(exit.Usage, err, "dyno queue remove ID removes what cannot be read")
	case errors.As(err, &runs):
		return exit.With(exit.Usage, err, "dyno queue cancel ends it")
	case errors.As(err, &ended):
		return exit.With(exit.Usage, err, "dyno queue show says how it ended")
	}
	return err
}
