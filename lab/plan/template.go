package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/load/scenario"
)

// RuntimeNames returns the run-time names in the process's texts.
func (p Process) RuntimeNames() []string {
	var names []string
	for _, s := range p.Start {
		names = append(names, TemplateNames(s)...)
	}
	for _, s := range p.Env {
		names = append(names, TemplateNames(s)...)
	}
	return names
}

// Mentions tells whether the process's texts contain this run-time name.
func (p Process) Mentions(name string) bool { return slices.Contains(p.RuntimeNames(), name) }

// MaxText bounds a scalar after substitution, in bytes.
const MaxText = 1 << 20

// isTemplateName tells what may stand between the braces: letters, digits, _
// and -, no digit or - first, then perhaps .addr, .port or .admin.
func isTemplateName(s string) bool {
	name, property, service := strings.Cut(s, ".")
	if service && property != "addr" && property != "port" && property != "admin" {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

// RuntimeNames returns the names that stay in a variant's strings until a trial fills them in: host is
// the address of the process's machine, or in the load the target's. port and admin are two free ports
// there. Each service has .addr (host:port), .port and .admin. A variable may use none of them as its
// name.
func RuntimeNames(services ...string) []string {
	names := []string{"host", "port", "admin"}
	for _, s := range services {
		names = append(names, s+".addr", s+".port", s+".admin")
	}
	return names
}

// braces are what templates begin with, and QuotedBraces the template that says braces, as in a
// scenario.
const (
	braces       = "{{"
	QuotedBraces = `{{ "{{" }}`
	HintBraces   = "write " + QuotedBraces + " for the braces themselves"
)

// Quote returns the template that says a text in which only these names are templates.
func Quote(s string, names ...string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, braces)
		if b.WriteString(before); !found {
			return b.String()
		}
		inner, _, closed := strings.Cut(rest, "}}")
		if s = rest; closed && slices.Contains(names, strings.TrimSpace(inner)) {
			b.WriteString(braces)
		} else {
			b.WriteString(QuotedBraces)
		}
	}
}

// Unquote returns the text that Quote has made a template of.
func Unquote(s string) string { return strings.ReplaceAll(s, QuotedBraces, braces) }

// cutQuoted cuts what follows braces in QuotedBraces, in which blanks and the kind of quotes do
// not matter.
func cutQuoted(rest string) (after string, found bool) {
	rest = strings.TrimLeft(rest, " ")
	for _, quote := range []string{`"`, `'`} {
		if after, found = strings.CutPrefix(rest, quote+braces+quote); found {
			return strings.CutPrefix(strings.TrimLeft(after, " "), "}}")
		}
	}
	return "", false
}

// Expand replaces every {{name}} in s by its value; blanks inside the braces
// do not matter. Values are not expanded again. A name without a value, braces
// that do not close and a result beyond 1 MiB are errors. {{ "{{" }} becomes {{.
func Expand(s string, vars map[string]string) (string, error) {
	var unknown []string
	out, err := ExpandWith(s, braces, func(name string) (string, bool) {
		v, ok := vars[name]
		if !ok && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
		return v, ok
	})
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("no value for {{%s}}; %s", strings.Join(unknown, "}}, {{"), HintBraces)
	}
	if err != nil {
		return "", err
	}
	return out, nil
}

// Fill replaces the run-time variables in the target's addresses, in what is observed, and in the load. Of a
// Plain variant's load, it fills in only the scenario. It makes copies. Processes have their own ports; their
// starter fills them in.
func (v *Variant) Fill(vars map[string]string) error {
	parts := []any{&v.Target.Address, &v.Target.URL, &v.Target.Proxy, &v.Target.Pprof, &v.Observe}
	if v.Plain {
		parts = append(parts, &v.Load.Scenario)
	} else {
		parts = append(parts, &v.Load)
	}
	if err := fill(vars, parts...); err != nil {
		return fmt.Errorf("variant %s: %w", v.Name, err)
	}
	return nil
}

// Fill replaces the run-time variables in all texts of the process. It makes copies.
func (p *Process) Fill(vars map[string]string) error { return fill(vars, p) }

// fill replaces the pointers' targets by filled copies. It returns the first error.
func fill(vars map[string]string, parts ...any) (first error) {
	for _, part := range parts {
		of := reflect.ValueOf(part).Elem()
		of.Set(filled(of, func(s string) string {
			out, err := Expand(s, vars)
			if first == nil {
				first = err
			}
			return out
		}, func(s string) string {
			return ExpandKnown(s, func(name string) (string, bool) {
				value, ok := vars[name]
				return value, ok
			})
		}))
	}
	return first
}

