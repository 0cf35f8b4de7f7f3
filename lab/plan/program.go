package plan

// Program is no protocol: the target is a program that runs to its end once a trial. The last line of
// its output is a JSON object of numbers. A name's end tells the unit: _seconds, _bytes or _per_second.
// There is no load.
const Program = "program"

var programProtocol = protocol{
	name: Program, title: "program", validator: program{},
}

// A program describes such targets.
type program struct{}

// OnlyLoaded says of a field that a program cannot have it.
const OnlyLoaded = "is only for a target that is loaded, not for a program"

// validate judges a target that is a program and what goes with it.
func (program) validate(i *inspector, e *Experiment, v *Variant) {
	if len(v.Target.Start) == 0 {
		i.fault("target.start", "is missing for a program", "the command and its arguments")
	}
	if v.Target.Ready.Kind != ReadyNone {
		i.fault("target.ready", OnlyLoaded, "remove it")
	}
	const needsLoad = "needs a load, and there is none on a program"
	if e.Capacity != nil {
		i.fault("capacity", needsLoad, "remove it")
	}
	if e.Soak {
		i.fault("soak", needsLoad, "remove it")
	}
	if e.Design.Pilot != 0 {
		i.fault("design.pilot", "a program has no warm-up", "remove it")
	}
}
