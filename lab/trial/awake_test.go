package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/host/awake"
	"dyno/lab/plan"
	"dyno/observe"
)

// A run keeps its CPUs awake and says so, or says why it could not.
func TestRunKeepsCPUsAwake(t *testing.T) {
	e := parse(t, `name: awake
awake: true
target:
  protocol: http
  start: [dyno, "null", "127.0.0.1:{{port}}"]
observe: {kernel: none}
load: {open: {rate: 200/s}, warmup: 0, window: 200ms}
design: {rounds: 1}
`)
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	env := open(t, o.Dir).Run.Environment
	allowed := observe.ReadEnvironment().AllowedCPUs
	lock, refused := awake.Start(allowed...)
	if refused != nil {
		if len(env.AwakeCPUs) > 0 || !strings.Contains(fmt.Sprint(env.Unavailable), refused.Error()) {
			t.Errorf("awake were %v, unavailable %q: want none, and %q", env.AwakeCPUs, env.Unavailable, refused)
		}
		return
	}
	if err := lock.Stop(); err != nil {
		t.Error(err)
	}
	if got := env.AwakeCPUs; !slices.Equal(got, allowed) {
		t.Errorf("awake were %v, want all of %v, since nothing has its place", got, allowed)
	}
}

func TestInUse(t *testing.T) {
	allowed := []int{0, 1, 2, 3}
	var placed plan.Load
	placed.CPUs = []int{3}
	for _, c := range []struct {
		name    string
		variant plan.Variant
		want    []int
	}{
		{"nothing placed", plan.Variant{}, allowed},
		{"a target elsewhere", plan.Variant{Load: placed}, []int{3}},
		{"a target anywhere", plan.Variant{
			Load:   placed,
			Target: plan.Target{Process: plan.Process{Start: []string{"x"}}},
		}, allowed},
		{"all placed", plan.Variant{
			Load:     placed,
			Target:   plan.Target{Process: plan.Process{Start: []string{"x"}, CPUs: []int{0}}},
			Services: []plan.Service{{Process: plan.Process{CPUs: []int{0, 1}}}},
		}, []int{0, 1, 3}},
		{"a program", plan.Variant{
			Target: plan.Target{Protocol: plan.Program, Process: plan.Process{Start: []string{"x"}, CPUs: []int{1}}},
		}, []int{1}},
	} {
		got := inUse(&plan.Experiment{Variants: []plan.Variant{c.variant}}, allowed)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
