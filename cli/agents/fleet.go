package agents

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
)

// Command is about the agents that a control plane knows.
func (a *Access) Command() *cobra.Command {
	var control ControlPlane
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
		control.Flags(c.Flags())
		a.IdentityFlag(c.Flags())
		c.RunE = func(cmd *cobra.Command, args []string) error {
			m, err := a.coordinator()
			if err == nil {
				err = a.refuseRevoked(cmd.Context(), m, &control)
			}
			if err != nil {
				return err
			}
			return control.Use(registry.Fleet, func(r *registry.Registry) error { return run(cmd.Context(), r, m, append(args, "")[0]) })
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
func (a *Access) revokeCommand() *cobra.Command {
	var (
		control ControlPlane
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
			return control.Use(registry.Trust, func(r *registry.Registry) error {
				if undo {
					return r.Reinstate(cmd.Context(), v)
				}
				return r.Revoke(cmd.Context(), v)
			})
		},
	}
	control.Flags(cmd.Flags())
	cmd.Flags().StringVar(&serial, "serial", "", "revoke the one certificate with this `NUMBER`, in hexadecimal")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the revocation back")
	return cmd
}

func (a *Access) revokedCommand() *cobra.Command {
	var control ControlPlane
	cmd := &cobra.Command{
		Use: "revoked", Short: "List who is revoked", Example: "  dyno fleet revoked", Args: arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []registry.Revocation
			err := control.Use(registry.Trust, func(r *registry.Registry) (err error) {
				all, err = r.Revoked(cmd.Context())
				return err
			})
			if err != nil {
				return err
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
	control.Flags(cmd.Flags())
	return cmd
}

func (a *Access) listAgents(ctx context.Context, r *registry.Registry, m *identity.Member, _ string) error {
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

// drainPeriod is how long draining waits between looks at an agent.
const drainPeriod = 500 * time.Millisecond

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
