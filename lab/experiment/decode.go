package experiment

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"dyno/internal/nearest"
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
func (v *view) report(n *node, problem, hint string) {
	v.c.add(finding{path: n.path, problem: problem, hint: hint, line: n.line, column: n.column}, v.variant)
}

// reportField adds a finding about there being a field in this variant.
func (v *view) reportField(n *node, problem, hint string) {
	line, column := n.where()
	v.c.add(finding{path: n.path, problem: problem, hint: hint, line: line, column: column}, v.variant)
}

// scalar returns a value's text with its templates replaced; not ok when there
// is none or when it is wrong, which is then reported.
func (v *view) scalar(n *node) (t string, ok bool) {
	if n == nil || n.spec == nil || n.bad || !n.scalar() {
		return "", false
	}
	if v.work++; v.work > maxWork {
		v.c.add(finding{problem: "all variants together hold too much", hint: "fewer or smaller values"}, "")
		return "", false
	}
	if n.kind != isText || v.runtime == nil || !hasTemplate(n.text) {
		return n.text, true
	}
	v.work += len(n.text)
	if v.vars == nil {
		v.c.touched[n.path] = true
		return "", false
	}
	if n.spec.scripted {
		t = expandKnown(n.text, func(name string) (string, bool) {
			value, ok := v.vars[name]
			return value, ok
		})
		if v.work += len(t); len(t) > maxText {
			v.report(n, "longer than 1 MiB after substitution", "")
			return "", false
		}
		return t, true
	}
	var unknown []string
	t, err := expand(n.text, quotedBraces, func(name string) (string, bool) {
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
			hint += "; " + hintBraces
		}
		if slices.Contains(v.variableNames(), name) {
			hint = "set it in the base, from which the others take it"
		}
		v.report(n, fmt.Sprintf("there is no variable %q", name), hint)
	}
	if len(unknown) > 0 {
		return "", false
	}
	if problem, hint := n.spec.scalarFault(t); problem != "" {
		v.report(n, fmt.Sprintf("%s (from %s)", problem, clip(n.text)), hint)
		return "", false
	}
	return t, true
}

// read reads what is at a path of the file, or another node of the same form, into a
// value of the Go type that the path's field has. What does not stand there keeps the
// value it has.
func (v *view) read(n *node, path string, into any) {
	if n != nil {
		v.value(n, specAt(path), reflect.ValueOf(into).Elem())
	}
}

// field reads a field of a mapping, whose Go struct holds the value.
func (v *view) field(n *node, s *spec, of reflect.Value) {
	if n != nil && !s.form {
		v.value(n, s, of.FieldByIndex(s.at))
	}
}

// value reads a node that is not nil. Where it makes something new, that has its
// defaults before what the file says.
func (v *view) value(n *node, s *spec, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		if into.IsNil() {
			into.Set(v.fresh(into.Type().Elem(), s).Addr())
		}
		into = into.Elem()
	}
	switch {
	case s.kind == list:
		items := reflect.MakeSlice(into.Type(), len(n.items), len(n.items))
		for i, item := range n.items {
			items.Index(i).Set(v.fresh(into.Type().Elem(), s.item))
			v.value(item, s.item, items.Index(i))
		}
		into.Set(items)
	case s.kind != mapping:
		if t, ok := v.scalar(n); ok {
			if s.path && !filepath.IsAbs(t) {
				t = filepath.Join(filepath.Dir(v.file), t)
			}
			s.put(into, t)
		}
	case s.short != nil && n.kind != isMapping:
		v.field(n, s.short, into)
	case into.Kind() == reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		for _, k := range n.keys {
			entry := v.fresh(into.Type().Elem(), s.item)
			v.value(k.value, s.item, entry)
			into.SetMapIndex(reflect.ValueOf(k.name), entry)
		}
	case into.Kind() == reflect.Slice:
		for _, k := range n.keys {
			entry := v.fresh(into.Type().Elem(), s.item)
			entry.FieldByIndex(s.key).SetString(k.name)
			v.field(k.value, s.item, entry)
			into.Set(reflect.Append(into, entry))
		}
	default:
		for _, f := range s.fields {
			v.field(n.get(f.name), f.spec, into)
		}
	}
	if of, ok := into.Addr().Interface().(interface{ afterDecode(v *view, n *node) }); ok {
		of.afterDecode(v, n)
	}
}

