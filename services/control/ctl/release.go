package ctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/resource"
)

func (s *session) historyCommand() *cobra.Command {
	return s.showing(&cobra.Command{
		Use:               "history KIND NAME",
		Short:             "Show the versions that are kept, oldest first",
		Example:           "  dyno ctl history config limits\n  dyno ctl get config limits --version 3 -o yaml",
		Args:              atLeast(1, "a kind and a name"),
		ValidArgsFunction: completeKinds(applied...),
	}, func(c *call, args []string) error {
		r, err := namedOne(args, applied...)
		if err != nil {
			return err
		}
		return c.all(r.Kind, c.each(r.Kind, r.Address()+"/history", in(c.space())), maxEntries)
	})
}

func (s *session) releaseCommand() *cobra.Command {
	var (
		percent float64
		labels  []string
	)
	cmd := s.changing(&cobra.Command{
		Use:   "release NAME FILE",
		Short: "Begin a gray release of a configuration or a policy, or change it",
		Long: `Begin a gray release of a configuration (NAME) or a policy (policy/NAME), or change it: some
clients have the content of a file, - for standard input, instead. Of a policy, the file has the
rules, as for apply. These clients are a share of all (--percent), or have one of the values of
every label (--label zone=a,b --label tier=test), or both.

dyno ctl promote gives it to everybody, dyno ctl withdraw to nobody.`,
		Example: "  dyno ctl release limits new-limits.json --percent 5\n  dyno ctl release policy/canary canary-2.yaml --label zone=a",
		Args:    exactly(2, "a name and a file"),
	}, func(c *call, args []string) error {
		text, err := readFile(args[1], c.cmd.InOrStdin(), maxFile)
		if err != nil {
			return exit.With(exit.Usage, err, "")
		}
		r, err := releasable(args[0])
		if err != nil {
			return err
		}
		body := resource.Choice{Percent: percent}
		for _, l := range labels {
			name, values, ok := strings.Cut(l, "=")
			if !ok || name == "" || values == "" {
				return exit.Misused("such as --label zone=a,b", "--label: %q: want NAME=VALUE,VALUE", l)
			}
			if body.Labels == nil {
				body.Labels = map[string][]string{}
			}
			body.Labels[name] = append(body.Labels[name], strings.Split(values, ",")...)
		}
		if percent == 0 && len(labels) == 0 {
			return exit.Misused("such as --percent 5", "--percent or --label: must be given")
		}
		one := resource.Release{Choice: body}
		one.SetData(string(text))
		var document any = one
		if r.Kind == resource.Policies {
			rules, err := rulesOf(args[1], text)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			document = struct {
				Rules any `json:"rules"`
				resource.Choice
			}{rules, body}
		}
		return c.act(r, http.MethodPut, "/release", document, "released to "+release(&body))
	})
	f := cmd.Flags()
	f.Float64Var(&percent, "percent", 0, "this share of all clients, from 0 to 100")
	f.StringArrayVar(&labels, "label", nil, "clients with this label, as `NAME=VALUE,VALUE`; may be repeated")
	return cmd
}

// released are the kinds that have gray releases.
var released = []resource.Kind{resource.Configs, resource.Policies}

// releasable parses the name of a configuration, or KIND/NAME.
func releasable(arg string) (resource.Ref, error) {
	word, _, slash := strings.Cut(arg, "/")
	if _, err := kindOf(word, released...); slash && err == nil {
		return namedOne([]string{arg}, released...)
	}
	return resource.Ref{Kind: resource.Configs, Name: arg}, nil
}

// rulesOf reads the rules of a file with one policy, or with nothing but rules.
func rulesOf(name string, text []byte) (any, error) {
	docs, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: has %d documents: want one with rules", name, len(docs))
	}
	fields, _ := docs[0].value.(map[string]any)
	rules, ok := fields["rules"]
	if !ok {
		return nil, fmt.Errorf("%s: has no rules", docs[0].where("#"))
	}
	return rules, nil
}

