package observation

import (
	"os"
	"strings"
	"time"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/results/rundir"
)

// A part is what a part of the load has seen of its machine, and used there.
type part struct {
	*generator.Observed
	used time.Duration
}

// partWatch is the watch of a part of a load.
type partWatch struct{ watch *Watch }

var _ generator.Watch = partWatch{}

// OfPart returns the watch of a part of a variant's load. It observes the generator and its machine, and no target,
// wherever that is.
func OfPart(v *plan.Variant) generator.Watch {
	of := *v
	of.Target, of.Observe.Server = plan.Target{}, false
	return partWatch{New(Config{Variant: &of})}
}

func (p partWatch) Start(s config.Start) { p.watch.Start(s) }

func (p partWatch) Phase(phase config.Phase) { p.watch.Phase(phase) }

func (p partWatch) Stop(workers int) *generator.Observed {
	w := p.watch
	w.Stop()
	t := &rundir.Trial{Generator: rundir.Generator{Workers: workers}}
	w.recordUnavailable(t)
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

// TargetBoot identifies the machine on which the target is observed; empty where it is not known, or is several.
func (w *Watch) TargetBoot() string {
	switch {
	case w.config.Agent == nil && w.config.Pods == nil:
		return Boot()
	case w.remote == nil:
		return ""
	}
	return w.remote.Boot
}

// AddPart adds the observations of a machine that carried a part of the load, and the part's CPU time
// there. It is to be called before Record.
func (w *Watch) AddPart(o *generator.Observed, used time.Duration) {
	w.parts = append(w.parts, part{o, used})
}