// put gives a field the value of a text whose form is right; of a list, one of words.
func (s *spec) put(into reflect.Value, t string) {
	value, _ := s.read(t)
	switch x := reflect.ValueOf(value); {
	case s.kind == list:
		into.Set(reflect.ValueOf(strings.Fields(t)))
	case s.kind == boolean:
		into.SetBool(x.Bool() != s.inverted)
	case into.CanUint():
		into.SetUint(uint64(x.Float()))
	default:
		into.Set(x.Convert(into.Type()))
	}
}

// fresh returns a new value in which everything has its default that has one.
func (v *view) fresh(t reflect.Type, s *spec) reflect.Value {
	value := reflect.New(t).Elem()
	preset(value, s, v.protocol, v.traits)
	return value
}

// preset gives the fields of a mapping their defaults, for a protocol where that is known.
// Where the traits are not known yet, a default with conditions waits until they are (see
// Complete).
func preset(into reflect.Value, s *spec, protocol string, traits map[string]bool) {
	for _, f := range s.fields {
		if f.spec.form || !f.spec.of(protocol) {
			continue
		}
		to := into.FieldByIndex(f.spec.at)
		switch d := f.spec.defaultWith(traits); {
		case d == "{}":
			to.Set(reflect.New(to.Type().Elem()))
			preset(to.Elem(), f.spec, protocol, traits)
		case d != "" && (len(f.spec.defaults) == 1 || traits != nil):
			f.spec.put(to, d)
		case to.Kind() == reflect.Struct:
			preset(to, f.spec, protocol, traits)
		}
	}
}

// of tells whether targets of a protocol have the field.
func (s *spec) of(name string) bool {
	return len(s.only) == 0 || name == "" || slices.ContainsFunc(s.only, protocolNamed(name).is)
}

// defaultWith returns the default of a plan with these traits: the last of those whose
// condition holds.
func (s *spec) defaultWith(traits map[string]bool) string {
	var found string
	for _, d := range s.defaults {
		if value, condition, _ := strings.Cut(d, " "); condition == "" || traits[condition] {
			found = value
		}
	}
	if found == "none" {
		return ""
	}
	return found
}

// variant resolves everything one variant holds.
func (r *reader) variant(choice variantChoice, short *node) Variant {
	v := &view{reader: r, variant: choice.name, vars: choice.vars, runtime: map[string]bool{}}
	for _, name := range RuntimeNames(r.serviceNames()...) {
		v.runtime[name] = true
	}
	target := r.root.get("target")
	v.protocol = TCP
	v.read(target.get("protocol"), "target.protocol", &v.protocol)
	v.traits = maps.Clone(r.traits)
	v.traits["of "+v.protocol] = true
	out := defaultVariant(v.protocol, v.traits)
	out.Name, out.Vars = choice.name, choice.vars
	if v.protocol == Program {
		v.program(target, short)
	}
	v.read(target, "target", &out.Target)
	if v.protocol == Program {
		out.Target.Ready = Ready{Kind: ReadyNone}
	}
	out.Target.Complete()
	v.read(r.root.get("services"), "services", &out.Services)
	for i := range out.Services {
		if s := &out.Services[i]; s.Ready.Kind == "" {
			s.Ready.Kind = ReadyNone
			if s.mentions("port") {
				s.Ready.Kind = ReadyTCP
			}
		}
	}
	out.Services = v.startOrder(out.Services)
	v.read(r.root.get("observe"), "observe", &out.Observe)
	switch load := r.root.get("load"); {
	case v.protocol == Program:
	case load != nil:
		v.load(load, short, &out.Load)
	case r.noLoad:
		r.c.add(finding{path: "load", problem: "is missing", hint: "want a mapping", line: r.root.line, column: r.root.column}, choice.name)
	}
	return out
}

