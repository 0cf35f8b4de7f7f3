package planfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
)

func TestPlacement(t *testing.T) {
	e := mustParse(t, "testdata/good/placement.yaml", Options{})
	if diff := cmp.Diff(map[string]string{"net.core.somaxconn": "65535", "net.ipv4.tcp_rmem": "4096 131072 6291456"}, e.Sysctl); diff != "" {
		t.Error(diff)
	}
	zero, high := 0, -5
	type placement struct {
		Cgroup     *plan.Cgroup
		GOMAXPROCS int
		Nice, NUMA *int
	}
	of := func(p plan.Process) placement { return placement{p.Cgroup, p.GOMAXPROCS, p.Nice, p.NUMA} }
	if got := names(e); got != "half half.control two" {
		t.Fatalf("variants %s", got)
	}
	for i, want := range []placement{
		{&plan.Cgroup{CPUMax: 0.5, CPUWeight: 50, MemoryMax: 512 << 20}, 1, &zero, &zero},
		{&plan.Cgroup{CPUMax: 0.5, CPUWeight: 50, MemoryMax: 512 << 20}, 1, &zero, &zero},
		{&plan.Cgroup{CPUMax: 2, CPUWeight: 50, MemoryMax: 512 << 20}, 2, &zero, &zero},
	} {
		v := e.Variants[i]
		if diff := cmp.Diff(want, of(v.Target.Process)); diff != "" {
			t.Errorf("%s: %s", v.Name, diff)
		}
		if diff := cmp.Diff(placement{&plan.Cgroup{MemoryMax: 64 << 20}, 0, &high, nil}, of(v.Services[0].Process)); diff != "" {
			t.Errorf("%s, echo: %s", v.Name, diff)
		}
	}
	if len(e.Warnings) > 0 {
		t.Errorf("%v: variables of the placement are used", e.Warnings)
	}
}

// A process on another machine has its address there, unless the plan says otherwise.
func TestAgent(t *testing.T) {
	e := mustParse(t, "testdata/good/agent.yaml", Options{})
	for i, zone := range []string{"a", "b"} {
		v := &e.Variants[i]
		if v.Target.Address != "{{host}}:{{port}}" || v.Observe.Cgroup != "web.service" {
			t.Errorf("%+v, %+v", v.Target, v.Observe)
		}
		if diff := cmp.Diff(map[string]string{"zone=" + zone: "target.agent", "disk": "services.db.agent"}, v.Placements()); diff != "" {
			t.Error(diff)
		}
	}
}
