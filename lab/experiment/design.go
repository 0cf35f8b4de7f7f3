package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// newPlan returns a plan without variants that has those defaults that no variant
// decides.
func newPlan() *Experiment {
	e := &Experiment{}
	_, parts := theFile()
	preset(reflect.ValueOf(e).Elem(), parts[0], "", nil)
	return e
}

// Complete gives the design its defaults where it says nothing: the rounds, the
// rule that stops them, the margin, the metric and, where a warm-up is a pilot's to find,
// the pilot. What a program prints has no default. Parse and ReadFile have done so
// already; it is for experiments built in code, whose variants must be there before.
func (e *Experiment) Complete() {
	traits := e.traits()
	for i := range e.Variants {
		if l := &e.Variants[i].Load; l.Warmup == auto {
			l.Warmup = 0
		}
	}
	d := reflect.ValueOf(&e.Design).Elem()
	for _, f := range specAt("design").fields {
		to := d.FieldByIndex(f.spec.at)
		if problem, _ := f.spec.valueFault(to); problem == "" || !to.IsZero() {
			continue // said, or as good as said: a seed may be 0
		}
		if value := f.spec.defaultWith(traits); value != "" {
			f.spec.put(to, value)
		}
	}
	if e.Profile != nil && e.Profile.Rounds == 0 {
		e.Profile.Rounds = e.Design.Rounds
	}
}

// traits returns the conditions that the defaults of tags may name, and whether they hold.
func (e *Experiment) traits() map[string]bool {
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
		"with warmup auto":            slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Load.Warmup == auto }),
	}
}

// Remeasure is how many spoilt rounds are measured again at most: half as many as are
// planned. A search for capacity repeats single probes instead, and nothing is known
// to spoil a program.
func (e *Experiment) Remeasure() int {
	if e.Design.KeepSpoilt || e.Capacity != nil || e.Variants[0].Target.Protocol == Program {
		return 0
	}
	return e.Design.Rounds / 2
}

// controlName returns what the control of a variant is called.
func controlName(of string) string { return of + ".control" }

// AddControl appends, directly after the variant named, the same under an alias:
// a control, which shows what no difference looks like here. The control shares
// what its original points to.
func (e *Experiment) AddControl(of string) error {
	at := slices.IndexFunc(e.Variants, func(v Variant) bool { return v.Name == of })
	name := controlName(of)
	switch {
	case e.Design.Control != "":
		return fmt.Errorf("there is a control already, %q", e.Design.Control)
	case at < 0:
		return fmt.Errorf("there is no variant %q", clip(of))
	case !patterns["name"].matches(name):
		return fmt.Errorf("%q is too long to have a control", clip(of))
	case slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Name == name }):
		return fmt.Errorf("%q is the name of the control", clip(name))
	}
	control := e.Variants[at]
	control.Name, control.AliasOf = name, of
	e.Variants = slices.Insert(e.Variants, at+1, control)
	e.Design.Control = name
	return nil
}

// design judges what was read of the metric, the pilot and the control, and completes
// the design. The variants are there already.
func (r *reader) design(e *Experiment) {
	for _, root := range []*node{r.root, r.settings} {
		if n := root.find("design.metric"); n != nil && !n.bad && n.scalar() && r.options.CheckMetric != nil {
			r.judge(n, r.options.CheckMetric(n.text, e.Steps()))
		}
	}
	r.pilot(e)
	e.Design.Control = ""         // until there is one
	if e.Variants[0].Name != "" { // else they are not known
		r.control(e)
	}
	e.Complete()
}

// pilot judges how long pilots last: they are made only when the warm-up is theirs to find.
func (r *reader) pilot(e *Experiment) {
	n, warmup := r.root.find("design.pilot"), r.root.find("load.warmup")
	pilots := 0
	for _, v := range e.Variants {
		if v.Load.Warmup == auto {
			pilots++
		}
	}
	switch {
	case n != nil && e.Variants[0].Target.Protocol == Program:
		r.fault(n, "a program has no warm-up", "remove it")
	case pilots > 0 && pilots < len(e.Variants):
		r.fault(warmup, "a pilot finds the warm-up of all variants, or of none", "auto in all of them")
	case pilots == 0 && n != nil && !n.bad && !r.c.touched["load.warmup"] && (warmup == nil || !slices.Contains(specAt("load.warmup").choices, warmup.text)):
		r.fault(n, "the length of the warm-up is given, so that no pilot is made", "load.warmup: auto, or remove it")
	}
	if pilots == 0 {
		e.Design.Pilot = 0
	}
}

