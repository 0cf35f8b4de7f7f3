package short

import (
	"strings"
	"testing"

	"dyno/report/judged"
	"dyno/results/rundir"
)

func TestShortSteps(t *testing.T) {
	f := &rundir.Folder{}
	f.Run.Plan.Variants = []rundir.PlanVariant{{Name: "shop", Loop: "open"}}
	v := &rundir.Variant{Name: "shop", Steps: []rundir.ScenarioStep{
		{Name: "login", OK: 50, Response: rundir.Quantiles{P99: new(0.003)}},
		{Name: "list", OK: 1200, ByKind: map[string]int64{"status": 2, "assertion": 7}, Dropped: 3, Skipped: 5},
	}}
	p := &page{Result: judged.Of(f)}
	if got, want := p.steps(v), "login 50 ok, p99 3.00 ms; list 1,200 ok and 9 not, skipped 5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for range mostSteps {
		v.Steps = append(v.Steps, rundir.ScenarioStep{Name: "x"})
	}
	if got := p.steps(v); !strings.HasSuffix(got, "; and 2 more") {
		t.Errorf("%q", got)
	}
}
