package experiment

import "reflect"

// program reports what a program, which is run and not loaded, cannot have.
func (v *view) program(target, short *node) {
	const hint = "remove it"
	for _, name := range []string{"ready", "ready_timeout"} {
		if n := target.get(name); n != nil {
			v.reportField(n, "is only for a target that is loaded, not for a program", hint)
		}
	}
	if n := v.root.get("load"); n != nil {
		v.reportField(n, "there is none on a program", hint)
	}
	for _, name := range []string{"warmup", "window"} {
		if n := v.root.get("short").get(name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
		if n := v.setting(name, "load."+name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
	}
}

// program judges a target that is a program and what goes with it.
func (i *inspector) program(e *Experiment, v *Variant) {
	t := &v.Target
	i.process("target", &t.Process)
	i.duration("target.timeout", t.Timeout)
	if len(t.Start) == 0 {
		i.fault("target.start", "is missing for a program", "the command and its arguments")
	}
	for _, f := range []struct{ name, value string }{{"address", t.Address}, {"url", t.URL}, {"pprof", t.Pprof}} {
		if f.value != "" {
			i.fault("target."+f.name, "is only for a target that is loaded, not for a program", "remove it")
		}
	}
	if t.Ready.Kind != ReadyNone {
		i.fault("target.ready", "is only for a target that is loaded, not for a program", "remove it")
	}
	if !reflect.ValueOf(v.Load).IsZero() {
		i.fault("load", "there is none on a program", "remove it")
	}
	const loaded = "needs a load, and there is none on a program"
	if e.Capacity != nil {
		i.fault("capacity", loaded, "remove it")
	}
	if e.Soak {
		i.fault("soak", loaded, "remove it")
	}
	if e.Design.Pilot != 0 {
		i.fault("design.pilot", "a program has no warm-up", "remove it")
	}
}
