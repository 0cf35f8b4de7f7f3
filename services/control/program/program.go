// Package program is the command line of dyno-control, the control plane. dyno starts it by dyno serve control. It is
// a separate program, so that dyno links neither etcd nor grpc-go.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/hangup"
	"dyno/internal/settings"
	"dyno/internal/terminal"
	"dyno/services/control"
)

// Name is the program's name.
const Name = "dyno-control"

// Main runs the program until it ends by itself or by a signal. A second signal ends it at once. It prints errors,
// and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return Tuned(ctx, args, stdout, stderr, nil)
}

// Tuned is Main with another server of HTTP: see control.Config.Tune.
func Tuned(ctx context.Context, args []string, stdout, stderr io.Writer, tune func(*http.Server)) int {
	stdout, stderr = terminal.Cleaned(stdout), terminal.Cleaned(stderr)
	a := &app{stderr: stderr, tune: tune}
	return command.Main(ctx, a.command(), args, stdout, stderr)
}

// An app is one run of the program.
type app struct {
	stderr io.Writer
	tune   func(*http.Server)
}

// Options are the configuration of the program.
type Options struct {
	control.Config
	Collector collector `yaml:",inline"`
	Scratch   bool      `yaml:"scratch" doc:"a new folder in the system's temporary one instead of data, removed at the end: for measurements"`
	Replica   string    `yaml:"replica" otherwise:"the host's and the process's" doc:"this replica's name among those of a cluster"`
	Restore   string    `yaml:"restore" kind:"path" doc:"fill the empty store from this backup first"`
}

// Defaults returns the options that every field starts from.
func Defaults() Options {
	o := fields.Default[Options]()
	o.Complete()
	return o
}

// Check reports violations of rules across options, which tags cannot express.
func (o Options) Check(r *fields.Report) {
	r.Check(!o.Scratch || o.Store.Dir == "" && len(o.Store.Endpoints) == 0, "scratch", "is instead of data or etcd", "leave these out")
	if o.Scratch {
		o.Store.Dir = "scratch"
	}
	r.Check(o.Restore == "" || len(o.Store.Peers) <= 1, "restore", "is for one replica, which the others join", "give it --peers with itself alone, and start the others with --join; or restore into a cluster at --etcd")
	o.Collector.check(r)
	o.Config.Check(r)
}

func (a *app) command() *cobra.Command {
	c := Defaults()
	s := settings.New(&c)
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Keep services, configuration and policies, and tell who watches",
		Long: `Keep services, configuration and policies, and tell who watches.

Everything is in etcd: one of its own in --data, or a cluster at --etcd. With --name and
--peers the etcds of several replicas are members of one cluster.

Make a policy:  curl -d '{"name":"a","rules":[{"action":"deny"}]}' -H 'Content-Type: application/json' http://HOST/v1/policies
Watch:          curl -N -H 'Accept: text/event-stream' http://HOST/v1/watch
Look at it:     http://HOST/console/ in a browser
All operations: curl http://HOST/v1/openapi.json; by gRPC, services/control/rpc/control.proto

It listens on loopback only, unless --allow-remote and --principals are given.
--principals is a file in YAML:

  principals:
    - name: deployer
      token_sha256: …                # printf %s TOKEN | sha256sum
      grants: [{namespace: shop, role: editor}]

Roles are reader, registrar (for services), writer (who reads no secrets), editor and admin; namespace
"*" is all. All others are kept in the store: dyno ctl apply and dyno ctl token create make them.
People show tokens of --oidc-issuer.

This file, the certificate, the client CAs and the file of --config are read again within 10 s when
they have changed. Of --config, limits of numbers, rates and client CAs may change; another change needs a
restart. What a principal has begun, such as a watch, ends if they are known no more, by another token
or certificate, or with other grants; they come back by what holds now. All others go on. A file with
a fault is not taken: what was before holds, the log says why, and it is tried again every 10 s. An --admin that other machines reach asks for the token of --admin-token-file.`,
		Example: `  dyno-control --listen 127.0.0.1:7100 --data control.d
  dyno-control --listen 127.0.0.1:7100 --etcd 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 --replica a
  dyno-control --listen 127.0.0.1:7100 --data new.d --restore backup.jsonl
  dyno-control --listen 127.0.0.1:7100 --data a.d --name a --peers a=127.0.0.1:7180,b=127.0.0.1:7280,c=127.0.0.1:7380`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangup.Outlive(cmd.Context())
			s.Read()
			if err := c.complete(s.Given); err != nil {
				return err
			}
			if err := s.Validate(c.Check); err != nil {
				return exit.Misused("", "%w", err)
			}
			if c.Scratch {
				folder, err := os.MkdirTemp("", Name+"-")
				if err != nil {
					return fmt.Errorf("--scratch: %w", err)
				}
				defer os.RemoveAll(folder) //nolint:errcheck // it is the system's to clean up what remains
				c.Store.Dir = folder
			}
			c.Logger = command.Logger(a.stderr, s.Verbose)
			c.Tune = a.tune
			c.Collector.set()
			if c.Restore != "" {
				if err := restoreControl(cmd, c.Config, c.Restore); err != nil {
					return err
				}
			}
			if first := c; s.File != "" {
				c.File, c.Reread = s.File, func() (control.Config, error) { return reread(s, first) }
			}
			server, err := control.New(c.Config)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			return server.Serve(cmd.Context())
		},
	}
	s.AddFlags(cmd.Flags())
	return cmd
}

// complete sets options that follow from others, unless they are given.
func (o *Options) complete(given func(field string) bool) error {
	name := cmp.Or(o.Replica, o.Store.Name)
	if len(o.Store.Endpoints) > 0 {
		if !given("compact_period") {
			o.Store.CompactPeriod = 0 // a cluster has other users' keys, and its operator compacts
		}
		if name == "" {
			host, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("host name: %w", err)
			}
			name = fmt.Sprintf("%s-%d", host, os.Getpid())
		}
	}
	o.Plane.Replica = cmp.Or(name, o.Plane.Replica)
	return nil
}

// reread reads the configuration again, from the same file and flags. It may differ from the first one only in fields
// that change without a restart.
func reread(s *settings.Settings, first Options) (control.Config, error) {
	next := Defaults()
	again := s.Again(&next)
	again.Read()
	if err := next.complete(again.Given); err != nil {
		return next.Config, err
	}
	if err := again.Validate(next.Check); err != nil {
		return next.Config, err
	}
	next.Store.Dir = cmp.Or(next.Store.Dir, first.Store.Dir) // --scratch made the first one's
	if fixed := settings.Fixed(first, next); len(fixed) > 0 {
		return next.Config, fmt.Errorf("%s: %s: needs a restart to change", s.File, strings.Join(fixed, ", "))
	}
	return next.Config, nil
}

// restoreControl fills the store from a backup.
func restoreControl(cmd *cobra.Command, c control.Config, file string) error {
	backup, err := os.Open(file)
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("--restore: %w", err), "")
	}
	defer backup.Close() //nolint:errcheck // it was only read
	c.Store.Logger = c.Logger
	if err := control.Restore(cmd.Context(), c.Store, backup); err != nil {
		hint := ""
		if !errors.Is(err, fs.ErrNotExist) {
			hint = "a backup is restored into an empty store, in one go"
		}
		return exit.With(exit.Failed, fmt.Errorf("--restore: %w", err), hint)
	}
	c.Logger.Info("restored", "backup", file)
	return nil
}
