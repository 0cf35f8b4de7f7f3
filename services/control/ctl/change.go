package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// change makes a change, on condition that the resource still has the entity tag; "" is that there is none yet, and
// anything is without a condition.
func (c *call) change(r client.Request, tag string, dry bool) (*client.Answer, []byte, error) {
	r.Header = http.Header{}
	switch tag {
	case "":
		r.Header.Set("If-None-Match", "*")
	case anything:
	default:
		r.Header.Set("If-Match", tag)
	}
	if dry {
		r.Query = maps.Clone(r.Query)
		r.Query.Set("dry_run", "true")
	}
	return ask(c.ctx(), c.Client, r)
}

// anything is the tag of a change without a condition.
const anything = "*"

// act makes a change of one resource, at a place below its own, and prints a line about it.
func (c *call) act(r resource.Ref, method, place string, body any, done string) error {
	_, answer, err := c.change(client.Request{Method: method, Path: addressOf(r) + place, Query: in(c.space()), Body: body}, anything, c.dry)
	if err != nil {
		return err
	}
	return c.report(r, done, versionOf(answer))
}

// gone is what is said of a removal.
const gone = "removed"

// report prints a line about a change.
func (c *call) report(r resource.Ref, what string, version int64) error {
	line := string(r.Kind) + "/" + r.Name
	if r.ID != "" {
		line += "/" + r.ID
	}
	line += " " + what
	if version > 0 {
		line += fmt.Sprintf(", version %d", version)
	}
	if c.dry {
		line += " (dry run)"
	}
	return c.say("%s", line)
}

// versionOf reads a document's version; 0 is none.
func versionOf(raw []byte) int64 {
	var d resource.Change
	_ = json.Unmarshal(raw, &d) // what is no document has none
	return d.Version
}

// changeCommands returns the commands that make one change of what their arguments name.
func (s *session) changeCommands() []*cobra.Command {
	var (
		to     int64
		reason string
		end    bool
	)
	instance := func(args []string) resource.Ref {
		return resource.Ref{Kind: resource.Instances, Name: args[0], ID: args[1]}
	}
	rollback := s.changing(&cobra.Command{
		Use:               "rollback KIND NAME --to VERSION",
		Short:             "Make an earlier version the next one",
		Example:           "  dyno ctl rollback config/limits --to 3",
		Args:              atLeast(1, "a kind and a name"),
		ValidArgsFunction: completeKinds(released...),
	}, func(c *call, args []string) error {
		r, err := namedOne(args, released...)
		if err != nil {
			return err
		}
		if to < 1 {
			return exit.Misused("dyno ctl history lists the versions", "--to: must be given, from 1")
		}
		return c.act(r, http.MethodPost, "/rollback", map[string]int64{"version": to}, fmt.Sprintf("rolled back to version %d", to))
	})
	rollback.Flags().Int64Var(&to, "to", 0, "the `VERSION` to go back to")
	maintenance := s.asking(&cobra.Command{
		Use:   "maintenance SERVICE ID --reason WHY",
		Short: "Keep requests away from an instance, or end that",
		Example: `  dyno ctl maintenance shop 1 --reason "a new disk"
  dyno ctl maintenance shop 1 --end`,
		Args: exactly(2, "a service and an ID"),
	}, func(c *call, args []string) error {
		switch {
		case end == (reason != ""):
			return exit.Misused("dyno ctl maintenance SERVICE ID --reason WHY, or --end", "want either a reason or --end")
		case end:
			return c.act(instance(args), http.MethodDelete, "/maintenance", nil, "no longer in maintenance")
		}
		return c.act(instance(args), http.MethodPut, "/maintenance", map[string]string{"reason": reason}, "in maintenance")
	})
	maintenance.Flags().StringVar(&reason, "reason", "", "why, for those who look")
	maintenance.Flags().BoolVar(&end, "end", false, "end the maintenance")
	ending := func(use, short, method, place, done string) *cobra.Command {
		return s.changing(&cobra.Command{Use: use + " NAME", Short: short, Args: exactly(1, "a configuration's name, or policy/NAME")}, func(c *call, args []string) error {
			r, err := releasable(args[0])
			if err != nil {
				return err
			}
			return c.act(r, method, place, nil, done)
		})
	}
	removable := append(slices.Clone(applied), resource.Sessions, resource.Counters)
	return []*cobra.Command{
		rollback, maintenance,
		ending("promote", "End a gray release: all clients have it", http.MethodPost, "/promote", "promoted"),
		ending("withdraw", "End a gray release, for all clients", http.MethodDelete, "/release", "withdrawn"),
		s.changing(&cobra.Command{Use: "deregister SERVICE ID", Short: "Take an instance off", Args: exactly(2, "a service and an ID")}, func(c *call, args []string) error {
			return c.act(instance(args), http.MethodDelete, "", nil, gone)
		}),
		s.changing(&cobra.Command{
			Use:               "delete KIND NAME…",
			Short:             "Remove policies, configurations, principals or roles, whose history stays, or counters; end sessions",
			Example:           "  dyno ctl delete policies a b\n  dyno ctl delete config/limits",
			Args:              atLeast(1, "a kind and names"),
			ValidArgsFunction: completeKinds(removable...),
		}, func(c *call, args []string) error {
			refs, err := named(args, removable...)
			if err != nil {
				return err
			}
			var failed []error
			for _, r := range refs {
				if err := c.act(r, http.MethodDelete, "", nil, gone); err != nil {
					failed = append(failed, fmt.Errorf("%s/%s: %w", r.Kind, r.Name, err))
				}
			}
			return errors.Join(failed...)
		}),
	}
}

