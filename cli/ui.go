package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"dyno/cli/agents"
	"dyno/cli/arguments"
	"dyno/cli/live"
	"dyno/internal/exit"
	"dyno/internal/hangup"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
	"dyno/report/answer"
	"dyno/report/html"
	"dyno/results/rundir"
	"dyno/ui"
)

func (a *app) uiCommand() *cobra.Command {
	c := ui.Defaults()
	var control agents.ControlPlane
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show runs, live and past, in a browser",
		Long: `ui serves pages on loopback: the runs below a folder, two runs side by side,
the history of an experiment, and the current run. With --experiments it starts
and stops runs of the experiments in that folder, each in a process of its own. With
--control-plane it shows the agents of a fleet and its queue.

The URL that it prints holds a token. Anybody who has it can start programs here.`,
		Example: `  dyno ui
  dyno ui --runs nightly --experiments experiments --listen 127.0.0.1:7071`,
		Args: arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			c.Runner, c.Report = live.Launcher{Program: program}, html.Write
			c.Answer = func(run *rundir.Run) any { return answer.Make(&rundir.Folder{Run: *run}) }
			if err := c.Validate(); err != nil {
				return exit.With(exit.Usage, err, "")
			}
			if !cmd.Flags().Changed("runs") { // a folder that the user named must exist
				if err := os.MkdirAll(c.Runs, 0o755); err != nil {
					return err
				}
			}
			if addresses := control.Addresses(); len(addresses) > 0 {
				r, err := control.Open(registry.Fleet, addresses, nil)
				if err != nil {
					return err
				}
				defer r.Close()
				tasks, err := control.Open(registry.Queue, addresses, nil)
				if err != nil {
					return err
				}
				defer tasks.Close()
				c.Fleet = func(ctx context.Context) (any, error) { return agents.View(ctx, r, &queue.Queue{Registry: tasks}) }
			}
			c.Logger = slog.New(slog.NewTextHandler(a.stderr, nil))
			hangup.Refuse(cmd.Context(), c.Logger)
			s, err := ui.New(c)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			if err := s.Listen(); err != nil {
				return errors.Join(err, s.Close())
			}
			fmt.Fprintf(a.stderr, "open in a browser: %s\n", s.URL())
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	control.Flags(f)
	f.StringVar(&c.Runs, "runs", c.Runs, "the folder of run folders; runs started here go there")
	f.StringVar(&c.Experiments, "experiments", c.Experiments, "the folder whose experiments may be started (default none)")
	f.StringVar(&c.Listen, "listen", c.Listen, "where browsers connect: a loopback address and a port")
	return cmd
}
