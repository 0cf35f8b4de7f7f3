package generator

import (
	"os"
	"testing"

	"dyno/host/child"
	"dyno/internal/leak"
	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/results/rundir"
)

// counting is a watch that counts phases, and the threads that it is to observe.
type counting struct{ threads, phases int }

func (c *counting) Start(s config.Start) { c.threads = len(s.Threads) }
func (c *counting) Phase(config.Phase)   { c.phases++ }
func (c *counting) Stop(workers int) *Observed {
	if c.threads != workers {
		return nil
	}
	return &Observed{Generator: rundir.Generator{Workers: workers}, CPUSeconds: new(float64(c.phases))}
}

// TestMain lets the test binary be the processes that carry a part of a load.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], Role(func(*plan.Variant) Watch { return &counting{} })); ran {
		os.Exit(code)
	}
	leak.Main(m)
}
