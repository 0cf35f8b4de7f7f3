package observation

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/observe"
)

// The watch of a part sees the part's own threads and its machine, and looks for no target.
func TestPart(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.Address, v.Observe.Server, v.Observe.PID = "127.0.0.1:1", true, 1
	w := OfPart(&v)
	w.Start(config.Start{Time: time.Now(), Threads: []int{unix.Gettid()}})
	for _, phase := range []config.Phase{config.WarmingUp, config.Measuring, config.Draining} {
		w.Phase(phase)
	}
	o := w.Stop(1)
	g := o.Generator
	if o.Boot == "" || o.Boot != Boot() || g.RSSBytes == nil || *g.RSSBytes == 0 || g.RunQueueWaitShare == nil || g.TimeslicesPerSecond == nil || o.ObserverCPU == nil {
		t.Errorf("%+v", o)
	}
	// An unfinished part of a load has no figures.
	w = OfPart(&v)
	w.Start(config.Start{Time: time.Now()})
	if o := w.Stop(1); o.Generator.RSSBytes != nil || o.ObserverCPU != nil {
		t.Errorf("%+v", o)
	}
}

// elsewhere is an agent.
type elsewhere struct{}

func (elsewhere) Observe(context.Context, Subject) (*Observed, error) { return &Observed{}, nil }

// No observer of a machine counts dyno, the target and parts of the load there as foreign.
func TestForeign(t *testing.T) {
	if Boot() == "" {
		t.Skip("this machine cannot be told from others")
	}
	var window observe.Window
	for name, seconds := range map[string]float64{
		"machine_cpu_foreign_seconds": 20, "target_machine_cpu_foreign_seconds": 10, "target_cpu_seconds": 3, "generator_cpu_seconds": 2,
	} {
		window.Columns = append(window.Columns, observe.Summary{Column: observe.Column{Name: name}, Delta: seconds})
	}
	of := func(boot string, used time.Duration) part { return part{&generator.Observed{Boot: boot}, used} }
	parts := []part{of(Boot(), 4*time.Second), of("there", time.Second), of("", 8*time.Second)}
	v := plan.DefaultVariant(plan.HTTP)
	for name, test := range map[string]struct {
		config      Config
		remote      *Observed
		here, there float64
	}{
		"target here":                   {Config{Variant: &v}, nil, 16, 6},
		"target there":                  {Config{Variant: &v, Agent: elsewhere{}}, &Observed{Boot: "there"}, 16, 9},
		"target's agent is here":        {Config{Variant: &v, Agent: elsewhere{}}, &Observed{Boot: Boot()}, 13, 4},
		"target's machine is not known": {Config{Variant: &v, Agent: elsewhere{}}, &Observed{}, 16, 10},
		"target could not be observed":  {Config{Variant: &v, Agent: elsewhere{}}, nil, 16, 10},
	} {
		w := New(test.config)
		w.remote, w.parts = test.remote, parts
		if here, there := w.foreign(window); here != test.here || there != test.there {
			t.Errorf("%s: %v s here and %v s there, want %v and %v", name, here, there, test.here, test.there)
		}
	}
	// More than there is, or than is known, is not subtracted.
	w := New(Config{Variant: &v})
	w.parts = []part{of(Boot(), time.Hour)}
	if here, there := w.foreign(observe.Window{Columns: window.Columns[:0]}); !math.IsNaN(here) || !math.IsNaN(there) {
		t.Errorf("%v s and %v s of nothing", here, there)
	}
	if here, _ := w.foreign(window); here != 0 {
		t.Errorf("%v s", here)
	}
}