// control adds the control that the file asks for, or that a base has without
// asking.
func (r *reader) control(e *Experiment) {
	n := r.root.get("design").get("control")
	var names []string
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	of, wanted := r.controlOf(e.Base)
	switch {
	case !wanted:
		return
	case of == "":
		r.fault(n, "there is no base that could have a control", fmt.Sprintf("name a variant, such as control: %q", names[0]))
		return
	case !slices.Contains(names, of):
		if overlay := r.root.get("short").get("sweep"); e.Short && overlay != nil {
			r.fault(overlay, fmt.Sprintf("the control's original %q is not among the combinations", clip(of)), "add its values")
			return
		}
		const shown = 20
		r.fault(n, fmt.Sprintf("there is no variant %q", clip(of)), choiceHint(of, names[:min(len(names), shown)]))
		return
	}
	if err := e.AddControl(of); err != nil {
		// The variant to blame: the one whose name it takes, or its original.
		at := n
		for _, k := range r.named() {
			if k.name == controlName(of) || k.name == of && at == n {
				at = k.value
			}
		}
		r.atName(at, err.Error(), "design.control: false, or another name")
	}
}

// controlOf returns which variant the control is of; not wanted when there shall
// be none, and empty when nothing says of which.
func (r *reader) controlOf(base string) (of string, wanted bool) {
	n := r.root.get("design").get("control")
	switch {
	case n == nil:
		return base, base != ""
	case n.bad || n.spec == nil || !n.scalar():
		return "", false
	case n.kind == isBool:
		yes, _ := parseBool(n.text)
		return base, yes
	}
	return n.text, true
}

// design judges how the plan's parts go together.
func (i *inspector) design(e *Experiment) {
	d := &e.Design
	if least := leastToStop(d.Stop); d.Rounds >= 1 && d.Rounds < least {
		i.fault("design.rounds", fmt.Sprintf("%d rounds are too few for stop: %s", d.Rounds, d.Stop), fmt.Sprintf("%d or more", least))
	}
	if leastToStop(d.Stop) > 1 && e.Base == "" && e.known() {
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
	if !e.Design.Pairs || !e.known() {
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

// known tells whether the variants are: reading may have failed to find them.
func (e *Experiment) known() bool {
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
	case program && (!ofProgram || !patterns["metric"].matches(m)):
		i.fault(path, fmt.Sprintf("%q is not known of a program", clip(m)), printed)
	case ofProgram && !program:
		i.fault(path, "only a program prints numbers", "target.protocol: program, or another metric")
	case e.Capacity != nil && m != capacityMetric:
		i.fault(path, "a search finds nothing but the capacity", "remove it")
	case e.Capacity == nil && m == capacityMetric:
		i.fault(path, "no capacity is searched for", "add a section capacity, or another metric")
	case m == "":
		i.fault(path, "is missing", patterns["metric"].hint)
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
			i.fault(path, fmt.Sprintf("there is no variant %q", clip(v.AliasOf)), "")
			continue
		}
		original := e.Variants[at]
		original.Name, original.AliasOf = v.Name, v.AliasOf
		switch {
		case v.Name != controlName(v.AliasOf) || v.Name != e.Design.Control:
			i.fault(path, fmt.Sprintf("%q is an alias of %q that is not the control", clip(v.Name), clip(v.AliasOf)), "see AddControl")
		case !reflect.DeepEqual(original, v):
			i.fault(path, fmt.Sprintf("%q differs from its original", clip(v.Name)), "see AddControl")
		}
		found = true
	}
	if e.Design.Control != "" && !found {
		i.fault(path, fmt.Sprintf("no variant is the control %q", clip(e.Design.Control)), "see AddControl")
	}
}

// idlePilot warns of pilots at a rate that is not the trials': what they find
// holds for that one.
func (r *reader) idlePilot(e *Experiment) {
	open := e.Variants[0].Load.Open
	if e.Design.Pilot == 0 || open == nil || open.Rate != 0 {
		return
	}
	problem := "pilots keep to the rate with which the stages begin"
	if e.Capacity != nil {
		problem = "pilots keep to the lowest rate of the search"
	}
	r.warn(r.from("load.warmup"), problem, "give its length if it depends on the rate")
}

// fewRounds warns of fewer rounds than a comparison needs, but in a short form.
func (r *reader) fewRounds(e *Experiment) {
	least, what := 8, "compare"
	switch {
	case e.Base == "" || e.Soak || e.Short:
		return
	case e.Capacity != nil:
		least, what = 5, "compare of capacities"
	case e.Ladder != nil:
		least, what = 12, "ladder"
	}
	if e.Design.Rounds >= least {
		return
	}
	r.warn(r.from("design.rounds"), fmt.Sprintf("%d rounds are few for a %s", e.Design.Rounds, what),
		fmt.Sprintf("%d or more, or little will be shown", least))
}
