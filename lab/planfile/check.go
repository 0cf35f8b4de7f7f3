package planfile

import (
	"fmt"
	"slices"
	"strings"

	"dyno/internal/nearest"
	"dyno/lab/plan"
	"dyno/lab/schema"
)

// A checker holds a file against the specs of its fields: fields, kinds, forms, bounds.
type checker struct {
	c    *plan.Collector
	root *schema.Spec // of the whole file
}

func (ch checker) fault(n *node, problem, hint string) {
	n.bad = true
	ch.c.Add(plan.Finding{Path: n.path, Problem: problem, Hint: hint, Line: n.line, Column: n.column}, "")
}

// check reports what its spec says is wrong with n and notes in each node
// what it has to be. Where templates may stand, a scalar with one is left to be
// checked when its variables are known.
func (ch checker) check(n *node, s *schema.Spec, templates bool) {
	if s.Kind == schema.Mapping && s.Short != nil && n.scalar() {
		s = s.Short
	}
	n.spec = s
	templates = templates || s.Template
	switch {
	case n.kind == isNull:
		ch.fault(n, "is empty", "want "+s.Kind.String())
	case s.Kind == schema.Mapping && n.kind == isMapping:
		ch.mapping(n, s, templates)
	case s.Kind == schema.List && n.kind == isList:
		ch.list(n, s, templates)
	case s.Kind == schema.Mapping, s.Kind == schema.List, !n.scalar():
		hint := s.Kind.Example()
		if s.Kind == schema.List && n.scalar() {
			hint = fmt.Sprintf("such as [%q]", schema.Clip(n.text))
		}
		ch.fault(n, fmt.Sprintf("want %s, have %s", s.Kind, n), hint)
	case templates && n.kind == isText && plan.HasTemplate(n.text):
	default:
		ch.scalar(n, s)
	}
}

func (ch checker) scalar(n *node, s *schema.Spec) {
	switch s.Kind {
	case schema.Text, schema.Choice:
		if n.kind != isText {
			ch.fault(n, fmt.Sprintf("want text, have %s", n), fmt.Sprintf("with quotes: %q", schema.Clip(n.text)))
			return
		}
	case schema.Boolean:
		if n.kind != isBool {
			ch.fault(n, fmt.Sprintf("want %s, have %s", s.Kind, n), "")
			return
		}
	case schema.Integer, schema.Number:
		if n.kind == isText {
			problem, hint := fmt.Sprintf("want %s, have %s", s.Kind, n), s.Kind.Example()
			if _, ok := schema.ParseNumber(n.text); ok {
				hint = "without quotes: " + n.text
			}
			ch.fault(n, problem, hint)
			return
		}
	}
	if problem, hint := s.ScalarFault(n.text); problem != "" {
		ch.fault(n, problem, hint)
	}
}

func (ch checker) list(n *node, s *schema.Spec, templates bool) {
	switch count := float64(len(n.items)); {
	case count < s.Min && !ch.c.Touched[n.path+"[0]"]:
		ch.fault(n, "the list is empty", "leave it out, or give it an entry")
	case count > s.Max:
		ch.fault(n, fmt.Sprintf("%d entries are too many", len(n.items)), fmt.Sprintf("at most %v", s.Max))
		n.items = n.items[:int(s.Max)] // so that what follows stays bounded
	}
	for _, item := range n.items {
		ch.check(item, s.Item, templates)
	}
}

func (ch checker) mapping(n *node, s *schema.Spec, templates bool) {
	entries := 0
	if s.Item != nil && len(n.keys) > s.Most() {
		ch.fault(n, fmt.Sprintf("%d entries are too many", len(n.keys)), fmt.Sprintf("at most %d", s.Most()))
		n.keys = n.keys[:s.Most()] // so that what follows stays bounded
	}
	for _, k := range n.keys {
		at := &node{path: k.value.path, line: k.value.keyLine, column: k.value.keyColumn}
		f := s.Field(k.name)
		switch {
		case f == nil:
			problem, hint := ch.unknown(n, s, k.name)
			ch.fault(at, problem, hint)
			if _, name, ok := strings.Cut(hint, "did you mean "); ok {
				ch.c.Touched[schema.Join(n.path, strings.Trim(name, `"?`))] = true // not missing, but misspelt
			}
			continue
		case !slices.Contains(s.FieldNames(), k.name):
			entries++
			if problem, hint := s.Names.NameFault(k.name); problem != "" {
				ch.fault(at, problem, hint)
			}
		}
		ch.check(k.value, f, templates)
	}
	if s.NonEmpty && entries == 0 {
		ch.fault(n, "the mapping is empty", "leave it out, or give it an entry")
	}
	for _, f := range s.Fields {
		if path := schema.Join(n.path, f.Name); f.Required && n.get(f.Name) == nil && !ch.c.Touched[path] {
			hint := "want " + f.Spec.Kind.String()
			if f.Spec.Kind == schema.Choice {
				hint = schema.ChoiceHint("", f.Spec.Choices)
			}
			line, column := n.where()
			ch.c.Add(plan.Finding{Path: path, Problem: "is missing", Hint: hint, Line: line, Column: column}, "")
		}
	}
}

// later are the sections of the file that a later version will know.
func later() []string {
	return []string{"network"}
}

// unknown says what to do about a field that no spec knows.
func (ch checker) unknown(n *node, s *schema.Spec, name string) (problem, hint string) {
	if n.path == "" && slices.Contains(later(), name) {
		return "not supported in this version", "remove it"
	}
	if ch.c.Count() == plan.MaxFaults {
		return "unknown field", "" // it is only counted
	}
	hint = nearest.Hint(name, s.FieldNames())
	if !strings.HasPrefix(hint, "did") {
		if places := ch.root.WhereIs(name, ""); len(places) > 0 {
			for i, p := range places {
				if p == "" {
					places[i] = "the top level"
				}
			}
			hint = "it belongs in " + strings.Join(places[:min(3, len(places))], " or ")
		}
	}
	return "unknown field", hint
}

// where returns the place that stands for the whole value: its field's name if
// it has one.
func (n *node) where() (line, column int) {
	if n.keyLine > 0 {
		return n.keyLine, n.keyColumn
	}
	return n.line, n.column
}
