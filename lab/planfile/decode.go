package planfile

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
	"dyno/load/pace"
)

// maxWork bounds what all variants of a file may hold together, in bytes and
// values.
const maxWork = 8 << 20

// A view reads values as one variant sees them: with its variables in place.
type view struct {
	*reader
	variant string
	vars    map[string]string // nil when the variables are not known
	runtime map[string]bool
	// protocol and traits say which defaults hold.
	protocol string
	traits   map[string]bool
}

// report adds a finding about a value in this variant.
func (v *view) report(n *fields.Node, problem, hint string) {
	v.c.Add(fields.Finding{Path: n.Path, Problem: problem, Hint: hint, Line: n.Line, Column: n.Column}, v.variant)
}

// reportField adds a finding about there being a field in this variant.
func (v *view) reportField(n *fields.Node, problem, hint string) {
	line, column := n.Where()
	v.c.Add(fields.Finding{Path: n.Path, Problem: problem, Hint: hint, Line: line, Column: column}, v.variant)
}

// scalar returns a value's text with its templates replaced; not ok when there
// is none or when it is wrong, which is then reported.
func (v *view) scalar(n *fields.Node) (t string, ok bool) {
	if n == nil || n.Spec == nil || n.Bad || !n.Scalar() {
		return "", false
	}
	if v.work++; v.work > maxWork {
		v.c.Add(fields.Finding{Problem: "all variants together hold too much", Hint: "fewer or smaller values"}, "")
		return "", false
	}
	if n.Kind != fields.IsText || v.runtime == nil || !fields.HasTemplate(n.Text) {
		return n.Text, true
	}
	v.work += len(n.Text)
	if v.vars == nil {
		v.c.Touched[n.Path] = true
		return "", false
	}
	if n.Spec.Scripted {
		t = plan.ExpandKnown(n.Text, func(name string) (string, bool) {
			value, ok := v.vars[name]
			return value, ok
		})
		if v.work += len(t); len(t) > plan.MaxText {
			v.report(n, "longer than 1 MiB after substitution", "")
			return "", false
		}
		return t, true
	}
	var unknown []string
	t, err := plan.ExpandWith(n.Text, plan.QuotedBraces, func(name string) (string, bool) {
		value, ok := v.vars[name]
		switch {
		case ok:
			return value, true
		case v.runtime[name]:
			return "{{" + name + "}}", true
		}
		unknown = append(unknown, name)
		return "", false
	})
	if err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		v.report(n, problem, hint)
		return "", false
	}
	v.work += len(t)
	for _, name := range unknown {
		known := slices.Concat(slices.Sorted(maps.Keys(v.vars)), slices.Sorted(maps.Keys(v.runtime)))
		hint := nearest.Hint(name, known)
		if _, found := nearest.Find(name, known); !found {
			hint += "; " + plan.HintBraces
		}
		if slices.Contains(v.variableNames(), name) {
			hint = "set it in the base, from which the others take it"
		}
		v.report(n, fmt.Sprintf("there is no variable %q", name), hint)
	}
	if len(unknown) > 0 {
		return "", false
	}
	if problem, hint := n.Spec.ScalarFault(t); problem != "" {
		v.report(n, fmt.Sprintf("%s (from %s)", problem, nearest.Clip(n.Text)), hint)
		return "", false
	}
	return t, true
}

// read decodes a node into the field's Go type: the node at a path of the file, or another one of that
// form. Missing values stay as they are.
func (v *view) read(n *fields.Node, path string, into any) {
	if n != nil {
		v.decoder().Value(n, plan.DeclaredAt(path), reflect.ValueOf(into).Elem())
	}
}

// decoder reads values as this variant sees them.
func (v *view) decoder() *fields.Decoder {
	return &fields.Decoder{
		Folder: filepath.Dir(v.file), Scalar: v.scalar, Fault: v.report, Protocol: v.protocol, Traits: v.traits,
		After: func(value any, n *fields.Node) {
			switch of := value.(type) {
			case *plan.Ready:
				v.ready(n, of)
			case *pace.Think:
				v.think(n)
			}
		},
	}
}