func (s *session) applyCommand() *cobra.Command {
	var files []string
	cmd := s.changing(&cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make policies, configurations, roles and principals as files say",
		Long: `Make policies, configurations, roles and principals as files say, in YAML or JSON, with
several documents each. A document has kind (policy, config, role or principal), name, perhaps
namespace, and the fields that the API has. What get writes with -o yaml or json can be applied.
A role must exist before principals have it: apply it before, by itself.

All documents are checked by the control plane before anything is changed. What is so already
stays; what somebody else changes meanwhile is refused. A gray release stays as it is.`,
		Example: `  dyno ctl apply -f policies.yaml --dry-run
  dyno ctl get configs -o yaml | dyno ctl apply -f -`,
		Args: exactly(0, "no arguments"),
	}, func(c *call, _ []string) error {
		if len(files) == 0 {
			return exit.Misused("such as -f policies.yaml, or -f - for standard input", "--filename: must be given")
		}
		var docs []*parsed
		var faults []error
		for _, name := range files {
			text, err := readFile(name, c.cmd.InOrStdin(), maxFile)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			if name == "-" {
				name = "standard input"
			}
			some, err := parse(name, text)
			docs, faults = append(docs, some...), append(faults, err)
		}
		var list []*manifest
		err := errors.Join(faults...)
		if err == nil {
			list, err = manifests(docs, s.space(), s.namespace)
		}
		if err == nil && len(list) == 0 {
			err = errors.New("there is no document in " + strings.Join(files, ", "))
		}
		if err != nil {
			return exit.With(exit.Usage, err, "")
		}
		return c.apply(list)
	})
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "`FILE` to apply, - is standard input; may be repeated")
	return cmd
}

// A step is the change that a manifest needs.
type step struct {
	*manifest
	what    string // created, changed or unchanged
	tag     string
	version int64 // the present version
	// limitations says what connected data planes cannot do of a policy.
	limitations []string
}

// apply checks all manifests, and then makes their changes.
func (c *call) apply(list []*manifest) error {
	var steps []step
	var faults []error
	for _, w := range list {
		st, err := c.plan(w)
		var p *client.Problem
		switch {
		case err == nil:
			steps = append(steps, st)
		case errors.As(err, &p) && len(p.Errors) > 0:
			faults = append(faults, w.located(p.Errors))
		case errors.As(err, &p):
			return fmt.Errorf("%s: %s: %w", w.where("#"), w.Ref, err)
		default:
			return err
		}
	}
	if len(faults) > 0 {
		return exit.With(exit.Usage, errors.Join(faults...), "nothing was changed")
	}
	return c.carryOut(steps)
}

