package planfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
)

// A variantChoice is a variant's name and variables.
type variantChoice struct {
	name string
	vars map[string]string // nil when they are not known
}

// variants returns the variants in the order of the file, without a control, and notes their origin in
// the experiment; none when faults keep them from being known.
func (r *reader) variants(e *plan.Experiment, short *fields.Node) []variantChoice {
	compare, ladder, sweep := r.root.Get("compare"), r.root.Get("ladder"), r.root.Get("sweep")
	whole := r.root.Get("short")
	if compare == nil && ladder == nil && whole.Get("variants") != nil {
		r.fault(whole.Get("variants"), "there is no compare or ladder whose variants it could name", "remove it")
	}
	if sweep == nil && whole.Get("sweep") != nil {
		r.fault(whole.Get("sweep"), "there is no sweep whose values it could name", "remove it")
	}
	var designs []*fields.Node
	for _, n := range []*fields.Node{compare, ladder, sweep} {
		if n != nil {
			designs = append(designs, n)
		}
	}
	if len(designs) > 1 {
		for _, n := range designs[1:] {
			r.fault(n, fmt.Sprintf("%s and %s exclude each other", designs[0].Path, n.Path), "keep one of them")
		}
		return nil
	}
	switch {
	case r.c.Touched["compare"], r.c.Touched["ladder"], r.c.Touched["sweep"]:
	case len(designs) == 0:
		return []variantChoice{{name: "default", vars: map[string]string{}}}
	case !r.sound(designs[0]):
	case compare != nil && r.sound(whole.Get("variants")):
		return r.compared(e, compare, short)
	case ladder != nil && r.sound(whole.Get("variants")):
		return r.laddered(e, ladder, short)
	case sweep != nil && r.sound(whole.Get("sweep")):
		return r.swept(e, sweep, short)
	}
	return nil
}

// sound tells whether nothing was found wrong within a value.
func (r *reader) sound(n *fields.Node) bool {
	if n == nil {
		return true
	}
	for path := range r.c.Touched {
		if path == n.Path || strings.HasPrefix(path, n.Path+".") || strings.HasPrefix(path, n.Path+"[") {
			return false
		}
	}
	return true
}

// compared returns the variants of a compare section: the base's variables
// with each variant's own on top.
func (r *reader) compared(e *plan.Experiment, compare, short *fields.Node) []variantChoice {
	variants, base := compare.Get("variants"), compare.Get("base")
	var names []string
	for _, k := range variants.Keys {
		names = append(names, k.Name)
	}
	if !slices.Contains(names, base.Text) {
		r.fault(base, fmt.Sprintf("there is no variant %q", base.Text), fields.ChoiceHint(base.Text, names))
		return nil
	}
	if len(names) < 2 {
		r.fault(variants, "there is nothing to compare the base with", "add a second variant")
	}
	e.Base = base.Text
	keep := r.kept(names, short, "base", base.Text)
	e.LeftOut = leftOut(names, keep)
	shared := r.variables(variants.Get(base.Text))
	var out []variantChoice
	for _, k := range variants.Keys {
		own := r.variables(k.Value) // also of those left out, to find their faults
		if slices.Contains(keep, k.Name) {
			out = append(out, variantChoice{k.Name, r.layered([]map[string]string{shared, own})})
		}
	}
	return out
}

// leftOut returns the names that are not kept.
func leftOut(names, keep []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(keep, name) {
			out = append(out, name)
		}
	}
	return out
}

// kept returns which of the variants are measured: all, or those that the short
// form names. The base, called what it is, must be among them, and so must the
// control's original.
func (r *reader) kept(names []string, short *fields.Node, what, base string) []string {
	list := r.root.Get("short").Get("variants")
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
func (r *reader) variables(n *fields.Node) map[string]string {
	vars := map[string]string{}
	for _, k := range n.Keys {
		r.variable(k.Name, k.Value)
		vars[k.Name] = k.Value.Text
	}
	return vars
}

// variable reports a name that a trial fills in itself, and templates in a
// value that are not such names.
func (r *reader) variable(name string, value *fields.Node) {
	runtime := plan.RuntimeNames(r.serviceNames()...)
	if slices.Contains(runtime, name) {
		r.atName(value, fmt.Sprintf("a trial gives {{%s}} its value itself", name), "use another name")
	}
	_, err := plan.ExpandWith(value.Text, plan.QuotedBraces, func(used string) (string, bool) {
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
	if n := r.root.Get("services"); n != nil {
		for _, k := range n.Keys {
			names = append(names, k.Name)
		}
	}
	return names
}

// named returns the entries of compare and ladder, each a variant's variables.
func (r *reader) named() []fields.Key {
	var all []fields.Key
	for _, n := range []*fields.Node{r.root.Get("compare").Get("variants"), r.root.Get("ladder").Get("steps")} {
		if n != nil {
			all = append(all, n.Keys...)
		}
	}
	return all
}

// variableNames returns the names of all variables of all variants.
func (r *reader) variableNames() []string {
	var names []string
	collect := func(n *fields.Node) {
		if n == nil {
			return
		}
		for _, k := range n.Keys {
			if n.Spec == nil || n.Spec.Field(k.Name) != nil && !slices.Contains(n.Spec.FieldNames(), k.Name) {
				names = append(names, k.Name)
			}
		}
	}
	collect(r.root.Get("sweep"))
	for _, k := range r.named() {
		collect(k.Value)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// subset returns a list's entries in the order of the whole, after reporting
// those that are not in it.
func (r *reader) subset(list *fields.Node, whole []string, what string) []string {
	var picked []string
	for _, item := range list.Items {
		if !slices.Contains(whole, item.Text) {
			r.fault(item, fmt.Sprintf("there is no %s %q", what, nearest.Clip(item.Text)), fields.ChoiceHint(item.Text, whole))
		}
		picked = append(picked, item.Text)
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
	var walk func(n *fields.Node)
	walk = func(n *fields.Node) {
		names := plan.TemplateNames(n.Text)
		if n.Spec != nil && n.Spec.Scripted {
			names = nil
			plan.ExpandKnown(n.Text, func(name string) (string, bool) {
				names = append(names, name)
				return "", false
			})
		}
		for _, name := range names {
			used[name] = true
		}
		for _, k := range n.Keys {
			walk(k.Value)
		}
		for _, item := range n.Items {
			walk(item)
		}
	}
	for _, k := range r.root.Keys {
		if k.Value.Spec != nil && k.Value.Spec.Template {
			walk(k.Value)
		}
	}
	for _, name := range r.variableNames() {
		if used[name] {
			continue
		}
		path := "sweep." + name
		for _, k := range r.named() {
			if k.Value.Get(name) != nil {
				path = fields.Join(k.Value.Path, name)
				break
			}
		}
		r.warn(path, "nothing uses {{"+name+"}}", "variants do not differ by it")
	}
}
