package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// page is the number of entries per request, and maxEntries the default limit of entries shown.
const (
	pageLimit  = 1000
	maxEntries = 10_000
)

func (s *session) getCommand() *cobra.Command {
	var (
		form    string
		watch   bool
		limit   int
		version int64
		prefix  string
		labels  []string
	)
	all := []kind{services, instances, configs, policies, sessions, locks, counters, principals, roles, rollouts, audits}
	cmd := &cobra.Command{
		Use:   "get KIND [NAME…]",
		Short: "Show services, instances, configs, policies, locks, counters, principals, roles, a rollout or the audit",
		Long: `Show services, instances, configs, policies, sessions, locks, counters, principals, roles, a rollout
or the audit.

Instances are those of all services, of a service, or one: get instances [SERVICE [ID]].
A rollout is one of a configuration or a policy: get rollout config/NAME.
The audit is of all namespaces unless one is given, its newest entries last.

With --watch what changes follows, until it is interrupted: in a table with put or remove, in
JSON a document a line.`,
		Example: `  dyno ctl get policies
  dyno ctl get config limits -o yaml
  dyno ctl get policy a --version 3 -o yaml
  dyno ctl get configs --prefix app/
  dyno ctl get instances shop --watch`,
		Args:              atLeast(1, "a kind"),
		ValidArgsFunction: completeKinds(all...),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		p, err := newPrinter(cmd, form)
		if err != nil {
			return err
		}
		if limit < 1 {
			return exit.Misused("such as --limit 100", "--limit: %d: must be 1 or more", limit)
		}
		g := &getter{session: s, client: c, printer: p, limit: limit, cmd: cmd, prefix: prefix, labels: labels}
		k, names, err := wanted(args, all)
		if err != nil {
			return err
		}
		if prefix != "" && (k == audits || k == rollouts || len(names) > 0) {
			return exit.Misused("such as dyno ctl get configs --prefix app/", "--prefix is for a list of services, instances, configs or policies")
		}
		if len(labels) > 0 && (k != instances || watch || len(names) > 1) {
			return exit.Misused("such as dyno ctl get instances shop --label version=2", "--label is for a list of instances")
		}
		if version != 0 && (!slices.Contains(applied, k) || len(names) != 1) {
			return exit.Misused("such as dyno ctl get policy a --version 3", "--version is for one policy, configuration, principal or role")
		}
		switch {
		case watch && (k == audits || k == rollouts || resource.Kind(k).OfAccess()):
			return exit.Misused("", "--watch is not for the %s", k)
		case watch:
			return g.watch(k, names)
		case k == rollouts:
			return g.rollout(names)
		case k == audits:
			return g.audit(names)
		case k == instances:
			return g.instances(names)
		case len(names) == 0:
			return g.all(k)
		}
		return g.some(k, names, version)
	})
	formFlag(cmd, &form)
	f := cmd.Flags()
	f.BoolVarP(&watch, "watch", "w", false, "show changes, too, until interrupted")
	f.IntVar(&limit, "limit", maxEntries, "how many entries are shown at most")
	f.StringVar(&prefix, "prefix", "", "only those whose name begins with it; of instances, their service's name")
	f.StringArrayVar(&labels, "label", nil, "only instances with this entry of metadata, as `NAME=VALUE`; may be repeated")
	f.Int64Var(&version, "version", 0, "an earlier one, as history lists them")
	return cmd
}

// wanted reads KIND NAME… and KIND/NAME….
func wanted(args []string, all []kind) (kind, []string, error) {
	if k, err := kindOf(args[0], all...); err == nil {
		return k, args[1:], nil
	}
	refs, err := named(args, all...)
	if err != nil {
		return "", nil, err
	}
	var names []string
	for _, r := range refs {
		if r.Kind != refs[0].Kind {
			return "", nil, exit.Misused("", "%s and %s are of two kinds: get them one by one", args[0], r.Kind)
		}
		names = append(names, r.Name)
	}
	return kind(refs[0].Kind), names, nil
}

// A getter carries out get.
type getter struct {
	*session
	*printer
	client *client.Client
	cmd    *cobra.Command
	limit  int
	prefix string   // of names; "" is all
	labels []string // of instances, as NAME=VALUE
}

func (g *getter) ctx() context.Context { return g.cmd.Context() }

// note prints a remark to standard error.
func (g *getter) note(format string, args ...any) {
	fmt.Fprintf(g.cmd.ErrOrStderr(), format+"\n", args...)
}

// pages reads a list to its end, or to the limit.
func (g *getter) pages(k kind, place string) ([]entry, error) {
	var entries []entry
	query := in(g.space())
	if g.prefix != "" && (k == services || place == path(k, "")) {
		query.Set("prefix", g.prefix)
	}
	if k == instances {
		query["label"] = g.labels
	}
	for {
		query.Set("limit", strconv.Itoa(min(pageLimit, g.limit-len(entries))))
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next"`
		}
		if err := get(g.ctx(), g.client, place, query, &page); err != nil {
			return nil, err
		}
		for _, raw := range page.Items {
			e, err := entryOf(k, raw)
			if err != nil {
				return nil, fmt.Errorf("%s: the answer is not from a control plane: %w", place, err)
			}
			entries = append(entries, e.masked())
		}
		if page.Next == "" {
			return entries, nil
		}
		if len(entries) >= g.limit {
			g.note("there are more than %d: --limit shows more", g.limit)
			return entries, nil
		}
		query.Set("after", page.Next)
	}
}

