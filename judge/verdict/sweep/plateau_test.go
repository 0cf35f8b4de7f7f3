package sweep

import (
	"fmt"
	"strings"
	"testing"

	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

func TestPlateaus(t *testing.T) {
	// A sweep of connections in which throughput stops at 1,000/s, as the generator
	// does; what a case changes is about the last three of its five levels.
	sweep := func(change func(*rundir.Run)) *rundir.Run {
		run := &rundir.Run{Sweeps: []rundir.Sweep{{Variable: "clients", Metric: "throughput", Fixed: map[string]string{"size": "1KB", "kind": "echo"}}}}
		for i, x := range []float64{400, 800, 985, 1000, 990} {
			name := fmt.Sprint("v", i)
			run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: name, Loop: "closed", Connections: 1 << i})
			run.Variants = append(run.Variants, rundir.Variant{
				Name: name, Figures: map[string]rundir.Estimate{rundir.MetricCPUShare: {Estimate: new(0.5)}, rundir.MetricGenerator: {Estimate: new(0.91 + 0.01*float64(i))}},
			})
			run.Sweeps[0].Levels = append(run.Sweeps[0].Levels, rundir.Level{Value: float64(int(1) << i), Variant: name, Figure: rundir.Estimate{Estimate: new(x)}})
		}
		change(run)
		return run
	}
	levels := func(r *rundir.Run) []rundir.Level { return r.Sweeps[0].Levels }
	for _, c := range []struct {
		name   string
		change func(*rundir.Run)
		want   bool
	}{
		{"plateau", func(*rundir.Run) {}, true},
		{"in any order", func(r *rundir.Run) { l := levels(r); l[0], l[4] = l[4], l[0] }, true},
		{"at the tolerance", func(r *rundir.Run) { levels(r)[2].Figure.Estimate = new(980.) }, true},
		{"still growing", func(r *rundir.Run) { levels(r)[2].Figure.Estimate = new(979.) }, false},
		{"a saturated target", func(r *rundir.Run) {
			r.Variants[3].Figures[rundir.MetricCPUShare] = rundir.Estimate{Estimate: new(0.9)}
		}, false},
		{"a generator with time to spare", func(r *rundir.Run) {
			r.Variants[2].Figures[rundir.MetricGenerator] = rundir.Estimate{Estimate: new(0.9)}
		}, false},
		{"one without before the plateau", func(r *rundir.Run) {
			r.Variants[1].Figures[rundir.MetricGenerator] = rundir.Estimate{Estimate: new(0.5)}
		}, true},
		{"an unknown target", func(r *rundir.Run) { delete(r.Variants[4].Figures, rundir.MetricCPUShare) }, false},
		{"an unknown figure", func(r *rundir.Run) { levels(r)[4].Figure.Estimate = nil }, false},
		{"another metric", func(r *rundir.Run) { r.Sweeps[0].Metric = "response.p99" }, false},
		{"two levels", func(r *rundir.Run) { r.Sweeps[0].Levels = levels(r)[3:] }, false},
		{"a variable that is no load", func(r *rundir.Run) {
			for i := range r.Plan.Variants {
				r.Plan.Variants[i].Connections = 16
			}
		}, false},
		{"rates", func(r *rundir.Run) {
			for i := range r.Plan.Variants {
				r.Plan.Variants[i].Connections, r.Plan.Variants[i].Rate = 16, new(float64(100*i+100))
			}
		}, true},
	} {
		flags, _ := Plateaus(sweep(c.change))
		if got := len(flags) == 1; got != c.want || len(flags) > 1 {
			t.Errorf("%s: flags %+v", c.name, flags)
		}
		for _, f := range flags {
			if f.Kind != checks.FlagPlateau || !f.Disturbs || f.Trial != 0 || !checks.IsKnown(f.Kind) || !strings.Contains(f.Detail.English(), "at kind echo, size 1KB,") {
				t.Errorf("%s: flag %+v", c.name, f)
			}
		}
	}
}
