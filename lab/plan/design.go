package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
)

// The names that one metric, and all metrics of a program, have.
const (
	capacityMetric = "capacity"
	programMetrics = "program."
)

// leastToStop returns how many rounds a stopping rule needs: the spread of fewer
// is too often small by accident.
func leastToStop(stop string) int {
	switch stop {
	case StopPrecision:
		return 8
	case StopLooks:
		return 12
	}
	return 1
}

// Complete gives the design its defaults where it says nothing: the rounds, the stopping rule, the
// margin and the metric. If a pilot is to find a warm-up, it adds the pilot. A program's metric has no
// default. Parse and ReadFile have done so already; it is for experiments built in code, whose variants
// must be there before.
func (e *Experiment) Complete() {
	traits := e.Traits()
	for i := range e.Variants {
		if l := &e.Variants[i].Load; l.Warmup == fields.Auto {
			l.Warmup = 0
		}
	}
	d := reflect.ValueOf(&e.Design).Elem()
	for _, f := range DeclaredAt("design").Fields {
		to := d.FieldByIndex(f.Spec.At)
		if problem, _ := f.Spec.ValueFault(to); problem == "" || !to.IsZero() {
			continue // said, or as good as said: a seed may be 0
		}
		if value := f.Spec.DefaultWith(traits); value != "" {
			f.Spec.Put(to, value)
		}
	}
	if e.Profile != nil && e.Profile.Rounds == 0 {
		e.Profile.Rounds = e.Design.Rounds
	}
}

// Traits returns the conditions that the defaults of tags may name, and whether they hold.
func (e *Experiment) Traits() map[string]bool {
	var first Variant
	if len(e.Variants) > 0 {
		first = e.Variants[0]
	}
	open := first.Load.Open != nil
	return map[string]bool{
		"of " + first.Target.Protocol: true,
		"with several variants":       len(e.Variants) > 1,
		"for a ladder":                e.Ladder != nil,
		"for a soak":                  e.Soak,
		"for capacity":                e.Capacity != nil,
		"with stop looks":             e.Design.Stop == StopLooks,
		"with stop precision":         e.Design.Stop == StopPrecision,
		"of an open load":             open,
		"of published events":         open && first.Load.Subscribers != nil,
		"with warmup auto":            slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Load.Warmup == fields.Auto }),
	}
}

// Remeasure is how many disturbed rounds are measured again at most: half as many as are
// planned. A search for capacity repeats single probes instead, and nothing is known
// to disturb a program.
func (e *Experiment) Remeasure() int {
	if e.Design.KeepDisturbed || e.Capacity != nil || e.Variants[0].Target.Protocol == Program {
		return 0
	}
	return e.Design.Rounds / 2
}

// ControlName returns what the control of a variant is called.
func ControlName(of string) string { return of + ".control" }

// AddControl appends, directly after the variant named, the same under an alias:
// a control, which shows what no difference looks like here. The control shares
// what its original points to.
func (e *Experiment) AddControl(of string) error {
	at := slices.IndexFunc(e.Variants, func(v Variant) bool { return v.Name == of })
	name := ControlName(of)
	switch {
	case e.Design.Control != "":
		return fmt.Errorf("there is a control already, %q", e.Design.Control)
	case at < 0:
		return fmt.Errorf("there is no variant %q", nearest.Clip(of))
	case !patterns["name"].Matches(name):
		return fmt.Errorf("%q is too long to have a control", nearest.Clip(of))
	case slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Name == name }):
		return fmt.Errorf("%q is the name of the control", nearest.Clip(name))
	}
	control := e.Variants[at]
	control.Name, control.AliasOf = name, of
	e.Variants = slices.Insert(e.Variants, at+1, control)
	e.Design.Control = name
	return nil
}

// design judges how the plan's parts go together.
func (i *inspector) design(e *Experiment) {
	d := &e.Design
	if least := leastToStop(d.Stop); d.Rounds >= 1 && d.Rounds < least {
		i.fault("design.rounds", fmt.Sprintf("%d rounds are too few for stop: %s", d.Rounds, d.Stop), fmt.Sprintf("%d or more", least))
	}
	if leastToStop(d.Stop) > 1 && e.Base == "" && e.hasVariants() {
		i.fault("design.stop", "there is no base to compare with, and so nothing to stop by", "fixed, or a compare or ladder")
	}
	i.metric(e)
	i.control(e)
	i.duet(e)
	i.pairs(e)
	if d.Pilot == 0 {
		return
	}
	for _, v := range e.Variants {
		if v.Load.Warmup != 0 {
			i.fault("load.warmup", fmt.Sprintf("%v, and a pilot that finds it", v.Load.Warmup), "keep one of them")
		}
	}
}

// MostInPairs is how many variants are compared with each other at most: they are 190 pairs
// then, and hardly a difference is found among more.
const MostInPairs = 20

