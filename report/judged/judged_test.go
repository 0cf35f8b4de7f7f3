package judged

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/results/rundir"
)

// Disturbances make times longer. Clocks of agents may make them longer or shorter.
func TestMarkOfTimes(t *testing.T) {
	e := rundir.Estimate{Estimate: new(1e-3)}
	v := rundir.Validity{Figure: "delivery.p50", State: rundir.StateBounded, Low: new(0.5e-3), High: new(1.5e-3), Causes: []string{"steal"}}
	if got := markOf(e, v); got != AtMost {
		t.Errorf("disturbed: %q", got)
	}
	v.Causes = append(v.Causes, rundir.CauseAgentClocks)
	if got := markOf(e, v); got != Doubt {
		t.Errorf("between machines: %q", got)
	}
}

func TestCompareIDs(t *testing.T) {
	want := []string{"", "R1.1", "R1.2", "R1.2/switch", "R1.10", "R2", "R02", "R10.1", "a"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, CompareIDs)
	// R2 and R02 are the same number: any order that does not change is right.
	if CompareIDs("R2", "R02") > 0 {
		i := slices.Index(want, "R2")
		want[i], want[i+1] = want[i+1], want[i]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.SampledFrom([]rune("R.019")), 0, 6, -1)
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if CompareIDs(a, b) != -CompareIDs(b, a) || CompareIDs(a, b) == 0 != (a == b) {
			t.Errorf("%q and %q: %d and %d", a, b, CompareIDs(a, b), CompareIDs(b, a))
		}
		if CompareIDs(a, b) < 0 && CompareIDs(b, c) < 0 && CompareIDs(a, c) >= 0 {
			t.Errorf("%q < %q < %q, and the first is not before the last", a, b, c)
		}
	})
}

// The slowest requests of all trials that count lead to their traces. A link that is not a
// URL of HTTP is left out.
func TestSlowest(t *testing.T) {
	trial := func(number int, variant string, response ...float64) *rundir.TrialFolder {
		f := &rundir.TrialFolder{Trial: rundir.Trial{Number: number, Round: number, Variant: variant, Complete: true}}
		for i, r := range response {
			f.Slowest = append(f.Slowest, rundir.Slow{TraceID: string(rune('a' + i)), Response: r})
		}
		return f
	}
	f := &rundir.Folder{
		Run: rundir.Run{Plan: rundir.Plan{Variants: []rundir.PlanVariant{
			{Name: "linked", TraceURL: "https://traces/{id}?by={id}"}, {Name: "hostile", TraceURL: "javascript:{id}"}, {Name: "bare"},
		}}},
		Trials: []*rundir.TrialFolder{trial(1, "linked", 5, 1), trial(2, "hostile", 4), trial(3, "bare", 9, 8, 7, 6.5, 6.4, 6.3, 6.2, 0.5)},
	}
	var got []string
	for _, x := range Of(f).Slowest() {
		got = append(got, fmt.Sprintf("%s%d %v %s", x.Variant, x.Trial, x.Request.Response, x.URL))
	}
	want := "bare3 9 bare3 8 bare3 7 bare3 6.5 bare3 6.4 bare3 6.3 bare3 6.2 linked1 5 https://traces/a?by=a hostile2 4 linked1 1 https://traces/b?by=b"
	if text := strings.Join(strings.Fields(strings.Join(got, " ")), " "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// The system calls of targets are means over the trials that counted them.
func TestCalls(t *testing.T) {
	trial := func(number int, variant string, calls map[string]float64) *rundir.TrialFolder {
		f := &rundir.TrialFolder{Trial: rundir.Trial{Number: number, Round: number, Variant: variant, Complete: true}}
		if f.Target.Syscalls = calls; calls != nil {
			f.Target.SyscallsPerRequest = new(1.)
		}
		return f
	}
	many := map[string]float64{"read": 2, "write": 1}
	for i := range 12 {
		many[fmt.Sprintf("call%02d", i)] = 0.01 * float64(i)
	}
	f := &rundir.Folder{Trials: []*rundir.TrialFolder{
		trial(1, "a", map[string]float64{"read": 1, "futex": 4}), trial(2, "a", map[string]float64{"read": 3}), trial(3, "a", nil), trial(4, "b", many), trial(5, "c", nil),
	}}
	calls := Of(f).Calls()
	got := fmt.Sprint(calls.Most[:3], len(calls.Most), calls.All)
	if want := "[{futex map[a:2 b:0]} {read map[a:2 b:2]} {write map[a:0 b:1]}] 10 15"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if none := Of(&rundir.Folder{Trials: []*rundir.TrialFolder{trial(1, "a", nil)}}).Calls(); none != nil {
		t.Errorf("%v, and no trial counted any", none)
	}
}