// afterDecode sets what a scalar means that stands for the mapping.
func (r *Ready) afterDecode(v *view, n *node) {
	http, line := n.get("http") != nil, n.get("line") != nil
	switch t := r.Kind; {
	case http && line:
		v.report(n, "http and line exclude each other", "keep one of them")
	case http:
		r.Kind = ReadyHTTP
	case line:
		r.Kind = ReadyLine
	case n.kind == isMapping:
		v.report(n, "the mapping is empty", `such as {http: /healthz} or {line: "listening on"}`)
	case t == "" || t == ReadyTCP || t == ReadyNone:
	case strings.HasPrefix(t, "/") || strings.Contains(t, "://"):
		r.Kind, r.URL = ReadyHTTP, t
	default:
		v.report(n, fmt.Sprintf("%q is not possible", clip(t)), `tcp, none, a URL, a path such as /healthz, or {line: "listening on"}`)
	}
}

// afterDecode reports what is not one distribution.
func (*Think) afterDecode(v *view, n *node) {
	if n.kind == isMapping && len(n.keys) != 1 {
		v.report(n, fmt.Sprintf("want one distribution, have %d", len(n.keys)), "one of constant, uniform, exponential")
	}
}

// load reads a load, with what the short form and the options say on top.
func (v *view) load(n, short *node, l *Load) {
	set := v.settings.get("load")
	for _, layer := range []*node{n, short, set} {
		v.read(layer, "load", l)
	}
	windows := []*node{n.get("window"), v.root.get("short").get("window"), set.get("window")}
	stages := n.get("stages")
	if stages == nil {
		if l.Requests > 0 && n.get("window") == nil && short.get("window") == nil && set.get("window") == nil {
			l.Window = 0
		}
		return
	}
	for _, w := range windows {
		if w != nil {
			v.report(w, "the stages give the window its length", "remove it, or the stages")
		}
	}
	if l.Open == nil {
		l.Open = DefaultOpen()
	}
	v.stages(stages, l)
}

// The sections of the file, and the fields, that stand in another form in the plan.
type (
	comparison struct {
		Base     string                       `yaml:"base,required" like:"name" doc:"the variant others are compared with"`
		Variants map[string]map[string]string `yaml:"variants,required,nonempty" names:"name variable" kind:"word" most:"1000" doc:"each variant's variables, for {{name}} in target, services and load; what it does not set it takes from the base"`
	}
	ladderForm struct {
		Steps       map[string]map[string]string `yaml:"steps,required,nonempty" names:"name variable" kind:"word" most:"1000" doc:"each step's variables, on top of those of the steps before it; the first is the base"`
		LeaveOneOut bool                         `yaml:"leave_one_out" doc:"also measure the whole ladder without each step but the first and the last"`
	}
	sweepForm struct {
		Exclude []map[string]string `yaml:"exclude" names:"variable" kind:"word" doc:"combinations to leave out: those with all these values"`
		Values  map[string][]string `yaml:",rest" names:"variable" kind:"word" doc:"the values of a variable"`
	}
	shortForm struct {
		Rounds   int                 `yaml:"rounds" range:"design.rounds" doc:"how often each variant is measured, whatever design.stop says"`
		Warmup   time.Duration       `yaml:"warmup" range:"load.warmup" doc:"load that is not measured, before the window"`
		Window   time.Duration       `yaml:"window" range:"load.window" doc:"how long to measure"`
		Sweep    map[string][]string `yaml:"sweep" names:"variable" kind:"word" doc:"some of the values of some of the variables"`
		Variants []string            `yaml:"variants" like:"name" doc:"some of the variants or steps"`
	}
	stageForm struct {
		Duration time.Duration `yaml:"duration,required" range:"1ms..24h" doc:"how long it lasts"`
		Rate     float64       `yaml:"rate" kind:"rate" range:"0..10000000" doc:"of requests in all, from its beginning to its end"`
		From     float64       `yaml:"from" kind:"rate" range:"0..10000000" otherwise:"where the last stage ended" doc:"at its beginning"`
		To       float64       `yaml:"to" kind:"rate" range:"0..10000000" doc:"at its end"`
	}
)

