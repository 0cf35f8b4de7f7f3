package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/internal/secretfile"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
	"dyno/lab/fleet/selector"
	"dyno/services/control/client"
)

// Environment variables that stand for flags.
const (
	controlVariable      = "DYNO_CONTROL_PLANE"
	controlTokenVariable = "DYNO_CONTROL_PLANE_TOKEN_FILE"
)

// defaultControl is where the example of dyno fleet has its control plane.
const defaultControl = "http://127.0.0.1:7100"

const (
	askedAtOnce  = 32 // agents
	drainPeriod  = 500 * time.Millisecond
	controlsHint = "is the control plane running? dyno serve control --listen 127.0.0.1:7100 --data fleet.d starts one; --control-plane or " + controlVariable + " says where it is"
)

// A controlPlane is the one that knows a fleet.
type controlPlane struct {
	servers   []string
	tokenFile string
}

func (c *controlPlane) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&c.servers, "control-plane", nil, "the fleet's control plane is at `URL` (default "+controlVariable+"); may be repeated, for its replicas")
	f.StringVar(&c.tokenFile, "control-plane-token-file", "", "`FILE` with the token to show to the control plane (default "+controlTokenVariable+")")
}

// addresses returns the addresses that the flag or the environment has.
func (c *controlPlane) addresses() []string {
	if len(c.servers) > 0 {
		return c.servers
	}
	return strings.FieldsFunc(os.Getenv(controlVariable), func(r rune) bool { return r == ',' || r == ' ' })
}

// open returns a namespace of the registry at some addresses.
func (c *controlPlane) open(namespace string, addresses []string, log *slog.Logger) (*registry.Registry, error) {
	var token string
	if name := cmp.Or(c.tokenFile, os.Getenv(controlTokenVariable)); name != "" {
		text, err := secretfile.Read(name)
		if err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("--control-plane-token-file: %w", err), "")
		}
		token = strings.TrimSpace(string(text))
	}
	r, err := registry.Open(registry.Config{Namespace: namespace, Servers: addresses, Token: token, Logger: log})
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--control-plane: %w", err), "as in: --control-plane "+defaultControl)
	}
	return r, nil
}

// existing returns the fleet's namespace where the flag, the environment or the default has it.
func (c *controlPlane) existing() (*registry.Registry, error) { return c.existingIn(registry.Fleet) }

func (c *controlPlane) existingIn(namespace string) (*registry.Registry, error) {
	addresses := c.addresses()
	if len(addresses) == 0 {
		addresses = []string{defaultControl}
	}
	return c.open(namespace, addresses, nil)
}

// explainControl gives an error of the registry its exit code and a hint.
func explainControl(err error) error {
	var (
		unreachable *client.Unreachable
		taken       *registry.NameTakenError
		held        *registry.HeldError
		reserved    *registry.ReservedError
		broken      *registry.BrokenError
	)
	switch {
	case errors.As(err, &unreachable):
		return exit.With(exit.Target, fmt.Errorf("--control-plane: %w", err), controlsHint)
	case errors.As(err, &taken):
		return exit.With(exit.Usage, err, "give this one another name with --name")
	case errors.As(err, &held), errors.As(err, &reserved):
		return exit.With(exit.Usage, err, "wait until it has ended, or choose other agents with --fleet")
	case errors.As(err, &broken):
		return exit.With(exit.Usage, err, "dyno fleet remove NAME removes what cannot be read")
	case errors.Is(err, registry.ErrUnknown):
		return exit.With(exit.Usage, err, "dyno fleet list shows the agents")
	}
	return err
}

// askParts asks agents at the same time how many parts they carry. reached tells which of them answered.
func askParts(ctx context.Context, m *identity.Member, all []registry.Agent) (reached []bool) {
	reached = make([]bool, len(all))
	places := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i := range all {
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			var err error
			all[i].Parts, err = fleet.Parts(ctx, m, all[i].Address)
			reached[i] = err == nil
		})
	}
	asking.Wait()
	return reached
}