// carryOut makes changes. An unchanged instance gets a heartbeat.
func (c *call) carryOut(steps []step) error {
	var failed []error
	for _, st := range steps {
		var body []byte
		var err error
		switch {
		case c.dry || st.what == unchanged && st.Kind != resource.Instances:
		case st.what == unchanged:
			_, _, err = ask(c.ctx(), c.Client, client.Request{Method: http.MethodPost, Path: st.Address() + "/heartbeat", Query: in(st.Namespace)})
		default:
			_, body, err = c.change(st.request(), st.tag, false)
			st.version = versionOf(body)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %s: %w", st.where("#"), st.Ref, err))
			if c.ctx().Err() != nil {
				break
			}
			continue
		}
		if c.dry && st.what == created {
			st.version = 0 // there is none yet
		}
		if err := c.report(st.Ref, st.what, st.version); err != nil {
			return err
		}
		for _, text := range st.limitations {
			c.note("note: %s/%s: %s", st.Kind, st.Name, text)
		}
	}
	return errors.Join(failed...)
}

// The kinds of steps.
const (
	created   = "created"
	changed   = "changed"
	unchanged = "unchanged"
)

func (w *manifest) request() client.Request {
	return client.Request{Method: http.MethodPut, Path: w.Address(), Query: in(w.Namespace), Body: w.body}
}

// plan finds out the step of a manifest, by a dry run.
func (c *call) plan(w *manifest) (step, error) {
	st := step{manifest: w, what: created}
	var old []byte
	answer, body, err := ask(c.ctx(), c.Client, client.Request{Method: http.MethodGet, Path: w.Address(), Query: in(w.Namespace)})
	switch {
	case err == nil:
		st.what, st.tag, st.version, old = changed, answer.Header.Get("ETag"), versionOf(body), body
	case !missing(err):
		return st, err
	}
	checked, next, err := c.change(w.request(), st.tag, true)
	if err != nil {
		return st, err
	}
	st.limitations = checked.Header.Values("Dyno-Limitation")
	if old != nil && alike(old, next) {
		st.what = unchanged
	}
	return st, nil
}

// alike reports whether two documents are equal apart from who changed them.
func alike(a, b []byte) bool {
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	for _, name := range append([]string{"holder"}, made...) { // of instances
		delete(x, name)
		delete(y, name)
	}
	return reflect.DeepEqual(x, y)
}

func (s *session) putCommand() *cobra.Command {
	var (
		secret    bool
		mediaType string
		labels    map[string]string
	)
	cmd := s.changing(&cobra.Command{
		Use:   "put config NAME FILE",
		Short: "Make a configuration's content that of a file",
		Long: `Make a configuration's content that of a file, - for standard input. What else there is
about it, such as that it is secret, stays as it is unless a flag says otherwise.`,
		Example: `  dyno ctl put config limits limits.json --type application/json
  pass show db | dyno ctl put config db-password - --secret`,
		Args: exactly(3, "config, a name and a file"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return completeKinds(resource.Configs)(cmd, args, begun)
		},
	}, func(c *call, args []string) error {
		if _, err := kindOf(args[0], resource.Configs); err != nil {
			return err
		}
		r := resource.Ref{Kind: resource.Configs, Namespace: s.space(), Name: args[1]}
		text, err := readFile(args[2], c.cmd.InOrStdin(), maxFile)
		if err != nil {
			return exit.With(exit.Usage, err, "")
		}
		one := resource.Config{}
		what, tag := created, ""
		switch e, current, err := c.fetch(c.ctx(), resource.Configs, r.Address()); {
		case err == nil:
			one, what, tag = *e.doc.(*resource.Config), changed, current
		case !missing(err):
			return err
		}
		one.Namespace, one.Name, one.Release = r.Namespace, r.Name, nil // a put leaves the release as it is
		one.SetData(string(text))
		given := c.cmd.Flags().Changed
		if given("type") {
			one.ContentType = mediaType
		}
		if given("secret") {
			one.Secret = secret
		}
		if given("label") {
			one.Labels = labels
		}
		_, answer, err := c.change(client.Request{Method: http.MethodPut, Path: r.Address(), Query: in(r.Namespace), Body: one}, tag, s.dry)
		if err != nil {
			return err
		}
		return c.report(r, what, versionOf(answer))
	})
	f := cmd.Flags()
	f.StringVar(&mediaType, "type", "", "the content's media type")
	f.BoolVar(&secret, "secret", false, "show the content only to readers of secrets; --secret=false ends that")
	f.StringToStringVar(&labels, "label", nil, "labels, as NAME=VALUE")
	return cmd
}