// pairs judges whether there are variants that can all be compared with each other.
func (i *inspector) pairs(e *Experiment) {
	const path = "design.pairs"
	if !e.Design.Pairs || !e.hasVariants() {
		return
	}
	switch {
	case e.Ladder != nil:
		i.fault(path, "a ladder compares its steps with the first and with the one before", "false, or a compare section")
	case len(e.Sweep) > 0:
		i.fault(path, "a sweep follows a figure along its levels, and compares no two of them", "false, or a compare section")
	case e.Base == "":
		i.fault(path, "there are no variants to compare with each other", "false, or a compare section")
	case e.Design.Duet:
		i.fault(path, "in a duet each variant runs at the same time as the base, and no two others do", "false, or design.duet: false")
	}
	n := 0
	for _, v := range e.Variants {
		if v.AliasOf == "" {
			n++
		}
	}
	if n > MostInPairs {
		i.fault(path, fmt.Sprintf("%d variants are %d pairs", n, n*(n-1)/2), fmt.Sprintf("at most %d variants", MostInPairs))
	}
}

// hasVariants tells whether the variants are known: reading may have failed to find them.
func (e *Experiment) hasVariants() bool {
	return !slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Name == "" })
}

func (i *inspector) metric(e *Experiment) {
	const path = "design.metric"
	m := e.Design.Metric
	ofProgram := strings.HasPrefix(m, programMetrics)
	program := len(e.Variants) > 0 && e.Variants[0].Target.Protocol == Program
	const printed = "such as program.switch_seconds, a number that it prints"
	switch {
	case program && e.Capacity != nil: // reported as such
	case program && m == "":
		i.fault(path, "is missing for a program", printed)
	case program && (!ofProgram || !patterns["metric"].Matches(m)):
		i.fault(path, fmt.Sprintf("%q is not known of a program", nearest.Clip(m)), printed)
	case ofProgram && !program:
		i.fault(path, "only a program prints numbers", "target.protocol: program, or another metric")
	case e.Capacity != nil && m != capacityMetric:
		i.fault(path, "a search finds nothing but the capacity", "remove it")
	case e.Capacity == nil && m == capacityMetric:
		i.fault(path, "no capacity is searched for", "add a section capacity, or another metric")
	case m == "":
		i.fault(path, "is missing", patterns["metric"].Hint)
	}
}

// control holds aliases against their originals.
func (i *inspector) control(e *Experiment) {
	const path = "design.control"
	found := false
	for _, v := range e.Variants {
		if v.AliasOf == "" {
			continue
		}
		at := slices.IndexFunc(e.Variants, func(o Variant) bool { return o.Name == v.AliasOf && o.AliasOf == "" })
		if at < 0 {
			i.fault(path, fmt.Sprintf("there is no variant %q", nearest.Clip(v.AliasOf)), "")
			continue
		}
		original := e.Variants[at]
		original.Name, original.AliasOf = v.Name, v.AliasOf
		switch {
		case v.Name != ControlName(v.AliasOf) || v.Name != e.Design.Control:
			i.fault(path, fmt.Sprintf("%q is an alias of %q that is not the control", nearest.Clip(v.Name), nearest.Clip(v.AliasOf)), "see AddControl")
		case !reflect.DeepEqual(original, v):
			i.fault(path, fmt.Sprintf("%q differs from its original", nearest.Clip(v.Name)), "see AddControl")
		}
		found = true
	}
	if e.Design.Control != "" && !found {
		i.fault(path, fmt.Sprintf("no variant is the control %q", nearest.Clip(e.Design.Control)), "see AddControl")
	}
}

// ladder holds the steps against the variants.
func (i *inspector) ladder(e *Experiment) {
	const path = "ladder.steps"
	l := e.Ladder
	isVariant := func(name string) bool {
		return slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Name == name })
	}
	if len(l.Steps) == 0 || l.Steps[0] != e.Base {
		i.fault(path, "the first step is not the base", "")
	}
	for n, s := range l.Steps {
		switch {
		case !isVariant(s):
			i.fault(path, fmt.Sprintf("there is no variant %q", nearest.Clip(s)), "")
		case slices.Contains(l.Steps[:n], s):
			i.fault(path, fmt.Sprintf("%q is there twice", nearest.Clip(s)), "")
		}
	}
	for _, v := range slices.Sorted(maps.Keys(l.WithoutStep)) {
		switch {
		case !isVariant(v):
			i.fault("ladder.leave_one_out", fmt.Sprintf("there is no variant %q", nearest.Clip(v)), "")
		case !slices.Contains(l.Steps, l.WithoutStep[v]):
			i.fault("ladder.leave_one_out", fmt.Sprintf("there is no step %q", nearest.Clip(l.WithoutStep[v])), "")
		}
	}
}
