package experiment

import (
	"errors"
)

// Program is no protocol: the target is a program that is run to its end once a
// trial and prints, as the last line of its output, a JSON object of numbers. A
// name's end tells the unit: _seconds, _bytes or _per_second. There is no load.
const Program = "program"

// A program is what is known of such targets.
type program struct{}

const onlyLoaded = "is only for a target that is loaded, not for a program"

// program reports what a program, which is run and not loaded, cannot have.
func (v *view) program(target, short *node) {
	const hint = "remove it"
	for _, name := range []string{"ready", "ready_timeout"} {
		if n := target.get(name); n != nil {
			v.reportField(n, onlyLoaded, hint)
		}
	}
	if n := v.root.get("load"); n != nil {
		v.reportField(n, onlyLoaded, hint)
	}
	for _, name := range []string{"warmup", "window"} {
		if n := v.root.get("short").get(name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
		if n := v.settings.find("load." + name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
	}
}

// judge judges a target that is a program and what goes with it.
func (program) validate(i *inspector, e *Experiment, v *Variant) {
	if len(v.Target.Start) == 0 {
		i.fault("target.start", "is missing for a program", "the command and its arguments")
	}
	if v.Target.Ready.Kind != ReadyNone {
		i.fault("target.ready", onlyLoaded, "remove it")
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

// codecs is never asked for any.
func (program) codecs(*Variant, uint64, int) (Codecs, error) {
	return Codecs{}, errors.New("a program is run, and not loaded")
}