// variant resolves everything one variant holds.
func (r *reader) variant(choice variantChoice, short *fields.Node) plan.Variant {
	v := &view{reader: r, variant: choice.name, vars: choice.vars, runtime: map[string]bool{}}
	for _, name := range plan.RuntimeNames(r.serviceNames()...) {
		v.runtime[name] = true
	}
	target := r.root.Get("target")
	v.protocol = plan.TCP
	v.read(target.Get("protocol"), "target.protocol", &v.protocol)
	v.traits = maps.Clone(r.traits)
	v.traits["of "+v.protocol] = true
	out := plan.VariantWith(v.protocol, v.traits)
	out.Name, out.Vars = choice.name, choice.vars
	if v.protocol == plan.Program {
		v.program(target, short)
	}
	v.read(target, "target", &out.Target)
	if v.protocol == plan.Program {
		out.Target.Ready = plan.Ready{Kind: plan.ReadyNone}
	}
	out.Target.Complete()
	v.read(r.root.Get("services"), "services", &out.Services)
	for i := range out.Services {
		if s := &out.Services[i]; s.Ready.Kind == "" {
			s.Ready.Kind = plan.ReadyNone
			if s.Mentions("port") {
				s.Ready.Kind = plan.ReadyTCP
			}
		}
	}
	out.Services = v.startOrder(out.Services)
	v.read(r.root.Get("observe"), "observe", &out.Observe)
	switch load := r.root.Get("load"); {
	case v.protocol == plan.Program:
	case load != nil:
		v.load(load, short, &out.Load)
	case r.noLoad:
		r.c.Add(fields.Finding{Path: "load", Problem: "is missing", Hint: "want a mapping", Line: r.root.Line, Column: r.root.Column}, choice.name)
	}
	return out
}

// ready sets what a scalar means that stands for the mapping.
func (v *view) ready(n *fields.Node, r *plan.Ready) {
	http, line := n.Get("http") != nil, n.Get("line") != nil
	switch t := r.Kind; {
	case http && line:
		v.report(n, "http and line exclude each other", "keep one of them")
	case http:
		r.Kind = plan.ReadyHTTP
	case line:
		r.Kind = plan.ReadyLine
	case n.Kind == fields.IsMapping:
		v.report(n, "the mapping is empty", `such as {http: /healthz} or {line: "listening on"}`)
	case t == "" || t == plan.ReadyTCP || t == plan.ReadyNone:
	case strings.HasPrefix(t, "/") || strings.Contains(t, "://"):
		r.Kind, r.URL = plan.ReadyHTTP, t
	default:
		v.report(n, fmt.Sprintf("%q is not possible", nearest.Clip(t)), `tcp, none, a URL, a path such as /healthz, or {line: "listening on"}`)
	}
}

// think reports what is not one distribution.
func (v *view) think(n *fields.Node) {
	if n.Kind == fields.IsMapping && len(n.Keys) != 1 {
		v.report(n, fmt.Sprintf("want one distribution, have %d", len(n.Keys)), "one of constant, uniform, exponential")
	}
}

// load reads a load, with what the short form and the options say on top.
func (v *view) load(n, short *fields.Node, l *plan.Load) {
	set := v.settings.Get("load")
	for _, layer := range []*fields.Node{n, short, set} {
		v.read(layer, "load", l)
	}
	windows := []*fields.Node{n.Get("window"), set.Get("window")}
	if n.Get("paces") != nil {
		v.paces(n, l, slices.ContainsFunc([]*fields.Node{n, short, set}, func(n *fields.Node) bool { return n.Get("window") != nil }))
		return
	}
	stages := n.Get("stages")
	if stages == nil {
		if l.Counted() && n.Get("window") == nil && short.Get("window") == nil && set.Get("window") == nil {
			l.Window = 0
		}
		return
	}
	for _, w := range windows {
		if w != nil {
			v.report(w, "the stages give the window its length", "remove it, or the stages")
		}
	}
	wanted := l.Window // by the short form
	ofUsers := slices.ContainsFunc(stages.Items, func(n *fields.Node) bool { return n.Get("users") != nil })
	switch {
	case l.Closed != nil && l.Open != nil:
		return // one of them is a fault
	case l.Closed != nil || l.Open != nil:
	case ofUsers:
		l.Closed = &plan.Closed{}
	default:
		l.Open = plan.DefaultOpen()
	}
	if v.stages(stages, l); short.Get("window") != nil {
		l.ScaleStages(wanted)
	}
}

