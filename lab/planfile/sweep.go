package planfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dyno/internal/nearest"
	"dyno/lab/plan"
	"dyno/lab/schema"
)

// swept returns every combination of a sweep's values that is not excluded.
func (r *reader) swept(e *plan.Experiment, sweep, short *node) []variantChoice {
	var full []plan.Dimension
	for _, k := range sweep.keys {
		if k.name == "exclude" {
			continue
		}
		d := plan.Dimension{Name: k.name}
		for _, item := range k.value.items {
			if r.variable(k.name, item); slices.Contains(d.Values, item.text) {
				r.fault(item, fmt.Sprintf("%q is listed twice", schema.Clip(item.text)), "remove it")
				continue
			}
			d.Values = append(d.Values, item.text)
		}
		full = append(full, d)
	}
	excluded := r.excluded(sweep.get("exclude"), full)
	effective := r.narrowed(full, short)

	count := 1
	for _, d := range effective {
		if count *= len(d.Values); count > plan.MaxVariants {
			r.fault(sweep, fmt.Sprintf("more than %d combinations", plan.MaxVariants), "leave out some values")
			return nil
		}
	}
	var out []variantChoice
	names := map[string]bool{}
	for i := range count {
		vars, parts := map[string]string{}, make([]string, len(effective))
		for at, rest := len(effective)-1, i; at >= 0; at-- {
			d := effective[at]
			vars[d.Name] = d.Values[rest%len(d.Values)]
			parts[at] = nameOf(vars[d.Name])
			rest /= len(d.Values)
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
	e.Sweep = effective
	return out
}

// narrowed returns the dimensions with the values that the short form and the
// options leave.
func (r *reader) narrowed(full []plan.Dimension, short *node) []plan.Dimension {
	effective := slices.Clone(full)
	if overlay := r.root.get("short").get("sweep"); overlay != nil {
		for _, k := range overlay.keys {
			i := slices.IndexFunc(full, func(d plan.Dimension) bool { return d.Name == k.name })
			if i < 0 {
				r.fault(k.value, "the sweep has no such variable", nearest.Hint(k.name, dimensionNames(full)))
				continue
			}
			if subset := r.subset(k.value, full[i].Values, "value"); short != nil && len(subset) > 0 {
				effective[i].Values = subset
			}
		}
	}
	for i, d := range effective {
		if value, ok := r.options.Set[d.Name]; ok {
			effective[i].Values = []string{value}
		}
	}
	return effective
}

// excluded returns the combinations to leave out, after reporting those that
// match nothing.
func (r *reader) excluded(n *node, dimensions []plan.Dimension) []map[string]string {
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
			i := slices.IndexFunc(dimensions, func(d plan.Dimension) bool { return d.Name == k.name })
			switch {
			case i < 0:
				r.fault(k.value, "the sweep has no such variable", nearest.Hint(k.name, dimensionNames(dimensions)))
			case !slices.Contains(dimensions[i].Values, k.value.text):
				r.fault(k.value, fmt.Sprintf("the sweep has no value %q of %s", schema.Clip(k.value.text), k.name), schema.ChoiceHint(k.value.text, dimensions[i].Values))
			}
			x[k.name] = k.value.text
		}
		out = append(out, x)
	}
	return out
}

func dimensionNames(dimensions []plan.Dimension) []string {
	var names []string
	for _, d := range dimensions {
		names = append(names, d.Name)
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
