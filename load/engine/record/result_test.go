package record

import (
	"testing"
	"time"

	"dyno/load/hist"
	"dyno/load/scenario"
)

// Results of two engines for one load of requests merge: the window is the longer one, and the target
// was silent no longer than for either.
func TestJoinOfRequests(t *testing.T) {
	start := time.Unix(1, 0)
	of := func(window, silent time.Duration, good uint64, took time.Duration) *Result {
		r := &Result{
			Start: start, Window: window, Counts: Counts{Scheduled: good, Sent: good, Outcomes: Outcomes{OK: good}}, Completed: good,
			Connections: Connections{Requested: 3}, Status: map[int]uint64{200: good}, Failures: map[string]uint64{},
			Silence: Silence{Longest: silent, Ending: silent, Answered: true, Last: window, Failing: 2},
			Steps:   []StepResult{{Name: "a", Counts: Counts{Scheduled: good, Sent: good, Outcomes: Outcomes{OK: good}}, Completed: good, Response: hist.New(), Service: hist.New()}},
			Users:   UsersResult{Count: 2, Iterations: good, Misses: []scenario.Miss{{Name: "x", Count: 1}}},
		}
		for tag := range r.Latency {
			r.Latency[tag] = hist.New()
		}
		r.Latency[Service].RecordN(int64(took), int64(good))
		r.Steps[0].Service.RecordN(int64(took), int64(good))
		return r
	}
	r := of(time.Second, 30*time.Millisecond, 10, time.Millisecond)
	if err := r.Merge(of(2*time.Second, 20*time.Millisecond, 5, time.Second)); err != nil {
		t.Fatal(err)
	}
	if r.Window != 2*time.Second || r.Completed != 15 || r.Counts.OK != 15 || r.Connections.Requested != 6 || r.Status[200] != 15 {
		t.Errorf("%+v", r)
	}
	if s := r.Silence; s.Longest != 20*time.Millisecond || s.Ending != 20*time.Millisecond || s.Last != 2*time.Second || s.Failing != 4 {
		t.Errorf("%+v", s)
	}
	if s := r.Steps[0]; s.Counts.OK != 15 || s.Service.Count() != 15 || s.Service.Quantile(0.5) > int64(2*time.Millisecond) || s.Service.Max() < int64(time.Second) {
		t.Errorf("%+v", s)
	}
	if u := r.Users; u.Count != 4 || u.Iterations != 15 || u.Misses[0].Count != 2 {
		t.Errorf("%+v", u)
	}
	if r.Latency[Service].Count() != 15 {
		t.Errorf("%d service times", r.Latency[Service].Count())
	}
	// An engine with subscribers only has no silence of requests.
	with := of(time.Second, 0, 0, time.Second)
	with.Connections.Requested = 0
	if err := r.Merge(with); err != nil || r.Silence.Longest != 20*time.Millisecond {
		t.Errorf("%+v, %v", r.Silence, err)
	}
}
