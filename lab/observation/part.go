package observation

import (
	"os"
	"strings"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/results/rundir"
)

// part is the watch of a part of a load.
type part struct{ watch *Watch }

var _ generator.Watch = part{}

// OfPart returns the watch of a part of a variant's load. It observes the generator and its machine, and no target,
// wherever that is.
func OfPart(v *plan.Variant) generator.Watch {
	of := *v
	of.Target, of.Observe.Server = plan.Target{}, false
	return part{New(Config{Variant: &of})}
}

func (p part) Start(s engine.Start) { p.watch.Start(s) }

func (p part) Phase(phase engine.Phase) { p.watch.Phase(phase) }

func (p part) Stop(workers int) *generator.Observed {
	w := p.watch
	w.Stop()
	t := &rundir.Trial{Generator: rundir.Generator{Workers: workers}}
	w.lack(t)
	o := &generator.Observed{Boot: Boot(), Unavailable: t.Unavailable}
	if w.marked < len(w.marks) {
		return o
	}
	window := w.recorder.Window(w.marks[0], w.marks[1])
	w.recordGenerator(&t.Generator, window)
	w.recordMachine(t, window)
	o.CPUSeconds = known(window.Delta("machine_cpu_seconds"))
	o.Generator, o.Machine, o.ObserverCPU, o.Stalls = t.Generator, t.Machine, t.ObserverCPU, w.stalls()
	return o
}

// Boot identifies this machine since its start, in every container and network namespace; empty where it is not known.
func Boot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// TargetBoot identifies the target's machine if that is dyno's own. It is empty if an agent observes the target: then what
// is known of the target, and of the worse one of two machines, need not be of dyno's.
func (w *Watch) TargetBoot() string {
	if w.config.Agent != nil {
		return ""
	}
	return Boot()
}

// AddPart adds what was seen of a machine that carried a part of the load.
func (w *Watch) AddPart(o *generator.Observed) { w.parts = append(w.parts, o) }