func (s *session) registerCommand() *cobra.Command {
	var (
		i            resource.Instance
		keep         bool
		status       string
		checks       []string
		every, after time.Duration
	)
	cmd := s.asking(&cobra.Command{
		Use:   "register SERVICE ID --address HOST --port PORT",
		Short: "Register an instance of a service",
		Long: `Register an instance of a service, or change it. It ends after --ttl without a sign of life.
With --keep, this command gives them until it is interrupted, and then takes the instance off.

With --check, the control plane asks the instance itself: TYPE or TYPE:WHAT, where TYPE is http (WHAT is a path),
tcp, grpc (a service), tls or command (a program of the control plane's folder of commands). A check that needs more
is in an instance's document: see the manual.`,
		Example: `  dyno ctl register shop 3 --address 10.0.0.3 --port 80 --check http:/healthz --deregister-after 10m
  dyno ctl register shop 1 --address 10.0.0.1 --port 80 --keep
  dyno ctl register shop 2 --address 10.0.0.2 --port 80 --ttl 3600 --metadata version=2,canary=`,
		Args: exactly(2, "a service and an ID"),
	}, func(c *call, args []string) error {
		i.Namespace, i.Service, i.ID, i.Status = s.space(), args[0], args[1], resource.Status(status)
		i.DeregisterAfter = after.Seconds()
		for _, text := range checks {
			c, err := checkOf(text, every)
			if err != nil {
				return err
			}
			i.Checks = append(i.Checks, c)
		}
		if i.Checked() && !c.cmd.Flags().Changed("ttl") {
			i.TTL = 0
		}
		if err := i.Check(resource.DefaultLimits()); err != nil {
			return exit.With(exit.Usage, err, "dyno ctl register --help lists the flags")
		}
		r := i.Ref()
		if !keep {
			return c.act(r, http.MethodPut, "", i, "registered")
		}
		if err := c.probe(resource.Instances); err != nil {
			return err
		}
		kept, err := c.Register(i)
		if err != nil {
			return err
		}
		if err := kept.Ready(c.ctx()); c.ctx().Err() != nil {
			return c.takeOff(kept, r)
		} else if err != nil {
			return err // it is not registered
		}
		if err := c.report(r, "registered, until this is interrupted", 0); err != nil {
			return err
		}
		<-c.ctx().Done()
		return c.takeOff(kept, r)
	})
	f := cmd.Flags()
	f.StringVar(&i.Address, "address", "", "where it is: an IP address or a host name")
	f.IntVar(&i.Port, "port", 0, "and its port")
	f.StringVar(&i.Zone, "zone", "", "its zone")
	f.IntVar(&i.Weight, "weight", resource.DefaultWeight, "its share of the requests; 0 asks for none")
	f.StringToStringVar(&i.Metadata, "metadata", nil, "whatever else there is to know, as NAME=VALUE; a tag is NAME=")
	f.StringVar(&status, "status", string(resource.Up), "up, down or draining")
	f.Float64Var(&i.TTL, "ttl", resource.DefaultTTL, "seconds without a sign of life after which it counts as gone")
	f.StringArrayVar(&checks, "check", nil, "how the control plane finds out whether it can take requests, instead of --ttl; may be given more than once")
	f.DurationVar(&every, "check-interval", 10*time.Second, "from one check to the next")
	f.DurationVar(&after, "deregister-after", 0, "take it off when it has been critical for so long; 0 is never")
	f.BoolVar(&keep, "keep", false, "give signs of life until interrupted")
	return cmd
}

// checkOf parses TYPE or TYPE:WHAT.
func checkOf(text string, every time.Duration) (resource.Check, error) {
	kind, what, given := strings.Cut(text, ":")
	c := resource.Check{Type: kind, Interval: every.Seconds()}
	field := map[string]*string{"http": &c.Path, "grpc": &c.Service, "command": &c.Command}[kind]
	switch {
	case field != nil:
		*field = what
	case given:
		return c, exit.Misused("http:/PATH, tcp, grpc:SERVICE, tls or command:PROGRAM", "--check %q: nothing can follow %q", text, kind)
	}
	return c, nil
}

func (s *session) statusCommand() *cobra.Command {
	return s.showing(&cobra.Command{
		Use:   "status",
		Short: "Show the state of the control plane",
		Args:  exactly(0, "no arguments"),
	}, func(c *call, _ []string) error {
		if c.form != asJSON {
			c.form = asYAML // there is no table of it
		}
		var raw json.RawMessage
		if err := get(c.ctx(), c.Client, "/v1/status", nil, &raw); err != nil {
			return err
		}
		return c.text(raw)
	})
}
