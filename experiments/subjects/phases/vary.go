package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/load/hist"
)

// Variation cuts the first trial of a run into slices.
//
// Figures: throughput_deviation, the standard deviation of the slices' throughput relative to its mean; requests_per_second,
// this mean.
type Variation struct {
	Folder string        `yaml:"folder,required" doc:"the run's folder"`
	Cold   time.Duration `yaml:"cold" range:"0..1h" default:"1s" doc:"how long the beginning is that no slice has"`
	Slice  time.Duration `yaml:"slice" range:"100ms..1h" default:"1s" doc:"how long each slice is"`
	Slices int           `yaml:"slices" range:"2..100000" default:"8" doc:"how many slices count"`
}

var errShort = errors.New("the trial is shorter than its slices: measure for longer")

// Run cuts the recording.
func (v Variation) Run(context.Context) (measurement.Result, error) {
	intervals, err := read(v.Folder)
	if err != nil {
		return nil, err
	}
	result, err := v.compare(intervals)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Folder, err)
	}
	return result, nil
}

// compare returns the figures.
func (v Variation) compare(intervals []hist.Interval) (measurement.Result, error) {
	var sum, squares float64
	end := v.Cold
	for range v.Slices {
		begin := end
		end += v.Slice
		n := float64(between(intervals, begin, end).Count())
		sum += n
		squares += n * n
	}
	mean := sum / float64(v.Slices)
	if mean == 0 || between(intervals, end-v.Slice, end).Count() == 0 {
		return nil, errShort
	}
	variance := (squares - sum*mean) / float64(v.Slices-1)
	return measurement.Result{
		"throughput_deviation": math.Sqrt(max(0, variance)) / mean,
		"requests_per_second":  mean / v.Slice.Seconds(),
	}, nil
}
