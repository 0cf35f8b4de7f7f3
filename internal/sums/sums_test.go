package sums

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type part struct{ N int64 }

type counted struct {
	N      int64
	Took   time.Duration
	Share  float64
	Most   uint64 `sum:"max"`
	Least  uint64 `sum:"min"`
	Own    int    `sum:"-"`
	Some   *int64
	Part   *part
	Inside part
	Kinds  [3]uint64
	By     map[string]int64
	Name   string
	List   []int
	Ready  bool
}

// Numbers are added wherever they are, and what another struct holds is not changed by it.
func TestAdd(t *testing.T) {
	a := counted{N: 1, Took: time.Second, Share: 0.5, Most: 7, Least: 4, Own: 3, Kinds: [3]uint64{1, 0, 2}, Inside: part{1}, By: map[string]int64{"x": 1}, Name: "a"}
	b := counted{
		N: 2, Took: time.Minute, Share: 0.25, Most: 5, Least: 9, Own: 4, Some: new(int64(6)), Part: &part{8}, Kinds: [3]uint64{0, 4, 1}, Inside: part{2},
		By: map[string]int64{"x": 2, "y": 3}, Name: "b", List: []int{1}, Ready: true,
	}
	var sum counted
	for _, from := range []counted{a, b, b} {
		Add(&sum, &from)
	}
	want := counted{
		N: 5, Took: time.Second + 2*time.Minute, Share: 1, Most: 7, Least: 4, Some: new(int64(12)), Part: &part{16}, Kinds: [3]uint64{1, 8, 4}, Inside: part{5},
		By: map[string]int64{"x": 5, "y": 6}, Name: "a", List: []int{1}, Ready: true,
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Error(diff)
	}
	if *b.Some != 6 || b.Part.N != 8 || b.By["x"] != 2 || a.By["x"] != 1 {
		t.Errorf("what was added has changed: %+v", b)
	}
}

// Copy takes what has a namesake of the same kind, promoted fields too, and leaves the rest.
func TestCopy(t *testing.T) {
	type from struct {
		part
		Took, Other time.Duration
		Most        uint64
		Name        string
		Mean        uint64
		Inside      part
		Full, Empty part
		List        []int
	}
	type to struct {
		N, Most, Missing int64
		Took, Mean       float64
		Name             string
		Inside           struct{ N int64 }
		Full, Empty      *struct{ N int64 }
		List             []string
	}
	got := to{Missing: 4}
	Copy(&got, &from{
		part: part{1}, Took: 1500 * time.Millisecond, Other: 1, Most: 7, Name: "a", Mean: 3, Inside: part{2}, Full: part{3}, List: []int{1},
	})
	want := to{N: 1, Most: 7, Missing: 4, Took: 1.5, Name: "a", Inside: struct{ N int64 }{2}, Full: &struct{ N int64 }{3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
