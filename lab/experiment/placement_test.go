package experiment

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlacement(t *testing.T) {
	e := mustParse(t, "testdata/good/placement.yaml", Options{})
	if diff := cmp.Diff(map[string]string{"net.core.somaxconn": "65535", "net.ipv4.tcp_rmem": "4096 131072 6291456"}, e.Sysctl); diff != "" {
		t.Error(diff)
	}
	zero, high := 0, -5
	type placement struct {
		Cgroup     *Cgroup
		GOMAXPROCS int
		Nice, NUMA *int
	}
	of := func(p Process) placement { return placement{p.Cgroup, p.GOMAXPROCS, p.Nice, p.NUMA} }
	if got := names(e); got != "half half.control two" {
		t.Fatalf("variants %s", got)
	}
	for i, want := range []placement{
		{&Cgroup{0.5, 50, 512 << 20}, 1, &zero, &zero},
		{&Cgroup{0.5, 50, 512 << 20}, 1, &zero, &zero},
		{&Cgroup{2, 50, 512 << 20}, 2, &zero, &zero},
	} {
		v := e.Variants[i]
		if diff := cmp.Diff(want, of(v.Target.Process)); diff != "" {
			t.Errorf("%s: %s", v.Name, diff)
		}
		if diff := cmp.Diff(placement{&Cgroup{MemoryMax: 64 << 20}, 0, &high, nil}, of(v.Services[0].Process)); diff != "" {
			t.Errorf("%s, echo: %s", v.Name, diff)
		}
	}
	if len(e.Warnings) > 0 {
		t.Errorf("%v: variables of the placement are used", e.Warnings)
	}
}

func TestValidatePlacement(t *testing.T) {
	e := quick()
	e.Sysctl = map[string]string{"../x": "1", "a.b": "1\n2"}
	p := &e.Variants[0].Target.Process
	p.Start, p.Cgroup, p.GOMAXPROCS, p.Nice, p.NUMA = []string{"x"}, &Cgroup{-1, -1, -1}, -1, new(int), new(int)
	*p.Nice, *p.NUMA = 20, -1
	expectFaults(t, e.Validate(), "sysctl.../x", "sysctl.a.b", "target.cgroup.cpu_max", "target.cgroup.cpu_weight", "target.cgroup.memory_max",
		"target.gomaxprocs", "target.nice", "target.numa")
}

// expectFaults fails the test unless these fields, and no others, are at fault.
func expectFaults(t *testing.T, err error, fields ...string) {
	t.Helper()
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%v; want *Faults", err)
	}
	var got []string
	for _, f := range faults.Faults {
		got = append(got, f.Field)
	}
	if diff := cmp.Diff(fields, got); diff != "" {
		t.Error(diff)
	}
}