func (g *getter) all(k kind) error {
	entries, err := g.entries(k)
	if err != nil {
		return err
	}
	return g.list(k, entries)
}

// entries returns all entries of a kind.
func (g *getter) entries(k kind) ([]entry, error) {
	if k == services {
		return g.pages(k, "/v1/services")
	}
	return g.pages(k, path(k, ""))
}

// some shows the entries with given names.
func (g *getter) some(k kind, names []string, version int64) error {
	var entries []entry
	if k == services {
		list, err := g.entries(k)
		if err != nil {
			return err
		}
		for _, name := range names {
			e := entry{kind: services, name: name, doc: &serviceView{Name: name}}
			for _, one := range list {
				if one.name == name {
					e = one
				}
			}
			if e.raw == nil {
				return &client.Problem{Status: 404, Title: "no such resource", Detail: "service " + g.space() + "/" + name + " has no instances"}
			}
			entries = append(entries, e)
		}
		return g.shown(k, entries)
	}
	for _, name := range names {
		place := path(k, name)
		if version != 0 {
			place = path(k, name, "history", strconv.FormatInt(version, 10))
		}
		e, _, err := g.fetch(g.ctx(), g.client, k, place)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return g.shown(k, entries)
}

// shown shows one entry in full, and several without secrets.
func (g *getter) shown(k kind, entries []entry) error {
	if len(entries) == 1 {
		return g.one(entries[0])
	}
	for i := range entries {
		entries[i] = entries[i].masked()
	}
	return g.list(k, entries)
}

// fetch reads one resource, with its entity tag.
func (s *session) fetch(ctx context.Context, c *client.Client, k kind, place string) (e entry, tag string, err error) {
	answer, body, err := ask(ctx, c, client.Request{Method: "GET", Path: place, Query: in(s.space())})
	if err != nil {
		return e, "", err
	}
	if e, err = entryOf(k, body); err != nil {
		return e, "", fmt.Errorf("%s: the answer is not from a control plane: %w", answer.Server, err)
	}
	return e, answer.Header.Get("ETag"), nil
}

// instances shows instances: those of all services, of one, or a single one.
func (g *getter) instances(names []string) error {
	if len(names) > 2 {
		return exit.Misused("dyno ctl get instances [SERVICE [ID]]", "want a service and an ID at most, got %d arguments", len(names))
	}
	if len(names) == 2 {
		e, _, err := g.fetch(g.ctx(), g.client, instances, instancePath(names[0], names[1]))
		if err != nil {
			return err
		}
		return g.one(e)
	}
	var entries []entry
	var err error
	if len(names) == 1 {
		entries, err = g.pages(instances, instancePath(names[0], ""))
	} else {
		entries, err = g.everyInstance()
	}
	if err != nil {
		return err
	}
	return g.list(instances, entries)
}

// everyInstance reads the instances of all services, up to the limit.
func (g *getter) everyInstance() ([]entry, error) {
	list, err := g.pages(services, "/v1/services")
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, service := range list {
		some, err := g.pages(instances, instancePath(service.name, ""))
		if err != nil {
			return nil, err
		}
		if entries = append(entries, some...); len(entries) > g.limit {
			g.note("there are more than %d: --limit shows more", g.limit)
			return entries[:g.limit], nil
		}
	}
	return entries, nil
}

// audit shows the newest changes.
func (g *getter) audit(names []string) error {
	namespace := ""
	if g.namespace != "" {
		namespace = g.namespace
	}
	query := in(g.space())
	query.Set("limit", strconv.Itoa(pageLimit))
	var entries []entry
	for {
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next"`
		}
		if err := get(g.ctx(), g.client, "/v1/audit", query, &page); err != nil {
			return err
		}
		for _, raw := range page.Items {
			e, err := entryOf(audits, raw)
			if err != nil {
				return fmt.Errorf("audit: the answer is not from a control plane: %w", err)
			}
			a := e.doc.(*resource.Audit)
			if (namespace == "" || a.Namespace == namespace) && (len(names) == 0 || contains(names, a.Ref)) {
				entries = append(entries, e)
			}
		}
		if n := len(entries) - g.limit; n > 0 {
			entries = append(entries[:0:0], entries[n:]...) // the newest
		}
		if page.Next == "" {
			return g.list(audits, entries)
		}
		query.Set("after", page.Next)
	}
}

// contains reports whether a resource is among the names: by its name, or as KIND/NAME.
func contains(names []string, r resource.Ref) bool {
	for _, n := range names {
		if n == r.Name || n == string(r.Kind)+"/"+r.Name {
			return true
		}
	}
	return false
}
