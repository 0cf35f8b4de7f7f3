package main

import (
	"os/exec"
	"testing"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The stages that start no other program bring each task to a worker.
func TestLocalDispatch(t *testing.T) {
	r, err := Dispatch{Stage: "local", Workers: 2, Tasks: 100, Single: 5}.Run(t.Context())
	if err != nil || r["tasks_per_second"] <= 0 || r["dispatch_seconds"] <= 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestRedisDispatch(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	r, err := Dispatch{Stage: "redis", Workers: 2, Tasks: 100, Single: 5}.Run(t.Context())
	if err != nil || r["tasks_per_second"] <= 0 {
		t.Errorf("%v, %v", r, err)
	}
}

// Predictions are exact without a spread, and no order of one worker changes when the last task ends.
func TestPredict(t *testing.T) {
	r, err := Predict{Workers: 1, Tasks: 30, Names: 5, Past: 2, Batches: 20}.Run(t.Context())
	if err != nil || r["prediction_error"] > 1e-6 || r["wait_ratio"] <= 1 || r["makespan_ratio"] < 0.999 || r["makespan_ratio"] > 1.001 {
		t.Errorf("%v, %v", r, err)
	}
	if makespan, wait := (Predict{Workers: 2}).simulate([]int{2, 0, 1}, []float64{1, 2, 4}); makespan != 4 || wait != 1.0/3 {
		t.Errorf("makespan %v, wait %v", makespan, wait)
	}
	if got := quantile(sorted([]float64{3, 1, 2}), 0.5); got != 2 {
		t.Errorf("the median of 1, 2 and 3 is %v", got)
	}
}
