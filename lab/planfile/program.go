package planfile

import (
	"dyno/lab/plan"
)

// program reports what a program, which is run and not loaded, cannot have.
func (v *view) program(target, short *node) {
	const hint = "remove it"
	for _, name := range []string{"ready", "ready_timeout"} {
		if n := target.get(name); n != nil {
			v.reportField(n, plan.OnlyLoaded, hint)
		}
	}
	if n := v.root.get("load"); n != nil {
		v.reportField(n, plan.OnlyLoaded, hint)
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
