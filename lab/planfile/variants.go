package planfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/lab/plan"
	"dyno/lab/schema"
)

// A variantChoice is a variant's name and variables.
type variantChoice struct {
	name string
	vars map[string]string // nil when they are not known
}

// variants returns the variants in the order of the file, without a control, and
// notes in the experiment where they come from; none when faults keep them from
// being known.
func (r *reader) variants(e *plan.Experiment, short *node) []variantChoice {
	compare, ladder, sweep := r.root.get("compare"), r.root.get("ladder"), r.root.get("sweep")
	whole := r.root.get("short")
	if compare == nil && ladder == nil && whole.get("variants") != nil {
		r.fault(whole.get("variants"), "there is no compare or ladder whose variants it could name", "remove it")
	}
	if sweep == nil && whole.get("sweep") != nil {
		r.fault(whole.get("sweep"), "there is no sweep whose values it could name", "remove it")
	}
	var designs []*node
	for _, n := range []*node{compare, ladder, sweep} {
		if n != nil {
			designs = append(designs, n)
		}
	}
	if len(designs) > 1 {
		for _, n := range designs[1:] {
			r.fault(n, fmt.Sprintf("%s and %s exclude each other", designs[0].path, n.path), "keep one of them")
		}
		return nil
	}
	switch {
	case r.c.Touched["compare"], r.c.Touched["ladder"], r.c.Touched["sweep"]:
	case len(designs) == 0:
		return []variantChoice{{name: "default", vars: map[string]string{}}}
	case !r.sound(designs[0]):
	case compare != nil && r.sound(whole.get("variants")):
		return r.compared(e, compare, short)
	case ladder != nil && r.sound(whole.get("variants")):
		return r.laddered(e, ladder, short)
	case sweep != nil && r.sound(whole.get("sweep")):
		return r.swept(e, sweep, short)
	}
	return nil
}

// sound tells whether nothing was found wrong within a value.
func (r *reader) sound(n *node) bool {
	if n == nil {
		return true
	}
	for path := range r.c.Touched {
		if path == n.path || strings.HasPrefix(path, n.path+".") || strings.HasPrefix(path, n.path+"[") {
			return false
		}
	}
	return true
}

// compared returns the variants of a compare section: the base's variables
// with each variant's own on top.
func (r *reader) compared(e *plan.Experiment, compare, short *node) []variantChoice {
	variants, base := compare.get("variants"), compare.get("base")
	var names []string
	for _, k := range variants.keys {
		names = append(names, k.name)
	}
	if !slices.Contains(names, base.text) {
		r.fault(base, fmt.Sprintf("there is no variant %q", base.text), schema.ChoiceHint(base.text, names))
		return nil
	}
	if len(names) < 2 {
		r.fault(variants, "there is nothing to compare the base with", "add a second variant")
	}
	e.Base = base.text
	keep := r.kept(names, short, "base", base.text)
	shared := r.variables(variants.get(base.text))
	var out []variantChoice
	for _, k := range variants.keys {
		own := r.variables(k.value) // also of those left out, to find their faults
		if slices.Contains(keep, k.name) {
			out = append(out, variantChoice{k.name, r.layered([]map[string]string{shared, own})})
		}
	}
	return out
}

// kept returns which of the variants are measured: all, or those that the short
// form names. The base, called what it is, must be among them, and so must the
// control's original.
func (r *reader) kept(names []string, short *node, what, base string) []string {
	list := r.root.get("short").get("variants")
	if list == nil {
		return names
	}
	subset := r.subset(list, names, "variant")
	needed := map[string]string{base: what}
	if of, wanted := r.controlOf(base); wanted && of != base && slices.Contains(names, of) {
		needed[of] = "control's original"
	}
	missing := false
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if len(subset) > 0 && !slices.Contains(subset, name) {
			r.fault(list, fmt.Sprintf("the %s %q is not among them", needed[name], name), "add it")
			missing = true
		}
	}
	if short == nil || missing || len(subset) == 0 {
		return names
	}
	return subset
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
	runtime := plan.RuntimeNames(r.serviceNames()...)
	if slices.Contains(runtime, name) {
		r.atName(value, fmt.Sprintf("a trial gives {{%s}} its value itself", name), "use another name")
	}
	_, err := plan.ExpandWith(value.text, plan.QuotedBraces, func(used string) (string, bool) {
		if !slices.Contains(runtime, used) {
			r.fault(value, fmt.Sprintf("a variable's value cannot use {{%s}}", used), "only "+strings.Join(runtime, ", "))
		}
		return "", true
	})
	if err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		r.fault(value, problem, hint)
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

// named returns the entries of compare and ladder, each a variant's variables.
func (r *reader) named() []key {
	var all []key
	for _, n := range []*node{r.root.get("compare").get("variants"), r.root.get("ladder").get("steps")} {
		if n != nil {
			all = append(all, n.keys...)
		}
	}
	return all
}

// variableNames returns the names of all variables of all variants.
func (r *reader) variableNames() []string {
	var names []string
	collect := func(n *node) {
		if n == nil {
			return
		}
		for _, k := range n.keys {
			if n.spec == nil || n.spec.Field(k.name) != nil && !slices.Contains(n.spec.FieldNames(), k.name) {
				names = append(names, k.name)
			}
		}
	}
	collect(r.root.get("sweep"))
	for _, k := range r.named() {
		collect(k.value)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// subset returns a list's entries in the order of the whole, after reporting
// those that are not in it.
func (r *reader) subset(list *node, whole []string, what string) []string {
	var picked []string
	for _, item := range list.items {
		if !slices.Contains(whole, item.text) {
			r.fault(item, fmt.Sprintf("there is no %s %q", what, schema.Clip(item.text)), schema.ChoiceHint(item.text, whole))
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

// unused warns of every variable that no template mentions.
func (r *reader) unused() {
	used := map[string]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		names := plan.TemplateNames(n.text)
		if n.spec != nil && n.spec.Scripted {
			names = nil
			plan.ExpandKnown(n.text, func(name string) (string, bool) {
				names = append(names, name)
				return "", false
			})
		}
		for _, name := range names {
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
		if k.value.spec != nil && k.value.spec.Template {
			walk(k.value)
		}
	}
	for _, name := range r.variableNames() {
		if used[name] {
			continue
		}
		path := "sweep." + name
		for _, k := range r.named() {
			if k.value.get(name) != nil {
				path = schema.Join(k.value.path, name)
				break
			}
		}
		r.warn(path, "nothing uses {{"+name+"}}", "variants do not differ by it")
	}
}
