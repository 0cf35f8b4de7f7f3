package planfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
)

// swept returns every combination of a sweep's values that is not excluded.
func (r *reader) swept(e *plan.Experiment, sweep, short *fields.Node) []variantChoice {
	var full []plan.Dimension
	for _, k := range sweep.Keys {
		if k.Name == "exclude" {
			continue
		}
		d := plan.Dimension{Name: k.Name}
		for _, item := range k.Value.Items {
			if r.variable(k.Name, item); slices.Contains(d.Values, item.Text) {
				r.fault(item, fmt.Sprintf("%q is listed twice", nearest.Clip(item.Text)), "remove it")
				continue
			}
			d.Values = append(d.Values, item.Text)
		}
		full = append(full, d)
	}
	excluded := r.excluded(sweep.Get("exclude"), full)
	effective := r.narrowed(full, short)

	out, few := combinations(effective, excluded)
	if !few {
		r.fault(sweep, fmt.Sprintf("more than %d combinations", plan.MaxVariants), "leave out some values")
		return nil
	}
	var names []string
	for _, c := range out {
		if slices.Contains(names, c.name) {
			r.fault(sweep, fmt.Sprintf("two combinations would be named %q", c.name), "change a value")
			return nil
		}
		names = append(names, c.name)
	}
	if len(out) == 0 {
		r.fault(sweep, "no combination is left", "exclude fewer")
	}
	var all []string
	whole, _ := combinations(full, excluded)
	for _, c := range whole {
		all = append(all, c.name)
	}
	e.LeftOut = leftOut(all, names)
	e.Sweep = effective
	return out
}

// combinations returns those of the dimensions' values that are not excluded, unless there are too many.
func combinations(dimensions []plan.Dimension, excluded []map[string]string) (out []variantChoice, few bool) {
	count := 1
	for _, d := range dimensions {
		if count *= len(d.Values); count > plan.MaxVariants {
			return nil, false
		}
	}
	for i := range count {
		vars, parts := map[string]string{}, make([]string, len(dimensions))
		for at, rest := len(dimensions)-1, i; at >= 0; at-- {
			d := dimensions[at]
			vars[d.Name] = d.Values[rest%len(d.Values)]
			parts[at] = nameOf(vars[d.Name])
			rest /= len(d.Values)
		}
		if !slices.ContainsFunc(excluded, func(x map[string]string) bool { return holdsAll(vars, x) }) {
			out = append(out, variantChoice{strings.Join(parts, "-"), vars})
		}
	}
	return out, true
}

// narrowed returns the dimensions with the values that the short form and the
// options leave.
func (r *reader) narrowed(full []plan.Dimension, short *fields.Node) []plan.Dimension {
	effective := slices.Clone(full)
	if overlay := r.root.Get("short").Get("sweep"); overlay != nil {
		for _, k := range overlay.Keys {
			i := slices.IndexFunc(full, func(d plan.Dimension) bool { return d.Name == k.Name })
			if i < 0 {
				r.fault(k.Value, "the sweep has no such variable", nearest.Hint(k.Name, dimensionNames(full)))
				continue
			}
			if subset := r.subset(k.Value, full[i].Values, "value"); short != nil && len(subset) > 0 {
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
func (r *reader) excluded(n *fields.Node, dimensions []plan.Dimension) []map[string]string {
	if n == nil {
		return nil
	}
	var out []map[string]string
	for _, item := range n.Items {
		if len(item.Keys) == 0 {
			r.fault(item, "it would exclude everything", "name a variable and its value")
			continue
		}
		x := map[string]string{}
		for _, k := range item.Keys {
			i := slices.IndexFunc(dimensions, func(d plan.Dimension) bool { return d.Name == k.Name })
			switch {
			case i < 0:
				r.fault(k.Value, "the sweep has no such variable", nearest.Hint(k.Name, dimensionNames(dimensions)))
			case !slices.Contains(dimensions[i].Values, k.Value.Text):
				r.fault(k.Value, fmt.Sprintf("the sweep has no value %q of %s", nearest.Clip(k.Value.Text), k.Name), fields.ChoiceHint(k.Value.Text, dimensions[i].Values))
			}
			x[k.Name] = k.Value.Text
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
