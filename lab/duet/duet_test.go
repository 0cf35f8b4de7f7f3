package duet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dyno/lab/plan"
)

func TestPairs(t *testing.T) {
	e := &plan.Experiment{Base: "a", Variants: []plan.Variant{{Name: "b"}, {Name: "a"}, {Name: "a.control"}, {Name: "c"}}}
	orders, firsts := map[string]bool{}, map[int]bool{}
	for seed := range uint64(20) {
		e.Design.Seed = seed
		rounds := Pairs(e, 6)
		last := map[string]int{}
		for i, round := range rounds {
			var names []string
			for _, c := range round {
				if c.Base.Name != "a" {
					t.Fatalf("seed %d: base %s", seed, c.Base.Name)
				}
				if set, ok := last[c.Variant.Name]; ok && set == c.CPUSet {
					t.Errorf("seed %d, round %d: %s is where it was", seed, i+1, c.Variant.Name)
				}
				last[c.Variant.Name] = c.CPUSet
				names = append(names, c.Variant.Name)
			}
			orders[strings.Join(names, " ")] = true
			firsts[rounds[0][0].CPUSet] = true
			slices.Sort(names)
			if !slices.Equal(names, []string{"a.control", "b", "c"}) {
				t.Errorf("seed %d, round %d: %v", seed, i+1, names)
			}
		}
		if again := Pairs(e, 8); !reflect.DeepEqual(again[:6], rounds) {
			t.Errorf("seed %d: another order in a longer run", seed)
		}
	}
	if len(orders) != 6 || len(firsts) != 2 {
		t.Errorf("%d orders and %d first CPU sets in 20 seeds, want 6 and 2", len(orders), len(firsts))
	}
}

func TestCPUSets(t *testing.T) {
	to := func(n int) (cpus []int) {
		for cpu := range n {
			cpus = append(cpus, cpu)
		}
		return cpus
	}
	for _, c := range []struct {
		name                     string
		load, processes, allowed []int
		want                     string // load/target of both
		fault                    string
	}{
		{"two CPUs, one each", []int{1}, []int{0}, to(2), "[0]/[0] [1]/[1]", ""},
		{"two CPUs, nothing said", nil, nil, to(2), "[0]/[0] [1]/[1]", ""},
		{"three CPUs", nil, nil, to(3), "[0]/[0] [1]/[1]", ""},
		{"four CPUs", nil, nil, to(4), "[0]/[1] [2]/[3]", ""},
		{"eight CPUs", nil, nil, to(8), "[0 1]/[2 3] [4 5]/[6 7]", ""},
		{"six CPUs", nil, nil, to(6), "[0]/[1 2] [3]/[4 5]", ""},
		{"some of those allowed", nil, nil, []int{2, 3, 6, 7}, "[2]/[3] [6]/[7]", ""},
		{"only the target's", nil, []int{0, 1, 2, 3}, to(8), "[0]/[1] [2]/[3]", ""},
		{"two and two", []int{2, 3}, []int{0, 1}, to(4), "[2]/[0] [3]/[1]", ""},
		{"two and four", []int{4, 5}, []int{0, 1, 2, 3}, to(8), "[4]/[0 1] [5]/[2 3]", ""},
		{"the same", []int{0, 1}, []int{0, 1}, to(4), "[0]/[0] [1]/[1]", ""},
		{"one CPU", nil, nil, []int{5}, "", "needs two CPUs, one for each variant, and has [5]"},
		{"one CPU said", []int{1}, nil, to(4), "", "needs two CPUs"},
		{"one and three", []int{0}, []int{1, 2, 3}, to(4), "", "want an even number in both and none in common, or one in each"},
		{"three and two", []int{0, 1, 2}, []int{3, 4}, to(8), "", "cannot be divided"},
		{"some in common", []int{0, 1}, []int{1, 2}, to(4), "", "cannot be divided"},
		{"not allowed", []int{1}, []int{9}, to(4), "", "CPU 9 is not one that dyno may use ([0 1 2 3])"},
	} {
		d, err := cpuSets(c.load, c.processes, c.allowed)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		a, b := d.CPUSets[0], d.CPUSets[1]
		if got := fmt.Sprintf("%v/%v %v/%v", a.LoadCPUs, a.TargetCPUs, b.LoadCPUs, b.TargetCPUs); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for _, cpu := range slices.Concat(a.LoadCPUs, a.TargetCPUs) {
			if slices.Contains(b.LoadCPUs, cpu) || slices.Contains(b.TargetCPUs, cpu) {
				t.Errorf("%s: both have CPU %d", c.name, cpu)
			}
		}
	}
}
