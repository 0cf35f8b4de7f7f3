package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// dryRunFlag adds --dry-run.
func dryRunFlag(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "check everything, and change nothing")
}

// change makes a change, on condition that the resource still has the entity tag; "" is that there is none yet, and
// anything is without a condition.
func change(ctx context.Context, c *client.Client, r client.Request, tag string, dry bool) (*client.Answer, []byte, error) {
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
	return ask(ctx, c, r)
}

// anything is the tag of a change without a condition.
const anything = "*"

// report prints a line about the change.
func report(cmd *cobra.Command, r resource.Ref, what string, version int64, dry bool) error {
	line := terminal.Line(string(r.Kind) + "/" + r.Name)
	if r.ID != "" {
		line += "/" + terminal.Line(r.ID)
	}
	line += " " + what
	if version > 0 {
		line += fmt.Sprintf(", version %d", version)
	}
	if dry {
		line += " (dry run)"
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}

// versionOf reads a document's version.
func versionOf(raw []byte) int64 {
	var d struct {
		Version int64 `json:"version"`
	}
	if json.Unmarshal(raw, &d) != nil {
		return 0
	}
	return d.Version
}

func (s *session) applyCommand() *cobra.Command {
	var (
		files []string
		dry   bool
	)
	cmd := &cobra.Command{
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
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misused("as in: "+cmd.UseLine(), "%s: want no arguments, got %q", cmd.CommandPath(), args[0])
			}
			if len(files) == 0 {
				return exit.Misused("such as -f policies.yaml, or -f - for standard input", "--filename: must be given")
			}
			return nil
		},
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, _ []string, c *client.Client) error {
		var docs []*parsed
		var faults []error
		for _, name := range files {
			text, err := readFile(name, cmd.InOrStdin(), maxFile)
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
		return apply(cmd, c, list, dry)
	})
	f := cmd.Flags()
	f.StringArrayVarP(&files, "filename", "f", nil, "`FILE` to apply, - is standard input; may be repeated")
	dryRunFlag(cmd, &dry)
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
func apply(cmd *cobra.Command, c *client.Client, list []*manifest, dry bool) error {
	ctx := cmd.Context()
	var steps []step
	var faults []error
	for _, w := range list {
		st, err := plan(ctx, c, w)
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
	return carryOut(cmd, c, steps, dry)
}

// carryOut makes changes. An unchanged instance gets a heartbeat.
func carryOut(cmd *cobra.Command, c *client.Client, steps []step, dry bool) error {
	ctx := cmd.Context()
	var failed []error
	for _, st := range steps {
		var body []byte
		var err error
		switch {
		case dry || st.what == unchanged && st.Kind != resource.Instances:
		case st.what == unchanged:
			_, _, err = ask(ctx, c, client.Request{Method: http.MethodPost, Path: st.path() + "/heartbeat", Query: in(st.Namespace)})
		default:
			_, body, err = change(ctx, c, st.request(), st.tag, false)
			st.version = versionOf(body)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %s: %w", st.where("#"), st.Ref, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if dry && st.what == created {
			st.version = 0 // there is none yet
		}
		if err := report(cmd, st.Ref, st.what, st.version, dry); err != nil {
			return err
		}
		for _, text := range st.limitations {
			if _, err := fmt.Fprintln(cmd.ErrOrStderr(), terminal.Line("note: "+string(st.Kind)+"/"+st.Name+": "+text)); err != nil {
				return err
			}
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
	return client.Request{Method: http.MethodPut, Path: w.path(), Query: in(w.Namespace), Body: w.sent()}
}

func (w *manifest) path() string {
	if w.Kind == resource.Instances {
		return instancePath(w.Name, w.ID)
	}
	return path(kind(w.Kind), w.Name)
}

// plan finds out the step of a manifest, by a dry run.
func plan(ctx context.Context, c *client.Client, w *manifest) (step, error) {
	st := step{manifest: w, what: created}
	var old []byte
	answer, body, err := ask(ctx, c, client.Request{Method: http.MethodGet, Path: w.path(), Query: in(w.Namespace)})
	switch {
	case err == nil:
		st.what, st.tag, st.version, old = changed, answer.Header.Get("ETag"), versionOf(body), body
	case !missing(err):
		return st, err
	}
	checked, next, err := change(ctx, c, w.request(), st.tag, true)
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
		dry, secret bool
		mediaType   string
		labels      map[string]string
	)
	cmd := &cobra.Command{
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
			return completeKinds(configs)(cmd, args, begun)
		},
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		if _, err := kindOf(args[0], configs); err != nil {
			return err
		}
		r := resource.Ref{Kind: resource.Configs, Namespace: s.space(), Name: args[1]}
		text, err := readFile(args[2], cmd.InOrStdin(), maxFile)
		if err != nil {
			return exit.With(exit.Usage, err, "")
		}
		ctx := cmd.Context()
		one := resource.Config{}
		what, tag := created, ""
		switch e, current, err := s.fetch(ctx, c, configs, path(configs, r.Name)); {
		case err == nil:
			one, what, tag = *e.doc.(*resource.Config), changed, current
		case !missing(err):
			return err
		}
		one.Namespace, one.Name, one.Release = r.Namespace, r.Name, nil // a put leaves the release as it is
		one.SetData(string(text))
		flags := cmd.Flags()
		if flags.Changed("type") {
			one.ContentType = mediaType
		}
		if flags.Changed("secret") {
			one.Secret = secret
		}
		if flags.Changed("label") {
			one.Labels = labels
		}
		_, answer, err := change(ctx, c, client.Request{Method: http.MethodPut, Path: path(configs, r.Name), Query: in(r.Namespace), Body: one}, tag, dry)
		if err != nil {
			return err
		}
		return report(cmd, r, what, versionOf(answer), dry)
	})
	f := cmd.Flags()
	f.StringVar(&mediaType, "type", "", "the content's media type")
	f.BoolVar(&secret, "secret", false, "show the content only to readers of secrets; --secret=false ends that")
	f.StringToStringVar(&labels, "label", nil, "labels, as NAME=VALUE")
	dryRunFlag(cmd, &dry)
	return cmd
}

func (s *session) deleteCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:               "delete KIND NAME…",
		Short:             "Remove policies, configurations, principals or roles, whose history stays, or counters; end sessions",
		Example:           "  dyno ctl delete policies a b\n  dyno ctl delete config/limits",
		Args:              atLeast(1, "a kind and names"),
		ValidArgsFunction: completeKinds(append(applied, sessions, counters)...),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		refs, err := named(args, append(applied, sessions, counters)...)
		if err != nil {
			return err
		}
		var failed []error
		for _, r := range refs {
			if err := s.remove(cmd, c, r, path(kind(r.Kind), r.Name), dry); err != nil {
				failed = append(failed, fmt.Errorf("%s/%s: %w", r.Kind, r.Name, err))
			}
		}
		return errors.Join(failed...)
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

func (s *session) remove(cmd *cobra.Command, c *client.Client, r resource.Ref, place string, dry bool) error {
	_, _, err := change(cmd.Context(), c, client.Request{Method: http.MethodDelete, Path: place, Query: in(s.space())}, anything, dry)
	if err != nil {
		return err
	}
	return report(cmd, r, "removed", 0, dry)
}
