package pace

import (
	"testing"
	"time"
)

func BenchmarkNext(b *testing.B) {
	for _, bb := range []struct {
		name    string
		stage   Stage
		process Process
		workers int
	}{
		{"constant", Stage{0, 12345.6, 12345.6}, Constant, 1},
		{"ramp", Stage{time.Hour, 0, 1e9}, Constant, 1},
		{"poisson", Stage{0, 5000, 5000}, Poisson, 1},
		{"poisson-4-workers", Stage{0, 5000, 5000}, Poisson, 4},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c := mustNew(b, []Stage{bb.stage}, bb.process, 1).Split(0, bb.workers)
			b.ReportAllocs()
			for b.Loop() {
				c.Next()
			}
		})
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	stages := []Stage{{time.Second, 0, 5000}, {time.Second, 5000, 1000}, {0, 1000, 1000}}
	for _, p := range []Process{Constant, Poisson} {
		c := mustNew(t, stages, p, 1).Split(1, 3)
		if n := testing.AllocsPerRun(5000, func() { c.Next() }); n != 0 {
			t.Errorf("%v: %v allocations per arrival", p, n)
		}
	}
}

func TestThinkDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, think := range []Think{{Mean: 1}, {Kind: Uniform, Max: 1000}, {Kind: Exponential, Mean: 1000}} {
		thinker := think.Thinker(1, 1)
		if n := testing.AllocsPerRun(1000, func() { thinker.Next() }); n != 0 {
			t.Errorf("%v: %v allocations per think time", think.Kind, n)
		}
	}
}
