package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/services/control/client"
	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// A rollout counts which clients run which version.
type rollout struct{ resource.Rollout }

// add merges the rollout of another replica's clients.
func (r *rollout) add(o resource.Rollout) {
	if r.Versions == nil {
		r.Ref, r.Versions = o.Ref, map[int64]int{}
	}
	r.Version = max(r.Version, o.Version)
	r.Clients += o.Clients
	r.Applied += o.Applied
	r.Refused += o.Refused
	r.Pending += o.Pending
	for v, n := range o.Versions {
		r.Versions[v] += n
	}
	r.Holdings = append(r.Holdings, o.Holdings...)
	r.Unrecorded = max(r.Unrecorded, o.Unrecorded)
}

// String returns the rollout in a sentence.
func (r *rollout) String() string {
	text := fmt.Sprintf("%s/%s version %d: %d of %d clients run it", r.Kind, r.Name, r.Version, r.Applied, r.Clients)
	if r.Refused > 0 {
		text += fmt.Sprintf(", %d refused it", r.Refused)
	}
	if r.Pending > 0 {
		text += fmt.Sprintf(", %d have not said", r.Pending)
	}
	return terminal.Line(text)
}

// done reports whether all clients run the newest version, and they are at least atLeast.
func (r *rollout) done(atLeast int) bool {
	return r.Pending == 0 && r.Refused == 0 && r.Applied >= atLeast
}

// rolloutOf asks every server: each knows its own clients only.
func (s *session) rolloutOf(ctx context.Context, of resource.Ref, limit int) (*rollout, error) {
	all := &rollout{}
	for _, server := range s.addresses() {
		c, err := s.connect(func(cfg *client.Config) { cfg.Servers = []string{server} })
		if err != nil {
			return nil, err
		}
		query := in(s.space())
		query.Set("limit", strconv.Itoa(min(limit, pageLimit)))
		var one resource.Rollout
		err = get(ctx, c, of.Address()+"/rollout", query, &one)
		c.Close()
		if err != nil {
			return nil, err
		}
		all.add(one)
	}
	return all, nil
}

// rollout shows which clients run which version.
func (c *call) rollout(names []string, limit int) error {
	if len(names) != 1 || !strings.Contains(names[0], "/") {
		return exit.Misused("such as dyno ctl get rollout config/limits", "want one configuration or policy, as KIND/NAME")
	}
	of, err := namedOne(names, released...)
	if err != nil {
		return err
	}
	r, err := c.rolloutOf(c.ctx(), of, limit)
	if err != nil {
		return err
	}
	if c.form == asJSON || c.form == asYAML {
		return c.text(marshal(r))
	}
	var entries []entry
	for i := range r.Holdings {
		entries = append(entries, entry{kind: rollouts, name: r.Holdings[i].Client, doc: &r.Holdings[i]})
	}
	if c.form == asTable {
		if err := c.say("%s", r); err != nil || len(entries) == 0 {
			return err
		}
	}
	return c.list(rollouts, entries)
}

// lookAgain is the pause between two looks at a rollout.
const lookAgain = time.Second

func (s *session) rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "See which version clients run",
	}
	var (
		block   bool
		within  time.Duration
		clients int
	)
	status := s.asking(&cobra.Command{
		Use:   "status KIND/NAME",
		Short: "Show which clients run the newest version, or wait until all do",
		Long: `Show which clients run the newest version. Each replica knows its own clients: every
--server is asked, and what they know is added up.

With --wait it ends when nobody is left who has not said that it runs the newest version, and
fails as soon as one has refused it.`,
		Example:           "  dyno ctl rollout status config/limits --wait --at-least 12",
		Args:              atLeast(1, "a configuration or policy"),
		ValidArgsFunction: completeKinds(released...),
	}, func(c *call, args []string) error {
		r, err := namedOne(args, released...)
		if err != nil {
			return err
		}
		return c.rolloutStatus(r, block, within, clients)
	})
	f := status.Flags()
	f.BoolVar(&block, "wait", false, "wait until all run it")
	f.DurationVar(&within, "within", 5*time.Minute, "for how long at most")
	f.IntVar(&clients, "at-least", 0, "how many clients must run it")
	cmd.AddCommand(status)
	return cmd
}

func (c *call) rolloutStatus(r resource.Ref, block bool, within time.Duration, clients int) error {
	ctx := c.ctx()
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := ""
	late := func() error {
		return exit.With(exit.Failed, fmt.Errorf("not all run it after %v: %s", within, last), "")
	}
	for {
		now, err := c.rolloutOf(bounded, r, 10)
		if err != nil && ctx.Err() == nil && bounded.Err() != nil && last != "" {
			return late()
		}
		if err != nil {
			return err
		}
		if text := now.String(); text != last {
			last = text
			if err := c.say("%s", text); err != nil {
				return err
			}
		}
		var refused []error
		for _, h := range now.Holdings {
			if h.State == resource.Refused && h.Version == now.Version {
				refused = append(refused, fmt.Errorf("%s: %s", terminal.Line(h.Client), cmp.Or(terminal.Line(h.Reason), "-")))
			}
		}
		switch {
		case now.Refused > 0:
			return exit.With(exit.Failed, errors.Join(append([]error{fmt.Errorf("%d clients have refused version %d", now.Refused, now.Version)}, refused...)...), "dyno ctl rollback goes back to an earlier version")
		case !block || now.done(clients):
			return nil
		}
		if !wait.For(bounded, lookAgain) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return late()
		}
	}
}

// takeOff removes an instance whose command was interrupted.
func (c *call) takeOff(kept *client.Registration, r resource.Ref) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx()), c.timeout)
	defer cancel()
	if err := kept.Close(ctx); err != nil {
		return fmt.Errorf("it could not be taken off, and goes when its lease is over: %w", err)
	}
	return c.report(r, "taken off", 0)
}

func (s *session) reclaimCommand() *cobra.Command {
	return s.asking(&cobra.Command{
		Use:   "reclaim",
		Short: "Compact and defragment the database, and end its alarm",
		Long:  "Compact and defragment the database, and end its alarm. Nothing is answered meanwhile, for about a second per gigabyte.",
		Args:  exactly(0, "no arguments"),
	}, func(c *call, _ []string) error {
		answer, err := c.Do(c.ctx(), client.Request{Method: http.MethodPost, Path: "/v1/reclaim", Stream: true})
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // it was only read
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		return c.say("reclaimed")
	})
}
