package experiment

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A variantChoice is a variant's name and variables.
type variantChoice struct {
	name string
	vars map[string]string // nil when they are not known
}

// variants returns the variants in the order of the file; not ok when faults
// keep them from being known.
func (r *reader) variants(short *node) (choices []variantChoice, ok bool) {
	compare, sweep := r.root.get("compare"), r.root.get("sweep")
	whole := r.root.get("short")
	if compare == nil && whole.get("variants") != nil {
		r.fault(whole.get("variants"), "there is no compare whose variants it could name", "remove it")
	}
	if sweep == nil && whole.get("sweep") != nil {
		r.fault(whole.get("sweep"), "there is no sweep whose values it could name", "remove it")
	}
	switch {
	case compare != nil && sweep != nil:
		r.fault(sweep, "compare and sweep exclude each other", "keep one of them")
	case r.c.touched["compare"], r.c.touched["sweep"]:
	case compare != nil && r.sound(compare) && r.sound(whole.get("variants")):
		choices = r.compared(compare, short)
	case sweep != nil && r.sound(sweep) && r.sound(whole.get("sweep")):
		choices = r.swept(sweep, short)
	case compare == nil && sweep == nil:
		choices = []variantChoice{{name: "default", vars: map[string]string{}}}
	}
	return choices, len(choices) > 0
}

// sound tells whether nothing was found wrong within a value.
func (r *reader) sound(n *node) bool {
	if n == nil {
		return true
	}
	for path := range r.c.touched {
		if path == n.path || strings.HasPrefix(path, n.path+".") || strings.HasPrefix(path, n.path+"[") {
			return false
		}
	}
	return true
}

// compared returns the variants of a compare section: the base's variables
// with each variant's own on top.
func (r *reader) compared(compare, short *node) []variantChoice {
	variants, base := compare.get("variants"), compare.get("base")
	var names []string
	for _, k := range variants.keys {
		names = append(names, k.name)
	}
	if !slices.Contains(names, base.text) {
		r.fault(base, fmt.Sprintf("there is no variant %q", base.text), choiceHint(base.text, names))
		return nil
	}
	if len(names) < 2 {
		r.fault(variants, "there is nothing to compare the base with", "add a second variant")
	}
	keep := names
	if list := r.root.get("short").get("variants"); list != nil {
		subset := r.subset(list, names, "variant")
		if len(subset) > 0 && !slices.Contains(subset, base.text) {
			r.fault(list, fmt.Sprintf("the base %q is not among them", base.text), "add it")
		}
		if short != nil {
			keep = subset
		}
	}
	shared := r.variables(variants.get(base.text))
	var out []variantChoice
	for _, k := range variants.keys {
		own := r.variables(k.value) // also of those left out, to find their faults
		if slices.Contains(keep, k.name) {
			vars := maps.Clone(shared)
			maps.Copy(vars, own)
			r.override(vars)
			out = append(out, variantChoice{k.name, vars})
		}
	}
	return out
}

// override applies the options' values. It gives all variants the variables
// that any of them has.
func (r *reader) override(vars map[string]string) {
	known := r.variableNames()
	for name, value := range r.options.Set {
		if slices.Contains(known, name) {
			vars[name] = value
		}
	}
}

// variables returns a mapping's names and values.
func (r *reader) variables(n *node) map[string]string {
	vars := map[string]string{}
	for _, k := range n.keys {
		r.variable(k.name, k.value)
		vars[k.name] = k.value.text
	}
	return vars
}

// variable reports a name that a trial fills in itself, and templates in a
// value that are not such names.
func (r *reader) variable(name string, value *node) {
	runtime := RuntimeNames(r.serviceNames()...)
	if slices.Contains(runtime, name) {
		line, column := value.where()
		r.c.add(finding{path: value.path, line: line, column: column,
			problem: fmt.Sprintf("a trial gives {{%s}} its value itself", name), hint: "use another name"}, "")
	}
	_, err := expand(value.text, func(used string) (string, bool) {
		if !slices.Contains(runtime, used) {
			r.fault(value, fmt.Sprintf("a variable's value cannot use {{%s}}", used), "only "+strings.Join(runtime, ", "))
		}
		return "", true
	})
	if err != nil {
		r.fault(value, err.Error(), "")
	}
}

func (r *reader) serviceNames() []string {
	var names []string
	if n := r.root.get("services"); n != nil {
		for _, k := range n.keys {
			names = append(names, k.name)
		}
	}
	return names
}