// paces makes of the paces what they say of the whole load.
func (v *view) paces(n *fields.Node, l *plan.Load, hasWindow bool) {
	for _, name := range []string{"closed", "open", "stages"} {
		if other := n.Get(name); other != nil {
			v.report(other, name+" and paces exclude each other", "keep one of them")
		}
	}
	window := l.Window
	if l.SetPaces(l.Paces); hasWindow {
		l.Window = window
	}
}

// stages reads the parts of the window and makes their sum its length.
func (v *view) stages(list *fields.Node, l *plan.Load) {
	var forms []plan.StageForm
	v.read(list, "load.stages", &forms)
	var stages []plan.Stage
	level := 0.0 // where the last stage ended
	name, other, loop := "rate", "users", "closed: {}"
	if l.Closed != nil {
		name, other, loop = "users", "rate", "open: {}"
	}
	for i, f := range forms {
		n := list.Items[i]
		s := plan.Stage{Duration: f.Duration, From: level}
		steady, from, to := n.Get(name) != nil, n.Get("from") != nil, n.Get("to") != nil
		for _, end := range []string{"from", "to"} {
			if t := n.Get(end); l.Closed != nil && t != nil && strings.Contains(t.Text, "/") {
				v.report(t, fmt.Sprintf("%q is a rate, and stages of a closed load have users", nearest.Clip(t.Text)), "a number of users such as 100, or open in place of closed")
			}
		}
		switch {
		case n.Get(other) != nil:
			v.report(n.Get(other), other+" is for a load with "+loop, "say "+name)
		case steady && (from || to):
			v.report(n, name+" excludes from and to", "keep "+name+" for a steady stage, from and to for a ramp")
		case steady && l.Closed != nil:
			s.From, s.To = float64(f.Users), float64(f.Users)
		case steady:
			s.From, s.To = f.Rate, f.Rate
		case to:
			if s.To = f.To; from {
				s.From = f.From
			}
		case n.Kind == fields.IsMapping:
			v.report(n, "the stage has no "+name, "give it "+name+", or to")
		}
		level = s.To
		stages = append(stages, s)
	}
	l.SetStages(stages)
}

// startOrder sorts services by name, but after those whose addresses they use.
func (v *view) startOrder(services []plan.Service) []plan.Service {
	slices.SortFunc(services, func(a, b plan.Service) int { return strings.Compare(a.Name, b.Name) })
	needs := map[string][]string{} // the services whose addresses each one uses
	for _, s := range services {
		for _, name := range s.RuntimeNames() {
			if other, _, ok := strings.Cut(name, "."); ok && other != s.Name {
				needs[s.Name] = append(needs[s.Name], other)
			}
		}
	}
	var out []plan.Service
	started := map[string]bool{}
	waits := func(other string) bool { return !started[other] }
	for len(out) < len(services) {
		before := len(out)
		for _, s := range services {
			if !started[s.Name] && !slices.ContainsFunc(needs[s.Name], waits) {
				started[s.Name] = true
				out = append(out, s)
			}
		}
		if len(out) > before {
			continue
		}
		var circle []string
		for _, s := range services {
			if !started[s.Name] {
				circle = append(circle, s.Name)
			}
		}
		v.report(v.root.Get("services").Get(circle[0]).Get("start"), "none of "+strings.Join(circle, ", ")+" can start first", "each uses the address of another")
		return services
	}
	return out
}
