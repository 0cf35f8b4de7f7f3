package ctl

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// The kinds of changes of an entry.
const (
	asIs    = "-" // present at the start
	put     = "put"
	removed = "remove"
)

// watch shows the present entries, and then changes, until the context ends.
func (c *call) watch(k resource.Kind, names []string, prefix string) error {
	id := ""
	query := client.Query{Kinds: []resource.Kind{k}, Names: names, Prefix: prefix}
	switch {
	case k == services:
		query.Kinds = []resource.Kind{resource.Instances}
	case k == resource.Instances && len(names) > 1:
		query.Names, id = names[:1], names[1]
	}
	if err := c.probe(query.Kinds[0]); err != nil {
		return err
	}
	w, err := c.Watch(query)
	if err != nil {
		return err
	}
	defer w.Close()
	t := &tail{printer: c.printer, kind: k}
	known := map[string]entry{}
	var at client.Snapshot
	connected, begun := true, false
	for {
		if at, err = w.Next(c.ctx(), at.Generation); err != nil {
			if c.ctx().Err() != nil {
				return nil // it was interrupted, as watches are
			}
			return err
		}
		if begun && at.Current != connected {
			connected = at.Current
			if connected {
				c.note("connected again")
			} else {
				c.note("not connected: changes are not shown until a server answers")
			}
		}
		if !at.Current {
			continue
		}
		now, err := snapshot(k, id, at.Items)
		if err != nil {
			return err
		}
		if err := t.show(changes(known, now, begun)); err != nil {
			return err
		}
		known, begun = now, true
	}
}

// probe reports a mistyped address or a missing permission at once, to commands that would otherwise try without end.
func (c *call) probe(k resource.Kind) error {
	query := in(c.space())
	query.Set("limit", "1")
	return get(c.ctx(), c.Client, resource.Ref{Kind: k}.Address(), query, &struct{}{})
}

// snapshot returns a watch's entries by name.
func snapshot(k resource.Kind, id string, items []client.Item) (map[string]entry, error) {
	now := map[string]entry{}
	counts := map[string]int{}
	for _, i := range items {
		if k == services {
			counts[i.Name]++
			continue
		}
		if id != "" && i.ID != id {
			continue
		}
		e, err := entryOf(i.Kind, i.Body)
		if err != nil {
			return nil, err
		}
		now[e.name] = e.masked()
	}
	for name, n := range counts {
		v := &resource.Service{Name: name, Instances: n}
		now[name] = entry{kind: services, name: name, doc: v, raw: marshal(v)}
	}
	return now, nil
}

// changes returns the entries that differ, in the order of names.
func changes(before, now map[string]entry, begun bool) []entry {
	var list []entry
	add := func(event string, e entry) {
		e.event = event
		list = append(list, e)
	}
	for name, e := range now {
		old, ok := before[name]
		switch {
		case !begun:
			add(asIs, e)
		case !ok || !bytes.Equal(old.raw, e.raw):
			add(put, e)
		}
	}
	for name, e := range before {
		if _, ok := now[name]; !ok {
			add(removed, e)
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list
}

// A tail prints changes in aligned columns, whose widths never shrink.
type tail struct {
	*printer
	kind   resource.Kind
	widths []int
}

func (t *tail) show(list []entry) error {
	if len(list) == 0 && t.widths != nil {
		return nil
	}
	switch t.form {
	case asTable:
		var header []string
		if t.widths == nil {
			header = append([]string{"EVENT"}, lookAt(t.kind).columns...)
			t.widths = make([]int, len(header))
			t.widths[0] = len(removed)
		}
		return t.table(header, list, t.widths)
	case asName:
		return t.names(list)
	}
	for _, e := range list {
		line := append(marshal(struct {
			Event    string          `json:"event"`
			Resource json.RawMessage `json:"resource"`
		}{e.event, e.document()}), '\n')
		if t.form == asYAML {
			line = append([]byte("---\n"), toYAML(line)...)
		}
		if _, err := t.out.Write(line); err != nil {
			return err
		}
	}
	return nil
}
