package ctl

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// pageLimit is the number of entries per request, and maxEntries the default limit of entries shown.
const (
	pageLimit  = 1000
	maxEntries = 10_000
)

func (s *session) getCommand() *cobra.Command {
	var (
		watch   bool
		limit   int
		version int64
		prefix  string
		labels  []string
	)
	var all []resource.Kind
	for _, l := range looks {
		if len(l.words) > 0 {
			all = append(all, l.kind)
		}
	}
	cmd := s.showing(&cobra.Command{
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
	}, func(c *call, args []string) error {
		if limit < 1 {
			return exit.Misused("such as --limit 100", "--limit: %d: must be 1 or more", limit)
		}
		k, names, err := wanted(args, all)
		if err != nil {
			return err
		}
		if prefix != "" && (k == audits || k == rollouts || len(names) > 0) {
			return exit.Misused("such as dyno ctl get configs --prefix app/", "--prefix is for a list of services, instances, configs or policies")
		}
		if len(labels) > 0 && (k != resource.Instances || watch || len(names) > 1) {
			return exit.Misused("such as dyno ctl get instances shop --label version=2", "--label is for a list of instances")
		}
		if version != 0 && (!slices.Contains(applied, k) || len(names) != 1) {
			return exit.Misused("such as dyno ctl get policy a --version 3", "--version is for one policy, configuration, principal or role")
		}
		query := in(s.space())
		query.Set("limit", strconv.Itoa(min(pageLimit, limit)))
		if prefix != "" {
			query.Set("prefix", prefix)
		}
		if len(labels) > 0 {
			query["label"] = labels
		}
		switch {
		case watch && (k == audits || k == rollouts || k.OfAccess()):
			return exit.Misused("", "--watch is not for the %s", k)
		case watch:
			return c.watch(k, names, prefix)
		case k == rollouts:
			return c.rollout(names, limit)
		case k == audits:
			return c.audit(names, limit)
		case k == resource.Instances:
			return c.instances(names, query, limit)
		case k == services:
			return c.services(names, query, limit)
		case len(names) == 0:
			return c.all(k, c.each(k, resource.Ref{Kind: k}.Address(), query), limit)
		}
		return c.some(k, names, version)
	})
	f := cmd.Flags()
	f.BoolVarP(&watch, "watch", "w", false, "show changes, too, until interrupted")
	f.IntVar(&limit, "limit", maxEntries, "how many entries are shown at most")
	f.StringVar(&prefix, "prefix", "", "only those whose name begins with it; of instances, their service's name")
	f.StringArrayVar(&labels, "label", nil, "only instances with this entry of metadata, as `NAME=VALUE`; may be repeated")
	f.Int64Var(&version, "version", 0, "an earlier one, as history lists them")
	return cmd
}

// wanted reads KIND NAME… and KIND/NAME….
func wanted(args []string, all []resource.Kind) (resource.Kind, []string, error) {
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
	return refs[0].Kind, names, nil
}

// each reads a list, page by page, without secrets.
func (c *call) each(k resource.Kind, place string, query url.Values) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		query := maps.Clone(query)
		for {
			var page struct {
				Items []json.RawMessage `json:"items"`
				Next  string            `json:"next"`
			}
			if err := get(c.ctx(), c.Client, place, query, &page); err != nil {
				yield(entry{}, err)
				return
			}
			for _, raw := range page.Items {
				e, err := entryOf(k, raw)
				if !yield(e.masked(), answered(place, err)) || err != nil {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("after", page.Next)
		}
	}
}

// all shows entries, up to the limit.
func (c *call) all(k resource.Kind, list iter.Seq2[entry, error], limit int) error {
	var entries []entry
	for e, err := range list {
		if err != nil {
			return err
		}
		if len(entries) == limit {
			c.note("there are more than %d: --limit shows more", limit)
			break
		}
		entries = append(entries, e)
	}
	return c.list(k, entries)
}

// services shows all services, or those with given names.
func (c *call) services(names []string, query url.Values, limit int) error {
	list := c.each(services, "/v1/services", query)
	if len(names) == 0 {
		return c.all(services, list, limit)
	}
	known := map[string]entry{}
	for e, err := range list {
		if err != nil {
			return err
		}
		known[e.name] = e
	}
	var entries []entry
	for _, name := range names {
		if known[name].raw == nil {
			return &client.Problem{Status: http.StatusNotFound, Title: "no such resource", Detail: "service " + c.space() + "/" + name + " has no instances"}
		}
		entries = append(entries, known[name])
	}
	return c.shown(services, entries)
}

// some shows the entries with given names.
func (c *call) some(k resource.Kind, names []string, version int64) error {
	var entries []entry
	for _, name := range names {
		place := resource.Ref{Kind: k, Name: name}.Address()
		if version != 0 {
			place += "/history/" + strconv.FormatInt(version, 10)
		}
		e, _, err := c.fetch(c.ctx(), k, place)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return c.shown(k, entries)
}

// shown shows one entry in full, and several without secrets.
func (c *call) shown(k resource.Kind, entries []entry) error {
	if len(entries) == 1 {
		return c.one(entries[0])
	}
	for i := range entries {
		entries[i] = entries[i].masked()
	}
	return c.list(k, entries)
}

// fetch reads one resource, with its entity tag.
func (c *call) fetch(ctx context.Context, k resource.Kind, place string) (e entry, tag string, err error) {
	answer, body, err := ask(ctx, c.Client, client.Request{Method: http.MethodGet, Path: place, Query: in(c.space())})
	if err != nil {
		return e, "", err
	}
	e, err = entryOf(k, body)
	return e, answer.Header.Get("ETag"), answered(answer.Server, err)
}

// instances shows instances: those of all services, of one, or a single one.
func (c *call) instances(names []string, query url.Values, limit int) error {
	of := func(service string) iter.Seq2[entry, error] {
		query := maps.Clone(query)
		query.Del("prefix")
		return c.each(resource.Instances, resource.Ref{Kind: resource.Instances, Name: service}.Address(), query)
	}
	switch len(names) {
	case 0:
		return c.all(resource.Instances, func(yield func(entry, error) bool) {
			for service, err := range c.each(services, "/v1/services", query) {
				if err != nil {
					yield(service, err)
					return
				}
				for e, err := range of(service.name) {
					if !yield(e, err) {
						return
					}
				}
			}
		}, limit)
	case 1:
		return c.all(resource.Instances, of(names[0]), limit)
	case 2:
		e, _, err := c.fetch(c.ctx(), resource.Instances, resource.Ref{Kind: resource.Instances, Name: names[0], ID: names[1]}.Address())
		if err != nil {
			return err
		}
		return c.one(e)
	}
	return exit.Misused("dyno ctl get instances [SERVICE [ID]]", "want a service and an ID at most, got %d arguments", len(names))
}

// audit shows the newest changes.
func (c *call) audit(names []string, limit int) error {
	var entries []entry
	for e, err := range c.each(audits, "/v1/audit", url.Values{"limit": {strconv.Itoa(pageLimit)}}) {
		if err != nil {
			return err
		}
		a := e.doc.(*resource.Audit)
		if c.namespace != "" && a.Namespace != c.namespace || len(names) > 0 && !slices.Contains(names, a.Name) && !slices.Contains(names, string(a.Kind)+"/"+a.Name) {
			continue
		}
		entries = append(entries, e)
		if n := len(entries) - limit; n > limit {
			entries = append(entries[:0:0], entries[n:]...)
		}
	}
	return c.list(audits, entries[max(0, len(entries)-limit):])
}
