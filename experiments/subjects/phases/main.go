// Command phases cuts the recording of one trial into phases and compares them. Phases of one process and one load
// differ by their time alone, and cost no run each.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/command"
	"dyno/load/hist"
	"dyno/results/rundir"
)

func main() {
	root := &cobra.Command{Use: "phases", Short: "Compare phases of one trial", Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	measurement.Add[Phases](root, "cut", "Cut a trial's response times into three phases, and into its first time and its second")
	measurement.Add[Variation](root, "vary", "Tell how much a trial's throughput varies from slice to slice")
	os.Exit(command.Main(context.Background(), root, os.Args[1:], os.Stdout, os.Stderr))
}

// Phases cuts the first trial of a run. Cold is the time from its beginning that no phase has.
//
// Figures: first_p99_ratio, last_p99_ratio, first_throughput_ratio and last_throughput_ratio, each relative to the middle phase;
// cold_p50_ratio, cold_p99_ratio and cold_max_ratio of the first Half relative to the second; middle_p99_seconds.
type Phases struct {
	Folder string        `yaml:"folder,required" doc:"the run's folder"`
	Cold   time.Duration `yaml:"cold" range:"0..1h" default:"10s" doc:"how long the beginning is that no phase has"`
	First  time.Duration `yaml:"first" range:"100ms..1h" default:"16s" doc:"how long the first phase is"`
	Middle time.Duration `yaml:"middle" range:"100ms..1h" default:"40s" doc:"how long the phase is that counts"`
	Last   time.Duration `yaml:"last" range:"100ms..1h" default:"16s" doc:"how long the last phase is"`
	Half   time.Duration `yaml:"half" range:"100ms..1h" default:"30s" doc:"how long the first time is, and the second after it"`
}

var errEmpty = errors.New("a phase has no response: measure for longer")

// Run cuts the recording.
func (p Phases) Run(context.Context) (measurement.Result, error) {
	intervals, err := read(p.Folder)
	if err != nil {
		return nil, err
	}
	result, err := p.compare(intervals)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Folder, err)
	}
	return result, nil
}

// compare returns the figures.
func (p Phases) compare(intervals []hist.Interval) (measurement.Result, error) {
	cut := func(from, length time.Duration) *hist.Histogram { return between(intervals, from, from+length) }
	first, middle := cut(p.Cold, p.First), cut(p.Cold+p.First, p.Middle)
	last := cut(p.Cold+p.First+p.Middle, p.Last)
	cold, warm := cut(0, p.Half), cut(p.Half, p.Half)
	for _, h := range []*hist.Histogram{first, middle, last, cold, warm} {
		if h.Count() == 0 {
			return nil, errEmpty
		}
	}
	ratio := func(a, b *hist.Histogram, q float64) float64 { return float64(a.Quantile(q)) / float64(b.Quantile(q)) }
	rate := func(h *hist.Histogram, d time.Duration) float64 { return float64(h.Count()) / d.Seconds() }
	return measurement.Result{
		"first_p99_ratio":        ratio(first, middle, 0.99),
		"last_p99_ratio":         ratio(last, middle, 0.99),
		"first_throughput_ratio": rate(first, p.First) / rate(middle, p.Middle),
		"last_throughput_ratio":  rate(last, p.Last) / rate(middle, p.Middle),
		"cold_p50_ratio":         ratio(cold, warm, 0.5),
		"cold_p99_ratio":         ratio(cold, warm, 0.99),
		"cold_max_ratio":         float64(cold.Max()) / float64(warm.Max()),
		"middle_p99_seconds":     float64(middle.Quantile(0.99)) / 1e9,
	}, nil
}

// read returns the recorded intervals of a run's first trial.
func read(folder string) ([]hist.Interval, error) {
	run, err := rundir.Open(folder)
	if err != nil {
		return nil, err
	}
	trials := run.Measured()
	if len(trials) == 0 {
		return nil, fmt.Errorf("%s: has no trial", folder)
	}
	_, intervals, err := trials[0].Intervals()
	return intervals, err
}

// between merges the response times of the intervals that begin in a phase.
func between(intervals []hist.Interval, from, to time.Duration) *hist.Histogram {
	merged := hist.New()
	for _, i := range intervals {
		if i.Tag == rundir.TagResponse && i.Start >= from && i.Start < to {
			merged.Merge(i.Hist)
		}
	}
	return merged
}