// variableNames returns the names of all variables of all variants.
func (r *reader) variableNames() []string {
	var names []string
	collect := func(n *node) {
		if n == nil {
			return
		}
		for _, k := range n.keys {
			if n.spec == nil || n.spec.field(k.name) != nil && !slices.Contains(n.spec.fieldNames(), k.name) {
				names = append(names, k.name)
			}
		}
	}
	collect(r.root.get("sweep"))
	if variants := r.root.get("compare").get("variants"); variants != nil {
		for _, k := range variants.keys {
			collect(k.value)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A dimension is a variable of a sweep with its values.
type dimension struct {
	name   string
	values []string
}

// swept returns every combination of a sweep's values that is not excluded.
func (r *reader) swept(sweep, short *node) []variantChoice {
	var full []dimension
	for _, k := range sweep.keys {
		if k.name == "exclude" {
			continue
		}
		d := dimension{name: k.name}
		for _, item := range k.value.items {
			if r.variable(k.name, item); slices.Contains(d.values, item.text) {
				r.fault(item, fmt.Sprintf("%q is listed twice", clip(item.text)), "remove it")
				continue
			}
			d.values = append(d.values, item.text)
		}
		full = append(full, d)
	}
	excluded := r.excluded(sweep.get("exclude"), full)
	effective := r.narrowed(full, short)

	count := 1
	for _, d := range effective {
		if count *= len(d.values); count > maxVariants {
			r.fault(sweep, fmt.Sprintf("more than %d combinations", maxVariants), "leave out some values")
			return nil
		}
	}
	var out []variantChoice
	names := map[string]bool{}
	for i := range count {
		vars, parts := map[string]string{}, make([]string, len(effective))
		for at, rest := len(effective)-1, i; at >= 0; at-- {
			d := effective[at]
			vars[d.name] = d.values[rest%len(d.values)]
			parts[at] = nameOf(vars[d.name])
			rest /= len(d.values)
		}
		if slices.ContainsFunc(excluded, func(x map[string]string) bool { return holdsAll(vars, x) }) {
			continue
		}
		name := strings.Join(parts, "-")
		if names[name] {
			r.fault(sweep, fmt.Sprintf("two combinations would be named %q", name), "change a value")
			return nil
		}
		names[name] = true
		out = append(out, variantChoice{name, vars})
	}
	if len(out) == 0 {
		r.fault(sweep, "no combination is left", "exclude fewer")
	}
	return out
}

// narrowed returns the dimensions with the values that the short form and the
// options leave.
func (r *reader) narrowed(full []dimension, short *node) []dimension {
	effective := slices.Clone(full)
	if overlay := r.root.get("short").get("sweep"); overlay != nil {
		for _, k := range overlay.keys {
			i := slices.IndexFunc(full, func(d dimension) bool { return d.name == k.name })
			if i < 0 {
				r.fault(k.value, "the sweep has no such variable", suggest(k.name, dimensionNames(full)))
				continue
			}
			if subset := r.subset(k.value, full[i].values, "value"); short != nil && len(subset) > 0 {
				effective[i].values = subset
			}
		}
	}
	for i, d := range effective {
		if value, ok := r.options.Set[d.name]; ok {
			effective[i].values = []string{value}
		}
	}
	return effective
}

// subset returns a list's entries in the order of the whole, after reporting
// those that are not in it.
func (r *reader) subset(list *node, whole []string, what string) []string {
	var picked []string
	for _, item := range list.items {
		if !slices.Contains(whole, item.text) {
			r.fault(item, fmt.Sprintf("there is no %s %q", what, clip(item.text)), choiceHint(item.text, whole))
		}
		picked = append(picked, item.text)
	}
	var out []string
	for _, w := range whole {
		if slices.Contains(picked, w) {
			out = append(out, w)
		}
	}
	return out
}

// excluded returns the combinations to leave out, after reporting those that
// match nothing.
func (r *reader) excluded(n *node, dimensions []dimension) []map[string]string {
	if n == nil {
		return nil
	}
	var out []map[string]string
	for _, item := range n.items {
		if len(item.keys) == 0 {
			r.fault(item, "it would exclude everything", "name a variable and its value")
			continue
		}
		x := map[string]string{}
		for _, k := range item.keys {
			i := slices.IndexFunc(dimensions, func(d dimension) bool { return d.name == k.name })
			switch {
			case i < 0:
				r.fault(k.value, "the sweep has no such variable", suggest(k.name, dimensionNames(dimensions)))
			case !slices.Contains(dimensions[i].values, k.value.text):
				r.fault(k.value, fmt.Sprintf("the sweep has no value %q of %s", clip(k.value.text), k.name), choiceHint(k.value.text, dimensions[i].values))
			}
			x[k.name] = k.value.text
		}
		out = append(out, x)
	}
	return out
}

func dimensionNames(dimensions []dimension) []string {
	var names []string
	for _, d := range dimensions {
		names = append(names, d.name)
	}
	return names
}

func holdsAll(vars, part map[string]string) bool {
	for name, value := range part {
		if vars[name] != value {
			return false
		}
	}
	return true
}

// notInNames are the characters that a variant's name cannot hold.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9._+-]+`)

// nameOf turns a value into a part of a variant's name: 5000/s into 5000-s.
func nameOf(value string) string {
	if name := strings.Trim(notInNames.ReplaceAllString(value, "-"), "-"); name != "" {
		return name
	}
	return "none"
}

// unused returns a warning for every variable that no template mentions: the
// variants do not differ by it.
func (r *reader) unused(choices []variantChoice) []Fault {
	used := map[string]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		for _, name := range templateNames(n.text) {
			used[name] = true
		}
		for _, k := range n.keys {
			walk(k.value)
		}
		for _, item := range n.items {
			walk(item)
		}
	}
	for _, k := range r.root.keys {
		if k.value.spec != nil && k.value.spec.template {
			walk(k.value)
		}
	}
	var out []Fault
	for _, name := range r.variableNames() {
		if used[name] {
			continue
		}
		f := Fault{File: r.file, Field: "sweep." + name, Problem: "nothing uses {{" + name + "}}", Hint: "variants do not differ by it"}
		if variants := r.root.get("compare").get("variants"); variants != nil {
			for _, k := range variants.keys {
				if k.value.get(name) != nil {
					f.Field = join(k.value.path, name)
					break
				}
			}
		}
		f.Line, f.Column = r.place(f.Field)
		out = append(out, f)
	}
	return out
}
