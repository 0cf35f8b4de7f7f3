package planfile

import (
	"dyno/internal/fields"
	"dyno/lab/plan"
)

// program reports what a program, which is run and not loaded, cannot have.
func (v *view) program(target, short *fields.Node) {
	const hint = "remove it"
	for _, name := range []string{"ready", "ready_timeout"} {
		if n := target.Get(name); n != nil {
			v.reportField(n, plan.OnlyLoaded, hint)
		}
	}
	if n := v.root.Get("load"); n != nil {
		v.reportField(n, plan.OnlyLoaded, hint)
	}
	for _, name := range []string{"warmup", "window"} {
		if n := v.root.Get("short").Get(name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
		if n := v.settings.Find("load." + name); n != nil {
			v.reportField(n, "a program has none", hint)
		}
	}
}