// formNamed returns the type of a form that a tag names.
func formNamed(name string) reflect.Type {
	return map[string]reflect.Type{
		"compare": reflect.TypeFor[comparison](),
		"ladder":  reflect.TypeFor[ladderForm](),
		"sweep":   reflect.TypeFor[sweepForm](),
		"short":   reflect.TypeFor[shortForm](),
		"stages":  reflect.TypeFor[[]stageForm](),
	}[name]
}

// stages reads the parts of the window and makes their sum its length.
func (v *view) stages(list *node, l *Load) {
	var forms []stageForm
	v.read(list, "load.stages", &forms)
	l.Window = 0
	rate := 0.0 // where the last stage ended
	for i, f := range forms {
		n := list.items[i]
		s := Stage{Duration: f.Duration, From: rate}
		steady, from, to := n.get("rate") != nil, n.get("from") != nil, n.get("to") != nil
		switch {
		case steady && (from || to):
			v.report(n, "rate excludes from and to", "keep rate for a steady stage, from and to for a ramp")
		case steady:
			s.From, s.To = f.Rate, f.Rate
		case to:
			if s.To = f.To; from {
				s.From = f.From
			}
		case n.kind == isMapping:
			v.report(n, "the stage has no rate", "give it rate, or to")
		}
		rate = s.To
		l.Window += s.Duration
		l.Open.Stages = append(l.Open.Stages, s)
	}
}

// startOrder sorts services by name, but after those whose addresses they use.
func (v *view) startOrder(services []Service) []Service {
	slices.SortFunc(services, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	needs := map[string][]string{} // the services whose addresses each one uses
	for _, s := range services {
		for _, name := range s.runtimeNames() {
			if other, _, ok := strings.Cut(name, "."); ok && other != s.Name {
				needs[s.Name] = append(needs[s.Name], other)
			}
		}
	}
	var out []Service
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
		v.report(v.root.get("services").get(circle[0]).get("start"), "none of "+strings.Join(circle, ", ")+" can start first", "each uses the address of another")
		return services
	}
	return out
}

// runtimeNames returns the run-time names in the process's texts.
func (p Process) runtimeNames() []string {
	var names []string
	for _, s := range p.Start {
		names = append(names, templateNames(s)...)
	}
	for _, s := range p.Env {
		names = append(names, templateNames(s)...)
	}
	return names
}

// mentions tells whether the process's texts contain this run-time name.
func (p Process) mentions(name string) bool { return slices.Contains(p.runtimeNames(), name) }

// DefaultVariant returns a variant named default in which everything has its
// default that has one. What is left to say: the target's address, URL or
// command, and a closed or an open load; of a program only the command.
func DefaultVariant(protocol string) Variant {
	return defaultVariant(protocol, map[string]bool{"of " + protocol: true})
}

func defaultVariant(protocol string, traits map[string]bool) Variant {
	v := Variant{Name: "default", Vars: map[string]string{}}
	_, parts := theFile()
	preset(reflect.ValueOf(&v).Elem(), parts[1], protocol, traits)
	v.Target.Protocol, v.Target.Ready.Kind = protocol, ReadyTCP
	if protocol == Program {
		v.Target.Ready.Kind, v.Observe = ReadyNone, Observe{}
	}
	return v
}

// DefaultOpen returns an open load that lacks only its rate.
func DefaultOpen() *Open {
	o := &Open{}
	preset(reflect.ValueOf(o).Elem(), specAt("load.open"), "", nil)
	return o
}
