package observation

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/lab/plan"
	"dyno/load/engine"
)

// The watch of a part sees the part's own threads and its machine, and looks for no target.
func TestPart(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.Address, v.Observe.Server, v.Observe.PID = "127.0.0.1:1", true, 1
	w := OfPart(&v)
	w.Start(engine.Start{Time: time.Now(), Threads: []int{unix.Gettid()}})
	for _, phase := range []engine.Phase{engine.WarmingUp, engine.Measuring, engine.Draining} {
		w.Phase(phase)
	}
	o := w.Stop(1)
	g := o.Generator
	if o.Boot == "" || o.Boot != Boot() || g.RSSBytes == nil || *g.RSSBytes == 0 || g.RunQueueWaitShare == nil || g.TimeslicesPerSecond == nil || o.ObserverCPU == nil {
		t.Errorf("%+v", o)
	}
	// A part whose load did not come to its end has no figures.
	w = OfPart(&v)
	w.Start(engine.Start{Time: time.Now()})
	if o := w.Stop(1); o.Generator.RSSBytes != nil || o.ObserverCPU != nil {
		t.Errorf("%+v", o)
	}
}

// elsewhere is an agent.
type elsewhere struct{}

func (elsewhere) Observe(context.Context, Subject) (*Observed, error) { return &Observed{}, nil }

// What is known of a target on an agent's machine is not taken for that of dyno's.
func TestTargetBoot(t *testing.T) {
	v := plan.DefaultVariant(plan.HTTP)
	if here := New(Config{Variant: &v}).TargetBoot(); here == "" || here != Boot() {
		t.Errorf("on this machine: %q", here)
	}
	if there := New(Config{Variant: &v, Agent: elsewhere{}}).TargetBoot(); there != "" {
		t.Errorf("on an agent's machine: %q", there)
	}
}
