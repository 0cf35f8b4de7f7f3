package plan

import (
	"fmt"
	"slices"

	"dyno/internal/nearest"
)

// duet judges whether the plan can be carried out as a duet: two variants at once, which give only
// their ratio.
func (i *inspector) duet(e *Experiment) {
	const path = "design.duet"
	if !e.Design.Duet || !e.hasVariants() || len(e.Variants) == 0 {
		return
	}
	first := &e.Variants[0]
	switch {
	case e.Capacity != nil:
		i.fault(path, "a capacity is no ratio, and a duet has nothing else to say", "false, or compare at one rate")
	case e.Soak:
		i.fault(path, "a trend is no ratio, and a duet has nothing else to say", "false, or remove soak")
	case e.Ladder != nil:
		i.fault(path, "each step of a ladder is compared with the one before, but a duet runs each variant at the same time as the base", "false, or a compare section")
	case len(e.Sweep) > 0:
		i.fault(path, "a sweep's levels are compared with each other, but a duet runs each variant at the same time as the base", "false, or a compare section")
	case first.Target.Protocol == Program:
		i.fault(path, "programs have no windows that could be paired", "false")
	case e.Base == "":
		i.fault(path, "there is no base that could run at the same time as each variant", "false, or a compare section")
	case e.Design.Control == "":
		i.fault(path, "only a control shows whether a duet finds no difference where there is none", "design.control: true")
	case e.Design.Control != ControlName(e.Base):
		i.fault(path, fmt.Sprintf("a duet's control copies the base, and %q copies another variant", nearest.Clip(e.Design.Control)), "design.control: true")
	}
	if e.Profile != nil {
		i.fault("profile", "a profile of two targets at once would be of neither", "remove it, or design.duet: false")
	}
	for n := range e.Variants {
		v := &e.Variants[n]
		switch {
		case v.Target.Protocol == Program || v.AliasOf != "": // said already
		case len(v.Target.Start) == 0:
			i.fault("target.start", "is missing: dyno gives each target of a duet CPUs of its own, and must start it for that", "the command that serves, or design.duet: false")
		case v.Load.Subscribers != nil:
			i.fault("load.subscribers", "subscribers cannot be of a duet", "remove them, or design.duet: false")
		case v.Load.Processes > 1:
			i.fault("load.processes", "each variant of a duet has one process", "1, or design.duet: false")
		case v.Load.Counted():
			i.fault("load.requests", "the windows of a duet end together, by the clock", "load.window, or design.duet: false")
		case v.Observe.Kernel == KernelWindow:
			i.fault("observe.kernel", "hooks at system calls cost both targets of a duet, and each its own share", "none, or design.duet: false")
		case v.Load.Warmup != first.Load.Warmup || v.Load.Window != first.Load.Window:
			i.fault("load.window", "the warm-ups and windows of a duet begin and end together", "the same in all variants")
		case !slices.Equal(v.Load.CPUs, first.Load.CPUs) || !slices.Equal(v.Target.CPUs, first.Target.CPUs):
			i.fault("target.cpus", "the CPUs of a duet are divided between two variants", "the same in all variants")
		}
	}
}
