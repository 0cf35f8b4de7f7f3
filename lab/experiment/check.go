package experiment

import (
	"fmt"
	"slices"
	"strings"

	"dyno/internal/nearest"
)

// A checker holds a file against the specs of its fields: fields, kinds, forms, bounds.
type checker struct {
	c    *collector
	root *spec // of the whole file
}

func (ch checker) fault(n *node, problem, hint string) {
	n.bad = true
	ch.c.add(finding{path: n.path, problem: problem, hint: hint, line: n.line, column: n.column}, "")
}

// check reports what its spec says is wrong with n and notes in each node
// what it has to be. Where templates may stand, a scalar with one is left to be
// checked when its variables are known.
func (ch checker) check(n *node, s *spec, templates bool) {
	if s.kind == mapping && s.short != nil && n.scalar() {
		s = s.short
	}
	n.spec = s
	templates = templates || s.template
	switch {
	case n.kind == isNull:
		ch.fault(n, "is empty", "want "+s.kind.String())
	case s.kind == mapping && n.kind == isMapping:
		ch.mapping(n, s, templates)
	case s.kind == list && n.kind == isList:
		ch.list(n, s, templates)
	case s.kind == mapping, s.kind == list, !n.scalar():
		hint := s.kind.example()
		if s.kind == list && n.scalar() {
			hint = fmt.Sprintf("such as [%q]", clip(n.text))
		}
		ch.fault(n, fmt.Sprintf("want %s, have %s", s.kind, n), hint)
	case templates && n.kind == isText && hasTemplate(n.text):
	default:
		ch.scalar(n, s)
	}
}

func (ch checker) scalar(n *node, s *spec) {
	switch s.kind {
	case text, choice:
		if n.kind != isText {
			ch.fault(n, fmt.Sprintf("want text, have %s", n), fmt.Sprintf("with quotes: %q", clip(n.text)))
			return
		}
	case boolean:
		if n.kind != isBool {
			ch.fault(n, fmt.Sprintf("want %s, have %s", s.kind, n), "")
			return
		}
	case integer, number:
		if n.kind == isText {
			problem, hint := fmt.Sprintf("want %s, have %s", s.kind, n), s.kind.example()
			if _, ok := parseNumber(n.text); ok {
				hint = "without quotes: " + n.text
			}
			ch.fault(n, problem, hint)
			return
		}
	}
	if problem, hint := s.scalarFault(n.text); problem != "" {
		ch.fault(n, problem, hint)
	}
}

func (ch checker) list(n *node, s *spec, templates bool) {
	switch count := float64(len(n.items)); {
	case count < s.min && !ch.c.touched[n.path+"[0]"]:
		ch.fault(n, "the list is empty", "leave it out, or give it an entry")
	case count > s.max:
		ch.fault(n, fmt.Sprintf("%d entries are too many", len(n.items)), fmt.Sprintf("at most %v", s.max))
		n.items = n.items[:int(s.max)] // so that what follows stays bounded
	}
	for _, item := range n.items {
		ch.check(item, s.item, templates)
	}
}

func (ch checker) mapping(n *node, s *spec, templates bool) {
	entries := 0
	if s.item != nil && len(n.keys) > s.most() {
		ch.fault(n, fmt.Sprintf("%d entries are too many", len(n.keys)), fmt.Sprintf("at most %d", s.most()))
		n.keys = n.keys[:s.most()] // so that what follows stays bounded
	}
	for _, k := range n.keys {
		at := &node{path: k.value.path, line: k.value.keyLine, column: k.value.keyColumn}
		f := s.field(k.name)
		switch {
		case f == nil:
			problem, hint := ch.unknown(n, s, k.name)
			ch.fault(at, problem, hint)
			if _, name, ok := strings.Cut(hint, "did you mean "); ok {
				ch.c.touched[join(n.path, strings.Trim(name, `"?`))] = true // not missing, but misspelt
			}
			continue
		case !slices.Contains(s.fieldNames(), k.name):
			entries++
			if problem, hint := s.names.nameFault(k.name); problem != "" {
				ch.fault(at, problem, hint)
			}
		}
		ch.check(k.value, f, templates)
	}
	if s.few && entries == 0 {
		ch.fault(n, "the mapping is empty", "leave it out, or give it an entry")
	}
	for _, f := range s.fields {
		if path := join(n.path, f.name); f.required && n.get(f.name) == nil && !ch.c.touched[path] {
			hint := "want " + f.spec.kind.String()
			if f.spec.kind == choice {
				hint = choiceHint("", f.spec.choices)
			}
			line, column := n.where()
			ch.c.add(finding{path: path, problem: "is missing", hint: hint, line: line, column: column}, "")
		}
	}
}

// unknown says what to do about a field that no spec knows.
func (ch checker) unknown(n *node, s *spec, name string) (problem, hint string) {
	if n.path == "" && slices.Contains(later(), name) {
		return "not supported in this version", "remove it"
	}
	if len(ch.c.order) == maxFaults {
		return "unknown field", "" // it is only counted
	}
	hint = nearest.Hint(name, s.fieldNames())
	if !strings.HasPrefix(hint, "did") {
		if places := ch.root.whereIs(name, ""); len(places) > 0 {
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