// filled returns a deep copy of structs, pointers, slices and maps in which every text but the
// keys is replaced. inScenario replaces the texts of a scenario, whose own templates stay.
func filled(of reflect.Value, replace, inScenario func(string) string) reflect.Value {
	if of.Type() == reflect.TypeFor[scenario.Spec]() {
		replace = inScenario
	}
	out := reflect.New(of.Type()).Elem()
	out.Set(of)
	switch of.Kind() {
	case reflect.String:
		out.SetString(replace(of.String()))
	case reflect.Interface:
		if !of.IsNil() {
			out.Set(filled(of.Elem(), replace, inScenario))
		}
	case reflect.Pointer:
		if !of.IsNil() {
			out.Set(reflect.New(of.Type().Elem()))
			out.Elem().Set(filled(of.Elem(), replace, inScenario))
		}
	case reflect.Struct:
		for i := range of.NumField() {
			with := replace
			if slices.Contains(strings.Split(of.Type().Field(i).Tag.Get("yaml"), ","), "scripted") {
				with = inScenario
			}
			out.Field(i).Set(filled(of.Field(i), with, inScenario))
		}
	case reflect.Slice:
		if !of.IsNil() {
			out.Set(reflect.MakeSlice(of.Type(), of.Len(), of.Len()))
		}
		for i := range of.Len() {
			out.Index(i).Set(filled(of.Index(i), replace, inScenario))
		}
	case reflect.Map:
		if !of.IsNil() {
			out.Set(reflect.MakeMap(of.Type()))
		}
		for _, key := range of.MapKeys() {
			out.SetMapIndex(key, filled(of.MapIndex(key), replace, inScenario))
		}
	}
	return out
}

// ExpandWith replaces the names that lookup knows and drops the others. It puts quoted in the place
// of QuotedBraces: these themselves if what comes out is expanded once more.
func ExpandWith(s, quoted string, lookup func(name string) (string, bool)) (string, error) {
	if !fields.HasTemplate(s) {
		return s, nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		b.WriteString(before)
		if !found {
			break
		}
		if after, ok := cutQuoted(rest); ok {
			b.WriteString(quoted)
			s = after
			continue
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return "", fmt.Errorf("{{ without }}; %s", HintBraces)
		}
		if name = strings.TrimSpace(name); !isTemplateName(name) {
			return "", fmt.Errorf("%q is not a template name; %s", nearest.Clip(name), HintBraces)
		}
		value, _ := lookup(name)
		if b.WriteString(value); b.Len() > MaxText {
			return "", fmt.Errorf("longer than 1 MiB after substitution")
		}
		s = after
	}
	return b.String(), nil
}

// ExpandKnown replaces the names that lookup knows, and leaves all else as it stands: other
// braces belong to a scenario, whose templates are more than names.
func ExpandKnown(s string, lookup func(name string) (string, bool)) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		inner, after, closed := strings.Cut(rest, "}}")
		value, known := "", false
		if name := strings.TrimSpace(inner); closed && isTemplateName(name) {
			value, known = lookup(name)
		}
		if s = after; known {
			b.WriteString(value)
			continue
		}
		b.WriteString("{{")
		s = rest
	}
}

// uses tells whether s holds the template {{name}}.
func uses(s, name string) bool {
	return slices.Contains(TemplateNames(s), name)
}

// TemplateNames returns the names of the templates in s; none when s is
// malformed.
func TemplateNames(s string) []string {
	var names []string
	_, err := ExpandWith(s, braces, func(name string) (string, bool) {
		names = append(names, name)
		return "", true
	})
	if err != nil {
		return nil
	}
	return names
}

// placeholder stands for the value of a run-time name.
func placeholder(name string) (string, bool) {
	switch {
	case strings.HasSuffix(name, ".addr"):
		return "127.0.0.1:1", true
	case name == "host":
		return "127.0.0.1", true
	}
	return "1", true
}

// placeholders replaces the run-time names by values of the right form, so that the rest can be checked
// before.
func placeholders(s string) string {
	out, err := ExpandWith(s, braces, placeholder)
	if err != nil {
		return s
	}
	return out
}

// Sample returns a copy of the variant for checks before a trial. It has values of the right form in
// place of the run-time variables in its URL and its scenario.
func (v *Variant) Sample() Variant {
	with := *v
	with.Target.URL = placeholders(v.Target.URL)
	with.Load.Scenario = filled(reflect.ValueOf(v.Load.Scenario), placeholders, func(text string) string { return ExpandKnown(text, v.placeholder) }).Interface().(*scenario.Spec)
	return with
}

// placeholder stands for the value of a run-time name, and for nothing else.
func (v *Variant) placeholder(name string) (string, bool) {
	var services []string
	for _, s := range v.Services {
		services = append(services, s.Name)
	}
	ofTarget := !strings.Contains(name, ".")
	if ofTarget && len(v.Target.Start) == 0 || !slices.Contains(RuntimeNames(services...), name) {
		return "", false
	}
	return placeholder(name)
}
