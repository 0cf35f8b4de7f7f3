package fields

import (
	"fmt"
	"slices"
	"strings"

	"dyno/internal/nearest"
)

// A checker holds a file against the specs of its fields: fields, kinds, forms, bounds.
type checker struct {
	c     *Collector
	root  *Spec    // of the whole file
	later []string // its sections that a later version will know
}

// Check reports what is wrong with a file whose root is a mapping, and gives each node its
// spec. A section of a later version is a fault that names the section.
func Check(c *Collector, root *Node, file *Spec, later ...string) {
	checker{c, file, later}.check(root, file, false)
}

func (ch checker) fault(n *Node, problem, hint string) {
	n.Bad = true
	ch.c.Add(Finding{Path: n.Path, Problem: problem, Hint: hint, Line: n.Line, Column: n.Column}, "")
}

// check reports what is wrong with n by its spec, and gives each node below it its own. A scalar
// with a template is checked when its variables are known.
func (ch checker) check(n *Node, s *Spec, templates bool) {
	if s.Kind == Mapping && s.Short != nil && n.Scalar() {
		s = s.Short
	} else if s.Kind == List && s.Item.single && n.Kind == IsMapping {
		one := *n
		n.Kind, n.Keys, n.Items = IsList, nil, []*Node{&one}
	}
	n.Spec = s
	templates = templates || s.Template
	switch {
	case n.Kind == isNull:
		ch.fault(n, "is empty", "want "+s.Kind.String())
	case s.Kind == Mapping && n.Kind == IsMapping:
		ch.mapping(n, s, templates)
	case s.Kind == List && n.Kind == IsList:
		ch.list(n, s, templates)
	case s.Kind == Mapping, s.Kind == List, !n.Scalar():
		hint := s.Kind.Example()
		if s.Kind == List && n.Scalar() {
			hint = fmt.Sprintf("such as [%q]", nearest.Clip(n.Text))
		}
		ch.fault(n, fmt.Sprintf("want %s, have %s", s.Kind, n), hint)
	case templates && n.Kind == IsText && HasTemplate(n.Text):
	default:
		ch.scalar(n, s)
	}
}

func (ch checker) scalar(n *Node, s *Spec) {
	switch s.Kind {
	case Text, Choice:
		if n.Kind != IsText {
			ch.fault(n, fmt.Sprintf("want text, have %s", n), fmt.Sprintf("with quotes: %q", nearest.Clip(n.Text)))
			return
		}
	case Boolean:
		if n.Kind != IsBool {
			ch.fault(n, fmt.Sprintf("want %s, have %s", s.Kind, n), "")
			return
		}
	case Integer, Number:
		if n.Kind == IsText {
			problem, hint := fmt.Sprintf("want %s, have %s", s.Kind, n), s.Kind.Example()
			if _, ok := parseNumber(n.Text); ok {
				hint = "without quotes: " + n.Text
			}
			ch.fault(n, problem, hint)
			return
		}
	}
	if problem, hint := s.ScalarFault(n.Text); problem != "" {
		ch.fault(n, problem, hint)
	}
}

func (ch checker) list(n *Node, s *Spec, templates bool) {
	switch count := float64(len(n.Items)); {
	case count < s.Min && !ch.c.Touched[n.Path+"[0]"]:
		ch.fault(n, "the list is empty", "leave it out, or give it an entry")
	case count > s.Max:
		ch.fault(n, fmt.Sprintf("%d entries are too many", len(n.Items)), fmt.Sprintf("at most %v", s.Max))
		n.Items = n.Items[:int(s.Max)] // so that what follows stays bounded
	}
	for _, item := range n.Items {
		ch.check(item, s.Item, templates)
	}
}

func (ch checker) mapping(n *Node, s *Spec, templates bool) {
	entries := 0
	if s.Item != nil && len(n.Keys) > s.most() {
		ch.fault(n, fmt.Sprintf("%d entries are too many", len(n.Keys)), fmt.Sprintf("at most %d", s.most()))
		n.Keys = n.Keys[:s.most()] // so that what follows stays bounded
	}
	for _, k := range n.Keys {
		at := &Node{Path: k.Value.Path, Line: k.Value.keyLine, Column: k.Value.keyColumn}
		f := s.Field(k.Name)
		switch {
		case f == nil:
			problem, hint := ch.unknown(n, s, k.Name)
			ch.fault(at, problem, hint)
			if _, name, ok := strings.Cut(hint, "did you mean "); ok {
				ch.c.Touched[Join(n.Path, strings.Trim(name, `"?`))] = true // not missing, but misspelt
			}
			continue
		case !slices.Contains(s.FieldNames(), k.Name):
			entries++
			if problem, hint := s.Names.nameFault(k.Name); problem != "" {
				ch.fault(at, problem, hint)
			}
		}
		ch.check(k.Value, f, templates)
	}
	if s.few && entries == 0 {
		ch.fault(n, "the mapping is empty", "leave it out, or give it an entry")
	}
	for _, f := range s.Fields {
		if path := Join(n.Path, f.Name); f.required && n.Get(f.Name) == nil && !ch.c.Touched[path] {
			hint := "want " + f.Spec.Kind.String()
			if f.Spec.Kind == Choice {
				hint = ChoiceHint("", f.Spec.Choices)
			}
			line, column := n.Where()
			ch.c.Add(Finding{Path: path, Problem: "is missing", Hint: hint, Line: line, Column: column}, "")
		}
	}
}

// unknown says what to do about a field that no spec knows.
func (ch checker) unknown(n *Node, s *Spec, name string) (problem, hint string) {
	if n.Path == "" && slices.Contains(ch.later, name) {
		return "not supported in this version", "remove it"
	}
	if len(ch.c.Order) == MaxFaults {
		return "unknown field", "" // it is only counted
	}
	hint = nearest.Hint(name, s.FieldNames())
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

// Where returns the place that stands for the whole value: its field's name if
// it has one.
func (n *Node) Where() (line, column int) {
	if n.keyLine > 0 {
		return n.keyLine, n.keyColumn
	}
	return n.Line, n.Column
}
