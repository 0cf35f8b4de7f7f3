package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// warmupAuto stands in the file for a warm-up that pilots find.
const warmupAuto = "auto"

// A pilot finds the end of the warm-up in bins of 100 ms, of which it needs 100.
// With 300, it seldom takes a steady load for one that is not.
const (
	leastPilot   = 10 * time.Second
	defaultPilot = 30 * time.Second
)

const defaultMargin = 0.02

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

// Complete gives the design its defaults where it says nothing: the rounds, the
// rule that stops them, the margin and the metric. What a program prints has no
// default. Parse and ReadFile have done so already; it is for experiments built
// in code, whose variants must be there before.
func (e *Experiment) Complete() {
	d := &e.Design
	if d.Stop == "" {
		d.Stop = StopFixed
	}
	if d.Margin == 0 {
		d.Margin = defaultMargin
	}
	if d.Rounds == 0 {
		d.Rounds = e.defaultRounds()
	}
	if d.Metric == "" {
		d.Metric = e.defaultMetric()
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

func (e *Experiment) defaultRounds() int {
	switch {
	case e.Design.Stop == StopPrecision:
		return 40
	case e.Design.Stop == StopLooks:
		return 24
	case e.Capacity != nil:
		return 5
	case e.Soak:
		return 1
	case e.Ladder != nil:
		return 12
	case len(e.Variants) > 1:
		return 8
	}
	return 3
}

func (e *Experiment) defaultMetric() string {
	switch {
	case e.Capacity != nil:
		return capacityMetric
	case len(e.Variants) == 0 || e.Variants[0].Target.Protocol == Program:
		return ""
	case e.Variants[0].Load.Open != nil && e.Variants[0].Load.Subscribers != nil:
		return "delivery.p99"
	case e.Variants[0].Load.Open != nil:
		return "response.p99"
	}
	return "throughput"
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
	case !matcher(namePattern)(name):
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

// design reads how often and in which order variants are measured, and adds the
// control. The variants are there already.
func (r *reader) design(e *Experiment, v *view, short *node) {
	section := r.root.get("design")
	d := Design{Seed: 1}
	v.text(section.get("stop"), &d.Stop)
	v.integer(section.get("rounds"), &d.Rounds)
	if brief := short.get("rounds"); brief != nil {
		v.integer(brief, &d.Rounds)
		d.Stop = StopFixed // a quick look has too few for any other rule
	}
	v.integer(r.setting("rounds", "design.rounds"), &d.Rounds)
	v.text(r.setting("stop", "design.stop"), &d.Stop)
	seed := int(d.Seed)
	v.integer(section.get("seed"), &seed)
	v.integer(r.setting("seed", "design.seed"), &seed)
	d.Seed = uint64(seed)
	v.share(section.get("margin"), &d.Margin)
	v.share(r.setting("margin", "design.margin"), &d.Margin)
	r.metric(v, section.get("metric"), &d.Metric)
	r.metric(v, r.setting("metric", "design.metric"), &d.Metric)
	remeasure := true
	v.boolean(section.get("remeasure"), &remeasure)
	v.boolean(r.setting("remeasure", "design.remeasure"), &remeasure)
	d.KeepSpoilt = !remeasure
	v.boolean(section.get("duet"), &d.Duet)
	v.boolean(r.setting("duet", "design.duet"), &d.Duet)
	d.Pilot = r.pilot(v, section.get("pilot"), e)
	e.Design = d
	if e.Variants[0].Name != "" { // else they are not known
		r.control(e)
	}
	e.Complete()
}

func (r *reader) metric(v *view, n *node, into *string) {
	if v.text(n, into); n != nil && !n.bad && r.options.CheckMetric != nil {
		r.judge(n, r.options.CheckMetric(*into))
	}
}

// pilot reads how long pilots last, when the warm-up is theirs to find.
func (r *reader) pilot(v *view, n *node, e *Experiment) time.Duration {
	warmup := r.root.get("load").get("warmup")
	switch {
	case n != nil && e.Variants[0].Target.Protocol == Program:
		r.fault(n, "a program has no warm-up", "remove it")
	case r.pilots > 0 && r.pilots < len(e.Variants):
		r.fault(warmup, "a pilot finds the warm-up of all variants, or of none", "auto in all of them")
	case r.pilots > 0:
		d := defaultPilot
		v.duration(n, &d)
		return d
	case n != nil && !n.bad && !r.c.touched["load.warmup"] && (warmup == nil || warmup.text != warmupAuto):
		r.fault(n, "the length of the warm-up is given, so that no pilot is made", "load.warmup: auto, or remove it")
	}
	return 0
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
	i.bound("design.rounds", float64(d.Rounds))
	i.bound("design.seed", float64(d.Seed))
	i.form("design.stop", d.Stop)
	i.bound("design.margin", d.Margin)
	if least := leastToStop(d.Stop); d.Rounds >= 1 && d.Rounds < least {
		i.fault("design.rounds", fmt.Sprintf("%d rounds are too few for stop: %s", d.Rounds, d.Stop), fmt.Sprintf("%d or more", least))
	}
	if leastToStop(d.Stop) > 1 && e.Base == "" && e.known() {
		i.fault("design.stop", "there is no base to compare with, and so nothing to stop by", "fixed, or a compare or ladder")
	}
	i.metric(e)
	i.control(e)
	i.duet(e)
	if d.Pilot == 0 {
		return
	}
	i.duration("design.pilot", d.Pilot)
	for _, v := range e.Variants {
		if v.Load.Warmup != 0 {
			i.fault("load.warmup", fmt.Sprintf("%v, and a pilot that finds it", v.Load.Warmup), "keep one of them")
		}
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
	case program && (!ofProgram || !matcher(metricPattern)(m)):
		i.fault(path, fmt.Sprintf("%q is not known of a program", clip(m)), printed)
	case ofProgram && !program:
		i.fault(path, "only a program prints numbers", "target.protocol: program, or another metric")
	case e.Capacity != nil && m != capacityMetric:
		i.fault(path, "a search finds nothing but the capacity", "remove it")
	case e.Capacity == nil && m == capacityMetric:
		i.fault(path, "no capacity is searched for", "add a section capacity, or another metric")
	default:
		i.form(path, m)
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
	path := "load.warmup"
	if r.setting("warmup", path) != nil {
		path = "set.warmup"
	}
	problem := "pilots keep to the rate with which the stages begin"
	if e.Capacity != nil {
		problem = "pilots keep to the lowest rate of the search"
	}
	r.warn(path, problem, "give its length if it depends on the rate")
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
	path := "design.rounds"
	if r.setting("rounds", path) != nil {
		path = "set.rounds"
	}
	r.warn(path, fmt.Sprintf("%d rounds are few for a %s", e.Design.Rounds, what),
		fmt.Sprintf("%d or more, or little will be shown", least))
}
