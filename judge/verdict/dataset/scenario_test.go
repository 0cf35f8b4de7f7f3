package dataset

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A variant's steps are those of its trials together: counts are added, quantiles are of the
// merged times, and rates are over all windows.
func TestScenarioSteps(t *testing.T) {
	trial := func(ok int64, kinds map[string]int64, misses ...rundir.Miss) *rundir.Trial {
		return &rundir.Trial{
			Users: &rundir.Users{Count: 5, Started: 6, Ended: 1, Iterations: ok, Arrivals: 7, TurnedAway: 2, Misses: misses},
			Steps: []rundir.ScenarioStep{
				{Name: "a", OK: ok, ByKind: kinds, CompletedInWindow: ok, Throughput: new(float64(ok) / 2)}, {Name: "b", OK: 1, Dropped: 3, CompletedInWindow: 1, Throughput: new(0.5)},
			},
		}
	}
	x, y := rundir.Miss{Step: "a", Variable: "x", Count: 2}, rundir.Miss{Step: "a", Variable: "y", Count: 3}
	trials := []*rundir.Trial{trial(30, map[string]int64{"status": 1}, x), trial(50, map[string]int64{"status": 2, "reset": 1}, y, x)}
	of := func(v time.Duration) *hist.Histogram {
		h := hist.New()
		h.RecordN(int64(v), 40)
		return h
	}
	log := recording.Merged([]hist.Interval{
		{Tag: rundir.StepTag("service", "a"), Hist: of(time.Millisecond)}, {Tag: rundir.StepTag("service", "a"), Hist: of(time.Millisecond)},
		{Tag: rundir.StepTag("response", "a"), Hist: of(2 * time.Millisecond)}, {Tag: rundir.TagService, Hist: of(time.Second)},
	})
	got := summarize("v", trials, log)
	want := []rundir.ScenarioStep{
		{Name: "a", OK: 80, ByKind: map[string]int64{"status": 3, "reset": 1}, CompletedInWindow: 80},
		{Name: "b", OK: 2, Dropped: 6, CompletedInWindow: 2},
	}
	if diff := cmp.Diff(want, got.Steps); diff != "" {
		t.Error(diff)
	}
	if got.Times["service/a"].Count != 80 || got.Values["throughput{step=a}"] != math.Exp((math.Log(15)+math.Log(25))/2) || got.Values["throughput{step=b}"] != 0.5 || got.Steps[0].Failed() != 4 {
		t.Errorf("%+v", got.Steps[0])
	}
	x.Count = 4
	users := &rundir.Users{Count: 5, Started: 12, Ended: 2, Iterations: 80, Arrivals: 14, TurnedAway: 4, Misses: []rundir.Miss{x, y}}
	if diff := cmp.Diff(users, got.Users); diff != "" {
		t.Error(diff)
	}
	if trials[0].Steps[0].ByKind["status"] != 1 {
		t.Error("a trial was changed")
	}
	if none := summarize("v", []*rundir.Trial{{}}, recording.Times{}); none.Steps != nil || none.Users != nil {
		t.Errorf("without a scenario: %+v, %+v", none.Steps, none.Users)
	}
}

// What users waited in vain may all have been requests of one step, on top of those that failed
// there.
func TestStepErrorsUpToOmitted(t *testing.T) {
	f := summarize("v", []*rundir.Trial{{
		Steps:  []rundir.ScenarioStep{{Name: "pay", OK: 95, ByKind: map[string]int64{"status": 5}}, {Name: "list", OK: 400}},
		Counts: rundir.Counts{Scheduled: 500, Sent: 500, OK: 495, Errors: 5},
	}}, nil)
	f.Omitted = 0.02
	for name, want := range map[string]float64{"errors.ratio{step=pay}": 1 - 0.95*0.98, "errors.ratio{step=list}": 0.02, "errors.ratio": 1 - 0.99*0.98} {
		m, _ := Lookup(name)
		if high, ok := m.upTo(f); !ok || math.Abs(high-want) > 1e-12 {
			t.Errorf("%s up to %v, want %v", name, high, want)
		}
	}
}