// fleetCommand is about the agents that a control plane knows.
func (a *app) fleetCommand() *cobra.Command {
	var control controlPlane
	cmd := arguments.Group(&cobra.Command{
		Use:   "fleet",
		Short: "Have machines carry loads together",
		Long: `Have machines carry loads together: let them join, show and change those that a control plane knows.

Agents register there: dyno agent --control-plane URL. Loads choose among them by label: --fleet
SELECTOR and --agents N. A fleet needs one control plane, which outlives agents and loads;
without --control-plane and ` + controlVariable + `, it is at ` + defaultControl + `.
If none is there, a load starts one until it ends: agents of this machine that were told to register
there join it.`,
		Example: `  dyno serve control --listen 127.0.0.1:7100 --data fleet.d
  dyno agent --control-plane http://127.0.0.1:7100 --name a --label zone=1
  dyno fleet list
  dyno --fleet zone=1 --agents 1 -c 64 http://127.0.0.1:8080/`,
	})
	add := func(c *cobra.Command, run func(ctx context.Context, r *registry.Registry, m *identity.Member, name string) error) {
		control.flags(c.Flags())
		a.identityFlag(c.Flags())
		c.RunE = func(cmd *cobra.Command, args []string) error {
			m, err := a.coordinator()
			if err == nil {
				err = a.refuseRevoked(cmd.Context(), m, &control)
			}
			if err != nil {
				return err
			}
			r, err := control.existing()
			if err != nil {
				return err
			}
			defer r.Close()
			return explainControl(run(cmd.Context(), r, m, append(args, "")[0]))
		}
		cmd.AddCommand(c)
	}
	one := func(use, short string, run func(ctx context.Context, r *registry.Registry, m *identity.Member, name string) error) {
		add(&cobra.Command{Use: use + " NAME", Short: short, Example: "  dyno fleet " + use + " a", Args: arguments.ExactArgs(1, "an agent's name")}, run)
	}
	cmd.AddCommand(a.authorityCommand(), a.revokeCommand(), a.revokedCommand())
	add(&cobra.Command{Use: "list", Short: "List the agents, with what they are and what they carry", Example: "  dyno fleet list", Args: arguments.NoArgs}, a.listAgents)
	one("cordon", "Let an agent take no new parts of loads, even after it has started again", func(ctx context.Context, r *registry.Registry, _ *identity.Member, name string) error {
		return r.SetCordoned(ctx, name, true)
	})
	one("uncordon", "Let an agent take parts of loads again", func(ctx context.Context, r *registry.Registry, _ *identity.Member, name string) error {
		return r.SetCordoned(ctx, name, false)
	})
	one("drain", "Cordon an agent, and wait until it carries no parts", drain)
	one("remove", "Remove what the control plane has of an agent, as of a broken one; an agent that lives registers again", func(ctx context.Context, r *registry.Registry, _ *identity.Member, name string) error {
		return r.RemoveAgent(ctx, name)
	})
	one("logs", "Print the last lines of an agent's log", func(ctx context.Context, r *registry.Registry, m *identity.Member, name string) error {
		of, err := agentNamed(ctx, r, name)
		if err != nil {
			return err
		}
		return fleet.Log(ctx, m, of.Address, a.stdout)
	})
	return cmd
}

