package planfile

import (
	"fmt"
	"maps"
	"slices"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
)

const withoutPrefix = "without-"

// laddered returns the variants of a ladder: each step with the variables of those before it and its
// own. On request, there is also the whole ladder without one step each. Leaving out the last step is
// the step before it, and without the first there is no ladder.
func (r *reader) laddered(e *plan.Experiment, ladder, short *fields.Node) []variantChoice {
	steps := ladder.Get("steps")
	own := make([]map[string]string, len(steps.Keys))
	var all []variantChoice
	for i, k := range steps.Keys {
		own[i] = r.variables(k.Value)
		all = append(all, variantChoice{k.Name, r.layered(own[:i+1])})
	}
	if len(all) < 2 {
		r.fault(steps, "there is nothing to compare the first step with", "add a second step")
		return nil
	}
	base, last := all[0].name, all[len(all)-1].name
	leaveOut := false
	if n := ladder.Get("leave_one_out"); n != nil {
		leaveOut, _ = fields.ParseBool(n.Text)
		if leaveOut && len(own) < 3 {
			r.warn(n.Path, "two steps leave none to do without", "it says something with three or more")
		}
	}
	without := map[string]string{}
	for i := 1; leaveOut && i < len(own)-1; i++ {
		step := steps.Keys[i]
		name := withoutPrefix + step.Name
		if taken := steps.Get(name); taken != nil {
			r.atName(taken, fmt.Sprintf("%q is the name of the ladder without %s", nearest.Clip(name), nearest.Clip(step.Name)), "another name")
			return nil
		}
		if problem, _ := plan.DeclaredAt("compare.base").ScalarFault(name); problem != "" {
			r.atName(step.Value, fmt.Sprintf("too long for a name that begins with %q", withoutPrefix), "a shorter name")
			return nil
		}
		without[name] = step.Name
		all = append(all, variantChoice{name, r.layered(slices.Delete(slices.Clone(own), i, i+1))})
	}

	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	keep := r.kept(names, short, "first step", base)
	e.LeftOut = leftOut(names, keep)
	l := &plan.Ladder{}
	sound := true
	var out []variantChoice
	for _, c := range all {
		if !slices.Contains(keep, c.name) {
			continue
		}
		out = append(out, c)
		step, left := without[c.name]
		if !left {
			l.Steps = append(l.Steps, c.name)
			continue
		}
		for _, other := range []string{step, last} {
			if !slices.Contains(keep, other) {
				r.fault(r.root.Get("short").Get("variants"), fmt.Sprintf("%q has a meaning only together with %q", c.name, other), "add it")
				sound = false
			}
		}
		if l.WithoutStep == nil {
			l.WithoutStep = map[string]string{}
		}
		l.WithoutStep[c.name] = step
	}
	if !sound {
		return nil
	}
	e.Base, e.Ladder = base, l
	return out
}

// layered returns the variables of layers, later ones on top, and the options'
// values above all.
func (r *reader) layered(layers []map[string]string) map[string]string {
	vars := map[string]string{}
	for _, l := range layers {
		maps.Copy(vars, l)
	}
	r.override(vars)
	return vars
}
