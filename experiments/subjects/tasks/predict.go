package main

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/fields"
	"dyno/lab/fleet/queue"
)

// A Predict simulates a batch of tasks on several workers, in the order of submission, and in orders by the queue's own
// prediction (queue.Predict) from finished tasks of the same name. Names have typical durations, log-normal with a
// sigma of one: some take ten times as long as others. Each run differs from its name's duration by the spread.
//
// Figures: makespan_ratio, the time of the batch in the order of submission over that with the longest task first;
// wait_ratio, the mean wait in the order of submission over that with the shortest first; wait_ratio_known, the latter
// if durations were known; prediction_error, the median relative error.
type Predict struct {
	Workers int     `yaml:"workers" range:"1..1000" default:"4" doc:"how many"`
	Tasks   int     `yaml:"tasks" range:"2..10000" default:"40" doc:"in a batch"`
	Names   int     `yaml:"names" range:"1..1000" default:"20" doc:"different experiments"`
	Past    int     `yaml:"past" range:"1..20" default:"5" doc:"finished runs of each"`
	Spread  float64 `yaml:"spread" range:"0..3" default:"0.3" doc:"sigma of the log-normal factor of a run"`
	Batches int     `yaml:"batches" range:"1..100000" default:"200" doc:"how many are simulated"`
}

// Check reports batches in which no task waits.
func (p Predict) Check(r *fields.Report) {
	r.Check(p.Tasks > p.Workers, "tasks", "must be more than the workers", "")
}

// Run simulates all batches.
func (p Predict) Run(context.Context) (measurement.Result, error) {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // a simulation
	factor := func(sigma float64) float64 { return math.Exp(sigma * random.NormFloat64()) }
	var makespans, waits, known, wrong []float64
	for range p.Batches {
		typical := make([]float64, p.Names)
		var past []queue.Task
		for n := range typical {
			typical[n] = factor(1)
			for range p.Past {
				past = append(past, queue.Task{Name: strconv.Itoa(n), Runs: []queue.Run{{
					State: queue.Done, Ended: time.Time{}.Add(time.Duration(typical[n] * factor(p.Spread) * float64(time.Second))),
				}}})
			}
		}
		took, predicted := make([]float64, p.Tasks), make([]float64, p.Tasks)
		for i := range took {
			n := random.IntN(p.Names)
			took[i] = typical[n] * factor(p.Spread)
			predicted[i] = queue.Predict(&queue.Task{Name: strconv.Itoa(n)}, past)
			wrong = append(wrong, math.Abs(predicted[i]/took[i]-1))
		}
		fifo := make([]int, p.Tasks)
		for i := range fifo {
			fifo[i] = i
		}
		by := func(key []float64, sign float64) []int {
			order := slices.Clone(fifo)
			slices.SortStableFunc(order, func(a, b int) int { return int(sign) * cmp.Compare(key[a], key[b]) })
			return order
		}
		makespan, wait := p.simulate(fifo, took)
		longest, _ := p.simulate(by(predicted, -1), took)
		_, shortest := p.simulate(by(predicted, 1), took)
		_, best := p.simulate(by(took, 1), took)
		makespans, waits, known = append(makespans, makespan/longest), append(waits, wait/shortest), append(known, wait/best)
	}
	return measurement.Result{
		"makespan_ratio": quantile(sorted(makespans), 0.5), "wait_ratio": quantile(sorted(waits), 0.5),
		"wait_ratio_known": quantile(sorted(known), 0.5), "prediction_error": quantile(sorted(wrong), 0.5),
	}, nil
}

// simulate gives each task in turn to the worker that is free first. It returns when the last one ends, and the mean wait.
func (p Predict) simulate(order []int, took []float64) (makespan, wait float64) {
	free := make([]float64, p.Workers)
	for _, i := range order {
		w := slices.Index(free, slices.Min(free))
		wait += free[w] / float64(len(order))
		free[w] += took[i]
	}
	return slices.Max(free), wait
}