// revokeCommand ends what a member of the fleet may do.
func (a *app) revokeCommand() *cobra.Command {
	var (
		control controlPlane
		serial  string
		undo    bool
	)
	cmd := &cobra.Command{
		Use:   "revoke NAME | revoke --serial NUMBER",
		Short: "Revoke a member's certificates, as after its key was stolen",
		Long: `Revoke the certificates that a member has, or one certificate by its serial number. Agents, coordinators and
the authority that follow the control plane refuse it within seconds, end its connections, and renew it no more. The
member may join again with a token, and has another certificate then. Who may do this is a principal that may change the
namespace ` + registry.Trust + `.`,
		Example: `  dyno fleet revoke a
  dyno fleet revoke --serial 3a0c19f2
  dyno fleet revoke --undo a`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := registry.Revocation{Name: append(args, "")[0], Serial: identity.NormalSerial(serial)}
			if (v.Name == "") == (v.Serial == "") {
				return exit.Misused("as in: dyno fleet revoke a", "dyno fleet revoke: want a member's name, or --serial")
			}
			r, err := control.existingIn(registry.Trust)
			if err != nil {
				return err
			}
			defer r.Close()
			if undo {
				return explainControl(r.Reinstate(cmd.Context(), v))
			}
			return explainControl(r.Revoke(cmd.Context(), v))
		},
	}
	control.flags(cmd.Flags())
	cmd.Flags().StringVar(&serial, "serial", "", "revoke the one certificate with this `NUMBER`, in hexadecimal")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the revocation back")
	return cmd
}

func (a *app) revokedCommand() *cobra.Command {
	var control controlPlane
	cmd := &cobra.Command{
		Use: "revoked", Short: "List who is revoked", Example: "  dyno fleet revoked", Args: arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := control.existingIn(registry.Trust)
			if err != nil {
				return err
			}
			defer r.Close()
			all, err := r.Revoked(cmd.Context())
			if err != nil {
				return explainControl(err)
			}
			rows := [][]string{{"NAME", "SERIAL", "SINCE"}}
			for _, v := range all {
				since := "-"
				if !v.At.IsZero() {
					since = v.At.Local().Format(time.DateTime)
				}
				rows = append(rows, []string{cmp.Or(v.Name, "-"), cmp.Or(v.Serial, "-"), since})
			}
			return output.Table(a.stdout, rows)
		},
	}
	control.flags(cmd.Flags())
	return cmd
}

// agentNamed returns an agent that lives.
func agentNamed(ctx context.Context, r *registry.Registry, name string) (registry.Agent, error) {
	all, _, err := r.Agents(ctx)
	if err != nil {
		return registry.Agent{}, err
	}
	for _, of := range all {
		if of.Name == name {
			return of, nil
		}
	}
	return registry.Agent{}, exit.Misused("dyno fleet list shows the agents", "no agent called %s lives", name)
}

func (a *app) listAgents(ctx context.Context, r *registry.Registry, m *identity.Member, _ string) error {
	all, broken, err := r.Agents(ctx)
	if err != nil {
		return err
	}
	reached := askParts(ctx, m, all)
	rows := [][]string{{"NAME", "ADDRESS", "LABELS", "CPUS", "VERSION", "STATE", "PARTS"}}
	for i, of := range all {
		state, parts := stateOf(&of), fmt.Sprint(of.Parts)
		if !reached[i] {
			state, parts = "unreachable", "-"
		}
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(of.Labels)) {
			labels = append(labels, name+"="+of.Labels[name])
		}
		rows = append(rows, []string{of.Name, of.Address, cmp.Or(strings.Join(labels, ","), "-"), fmt.Sprint(of.CPUs), of.Version, state, parts})
	}
	for _, b := range broken {
		rows = append(rows, []string{b.Name, "-", "-", "-", "-", "broken: " + b.Reason, "-"})
	}
	return output.Table(a.stdout, rows)
}

// stateOf says whether an agent takes new parts.
func stateOf(of *registry.Agent) string {
	switch {
	case of.Cordoned:
		return "cordoned"
	case of.Held:
		return "held"
	case of.ReservedBy != "":
		return "reserved"
	}
	return "ready"
}

// drain cordons an agent, and waits until its parts have ended.
func drain(ctx context.Context, r *registry.Registry, m *identity.Member, name string) error {
	if err := r.SetCordoned(ctx, name, true); err != nil {
		return err
	}
	for {
		all, _, err := r.Agents(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(of registry.Agent) bool { return of.Name == name })
		if at < 0 {
			return nil // it has ended, and its parts with it
		}
		if parts, err := fleet.Parts(ctx, m, all[at].Address); err == nil && parts == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(drainPeriod):
		}
	}
}

