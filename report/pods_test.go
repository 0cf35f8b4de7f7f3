package report

import (
	"strings"
	"testing"

	"dyno/results/rundir"
)

// A pod has the CPU time of all trials over their windows. One whose figures are not known has no line.
func TestPods(t *testing.T) {
	trial := func(round int, variant string, seconds float64, memory int64) *rundir.TrialFolder {
		return &rundir.TrialFolder{Trial: rundir.Trial{Round: round, Variant: variant, Complete: true, WindowSeconds: 2, Pods: []rundir.Pod{
			{Name: "web-a", Node: "n1", CPUSeconds: &seconds, MemoryBytes: &memory}, {Name: "web-b", Node: "n2"},
		}}}
	}
	f := &rundir.Folder{Trials: []*rundir.TrialFolder{trial(1, "v", 1, 3<<20), trial(2, "v", 3, 2<<20)}}
	text := func() string {
		p := newPage(f)
		p.pods()
		var b strings.Builder
		for _, s := range p.Parts {
			s.WriteText(&b)
		}
		return b.String()
	}
	if got := text(); !strings.Contains(got, "\n  web-a  1.00  3.00 MiB  n1\n") || strings.Contains(got, "web-b") {
		t.Error(got)
	}
	f.Trials = append(f.Trials, trial(1, "w", 4, 1<<20))
	f.Run.Variants = make([]rundir.Variant, 2)
	if got := text(); !strings.Contains(got, "\n  w: web-a  2.00  1.00 MiB  n1\n") {
		t.Error(got)
	}
	if f.Trials = nil; text() != "" {
		t.Error(text())
	}
}
