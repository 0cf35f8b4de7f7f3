package agents

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/internal/settings"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/registry"
)

// authorityConfig says where machines join a fleet.
type authorityConfig struct {
	Listen      string        `yaml:"listen" default:"127.0.0.1:7200" doc:"where machines join: a numeric address and a port. It must be a loopback address unless allow_remote is set"`
	AllowRemote bool          `yaml:"allow_remote" doc:"permit addresses that other machines reach; nobody joins without a token"`
	Address     string        `yaml:"address" otherwise:"that of listen" doc:"host:port at which other machines reach it"`
	Folder      string        `yaml:"folder" kind:"path" default:"fleet" doc:"the folder of the fleet's keys. A reader of it controls the fleet"`
	Members     int           `yaml:"members" range:"1..10000" default:"10" doc:"how many machines can join with the token"`
	TokenLife   time.Duration `yaml:"token_life" range:"1s..8760h" default:"24h" doc:"how long the token holds"`
	TokenFile   string        `yaml:"token_file" kind:"path" otherwise:"another token at each start" doc:"the file that keeps the token, made if it is not there. The token is printed nowhere then, and holds for token_life and members again at each start"`
}

// Check reports how fields have to go together, beyond what their tags say.
func (c *authorityConfig) Check(r *fields.Report) {
	at, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		r.Fault("listen", strconv.Quote(c.Listen)+" is no numeric address with a port", "such as 127.0.0.1:7200")
		return
	}
	r.Check(c.AllowRemote || at.Addr().IsLoopback(), "listen", strconv.Quote(c.Listen)+" can be reached from other machines", "use 127.0.0.1 or ::1, or set allow_remote")
	r.Check(!at.Addr().IsUnspecified() || c.Address != "", "listen", strconv.Quote(c.Listen)+" is no address to connect to", "say with --address how other machines reach it")
	if c.Address != "" {
		_, _, err := net.SplitHostPort(c.Address)
		r.Check(err == nil, "address", strconv.Quote(c.Address)+" is no host:port", "such as 10.0.0.1:7200")
	}
}

func (a *Access) authorityCommand() *cobra.Command {
	c := fields.Default[authorityConfig]()
	s := settings.New(&c)
	var control ControlPlane
	cmd := &cobra.Command{
		Use:   "authority",
		Short: "Let machines join a fleet, and renew their certificates",
		Long: `Let machines join a fleet, and renew their certificates.

It makes the fleet's keys on first use, and a token each time. It prints the commands that use them:
one joins on another machine, one has it carry a load from here. Both sides of every connection
verify each other by certificates: those of agents hold for 7 days, those of coordinators for 30.
The authority must run when machines join or renew their certificates, and not during loads.

With --control-plane it renews no certificate that was revoked there: dyno fleet revoke.`,
		Example: `  dyno fleet authority --listen 10.0.0.1:7200 --allow-remote
  DYNO_JOIN_TOKEN=TOKEN dyno agent --join 10.0.0.1:7200 --identity agent --listen 10.0.0.2:7300 --allow-remote
  dyno http --identity fleet --agent 10.0.0.2:7300 -R 5000 http://10.0.0.3:8080/`,
		Args: arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Read()
			if err := s.Validate(c.Check); err != nil {
				return err
			}
			return a.serveAuthority(cmd.Context(), &c, &control, slog.New(slog.NewJSONHandler(a.stderr, nil)))
		},
	}
	s.AddFlags(cmd.Flags())
	control.Flags(cmd.Flags())
	return cmd
}

// An awaitedTrust admits no certificate until the control plane has said who is revoked.
type awaitedTrust struct {
	*identity.Member
	known atomic.Bool
}

// Admits implements identity.Trust.
func (t *awaitedTrust) Admits(c *x509.Certificate) error {
	if !t.known.Load() {
		return errors.New("the control plane has not said yet who is revoked")
	}
	return t.Member.Admits(c)
}

// trust returns what says whose certificate is not renewed: who is revoked in the control plane, if one is named.
func (a *Access) trust(ctx context.Context, control *ControlPlane, coordinator *identity.Member, log *slog.Logger) (identity.Trust, error) {
	addresses := control.Addresses()
	if len(addresses) == 0 {
		return coordinator, nil
	}
	r, err := control.Open(registry.Trust, addresses, log)
	if err != nil {
		return nil, err
	}
	t := &awaitedTrust{Member: coordinator}
	a.followRevoked(ctx, r, log, func(revoked *identity.Revocations) {
		if err := coordinator.SetRevoked(revoked); err != nil {
			log.Warn("the authority's own certificate", "error", err)
		}
		t.known.Store(true)
	})
	return t, nil
}

// joining returns the command by which machines join at an address. The token is none of its arguments: others see these.
func (c *authorityConfig) joining(authority *identity.Authority, address string) (string, error) {
	if c.TokenFile == "" {
		token, err := authority.Token(identity.Agent, c.TokenLife, c.Members)
		return fmt.Sprintf("%s=%s dyno agent --join %s", agent.JoinTokenVariable, token, address), err
	}
	text, err := secretfile.Read(c.TokenFile)
	switch {
	case err == nil:
		err = authority.Accept(strings.TrimSpace(string(text)), identity.Agent, c.TokenLife, c.Members)
	case errors.Is(err, os.ErrNotExist):
		var made string
		if made, err = authority.Token(identity.Agent, c.TokenLife, c.Members); err == nil {
			err = os.WriteFile(c.TokenFile, []byte(made), 0o600)
		}
	}
	if err != nil {
		return "", exit.With(exit.Usage, fmt.Errorf("--token-file: %w", err), "the file that --token-file made earlier, for the authority in --folder")
	}
	return fmt.Sprintf("dyno agent --join %s --join-token-file %s", address, c.TokenFile), nil
}

// serveAuthority lets machines join until ctx ends.
func (a *Access) serveAuthority(ctx context.Context, c *authorityConfig, control *ControlPlane, log *slog.Logger) error {
	authority, err := identity.Open(c.Folder)
	if err != nil {
		return exit.With(exit.Usage, err, "--folder names the folder of the fleet's keys")
	}
	coordinator, err := authority.Member("authority", identity.Coordinator)
	if err != nil {
		return err
	}
	file := filepath.Join(c.Folder, identity.MemberFile)
	if err := coordinator.Save(file); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return exit.With(exit.Usage, err, "--listen says where machines join")
	}
	join, err := c.joining(authority, cmp.Or(c.Address, l.Addr().String()))
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_, err = fmt.Fprintf(a.stdout, `Up to %d machines join within %v:
  %s --identity agent --listen ADDRESS:7300 --allow-remote
They carry loads from here:
  dyno http --identity %s --agent ADDRESS:7300 URL
`, c.Members, c.TokenLife, join, c.Folder)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var ended error // the certificate
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if ended = coordinator.Keep(ctx, l.Addr().String(), file, log); ended != nil {
			end()
		}
	})
	trust, err := a.trust(ctx, control, coordinator, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	err = authority.Serve(ctx, l, coordinator, trust, log)
	end()
	keeping.Wait()
	return errors.Join(err, ended)
}