// A choice is how flags choose agents.
type choice struct {
	given     bool // --fleet
	selector  string
	count     int
	exclusive bool
	control   controlPlane
	// reservation is that of the machines which a task waits for; nil: none.
	reservation *registry.Reservation
}

func (c *choice) flags(f *pflag.FlagSet) {
	f.Func("fleet", "have the agents carry the load whose labels match `SELECTOR`, as in zone=1,disk!=slow (dyno fleet); empty: all agents", func(text string) error {
		c.given, c.selector = true, text
		return nil
	})
	f.IntVar(&c.count, "agents", 0, "have `N` agents of the fleet carry the load, those with the fewest parts first (default all that --fleet matches)")
	f.BoolVar(&c.exclusive, "exclusive", false, "have the agents of the fleet carry nothing else until this run has ended")
	c.control.flags(f)
}

// wanted tells whether agents are chosen at all.
func (c *choice) wanted() bool { return c.given || c.count != 0 || c.exclusive }

// parse checks what the flags say.
func (c *choice) parse() (selector.Selector, error) {
	if c.count < 0 {
		return selector.Selector{}, exit.Misused("as in: --agents 4", "--agents: %d is not a number of agents", c.count)
	}
	by, err := selector.Parse(c.selector)
	if of := (*selector.Error)(nil); errors.As(err, &of) {
		return selector.Selector{}, exit.Misused(of.Hint, "--fleet: %v", err)
	}
	return by, err
}

// choose returns the agents, which are not those that the plan has placed processes on, and the hold on the machines
// of all, which is nil unless it was asked for. The run closes the registry.
func (c *choice) choose(ctx context.Context, m *identity.Member, placed []registry.Agent) ([]registry.Agent, *registry.Registry, *registry.Hold, error) {
	by, err := c.parse()
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := c.control.existing()
	if err != nil {
		return nil, nil, nil, err
	}
	chosen, hold, err := c.from(ctx, r, m, by, placed)
	if err != nil {
		r.Close()
		return nil, nil, nil, explainControl(err)
	}
	return chosen, r, hold, nil
}

func (c *choice) from(ctx context.Context, r *registry.Registry, m *identity.Member, by selector.Selector, placed []registry.Agent) ([]registry.Agent, *registry.Hold, error) {
	reachable, err := c.reachable(ctx, r, m, by, placed)
	if err != nil {
		return nil, nil, err
	}
	_ = r.Forget(ctx) // if it fails, a later load does it
	chosen, err := registry.Choose(reachable, registry.Want{Count: c.count, Alone: c.exclusive, By: c.reservation.ID()})
	if err != nil {
		return nil, nil, exit.With(exit.Usage, fmt.Errorf("--fleet: %w", err), "dyno fleet list shows the agents; dyno agent --control-plane URL starts one")
	}
	if !c.exclusive {
		return chosen, nil, nil
	}
	hold, err := r.Hold(ctx, slices.Concat(chosen, placed), c.reservation)
	return chosen, hold, err
}

// reachable returns the agents that match and answer, but for those that the plan has placed processes on.
func (c *choice) reachable(ctx context.Context, r *registry.Registry, m *identity.Member, by selector.Selector, placed []registry.Agent) ([]registry.Agent, error) {
	all, _, err := r.Agents(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(of registry.Agent) bool {
		return !by.Match(of.Labels) || slices.ContainsFunc(placed, func(p registry.Agent) bool { return p.Name == of.Name })
	})
	var reachable []registry.Agent
	for i, reached := range askParts(ctx, m, all) {
		if reached {
			reachable = append(reachable, all[i])
		}
	}
	return reachable, nil
}
