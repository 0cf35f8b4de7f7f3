package planfile

import (
	"fmt"
	"slices"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/lab/plan"
)

// design judges what was read of the metric, the pilot and the control, and completes
// the design. The variants are there already.
func (r *reader) design(e *plan.Experiment) {
	for _, root := range []*fields.Node{r.root, r.settings} {
		if n := root.Find("design.metric"); n != nil && !n.Bad && n.Scalar() && r.options.Expressions != nil {
			r.judge(n, r.options.Expressions.CheckMetric(n.Text, e.Steps()))
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
func (r *reader) pilot(e *plan.Experiment) {
	n, warmup := r.root.Find("design.pilot"), r.root.Find("load.warmup")
	pilots := 0
	for _, v := range e.Variants {
		if v.Load.Warmup == fields.Auto {
			pilots++
		}
	}
	switch {
	case n != nil && e.Variants[0].Target.Protocol == plan.Program:
		r.fault(n, "a program has no warm-up", "remove it")
	case pilots > 0 && pilots < len(e.Variants):
		r.fault(warmup, "a pilot finds the warm-up of all variants, or of none", "auto in all of them")
	case pilots == 0 && n != nil && !n.Bad && !r.c.Touched["load.warmup"] && (warmup == nil || !slices.Contains(plan.DeclaredAt("load.warmup").Choices, warmup.Text)):
		r.fault(n, "the length of the warm-up is given, so that no pilot is made", "load.warmup: auto, or remove it")
	}
	if pilots == 0 {
		e.Design.Pilot = 0
	}
}

// control adds the control that the file asks for, or that a base has without
// asking.
func (r *reader) control(e *plan.Experiment) {
	n := r.root.Get("design").Get("control")
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
		if overlay := r.root.Get("short").Get("sweep"); e.Short && overlay != nil {
			r.fault(overlay, fmt.Sprintf("the control's original %q is not among the combinations", nearest.Clip(of)), "add its values")
			return
		}
		const shown = 20
		r.fault(n, fmt.Sprintf("there is no variant %q", nearest.Clip(of)), fields.ChoiceHint(of, names[:min(len(names), shown)]))
		return
	}
	if err := e.AddControl(of); err != nil {
		// The variant to blame: the one whose name it takes, or its original.
		at := n
		for _, k := range r.named() {
			if k.Name == plan.ControlName(of) || k.Name == of && at == n {
				at = k.Value
			}
		}
		r.atName(at, err.Error(), "design.control: false, or another name")
	}
}

// controlOf returns the variant that the control copies; wanted is false without a control, and of is
// empty if the file does not name one.
func (r *reader) controlOf(base string) (of string, wanted bool) {
	n := r.root.Get("design").Get("control")
	switch {
	case n == nil:
		return base, base != ""
	case n.Bad || n.Spec == nil || !n.Scalar():
		return "", false
	case n.Kind == fields.IsBool:
		yes, _ := fields.ParseBool(n.Text)
		return base, yes
	}
	return n.Text, true
}

// idlePilot warns of pilots at a rate that is not the trials': what they find
// holds for that one.
func (r *reader) idlePilot(e *plan.Experiment) {
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
func (r *reader) fewRounds(e *plan.Experiment) {
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
