package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/fields"
)

// An Alternate compares two variants by short turns in one process: base, other, other, base, and so on. What slows the
// machine down for seconds, such as another guest, slows both down. So a ratio of two turns next to each other
// is disturbed less than one of two processes.
//
// Figures: throughput_ratio, other over base, the median of all pairs of turns; cpu_ratio, of the server's CPU time for an
// exchange (io only); migrations_base and migrations_other, of all turns (pin only); pairs.
type Alternate struct {
	Program     string        `yaml:"program" oneof:"io pin" default:"io" doc:"what is compared: models of input and output, or floating and pinned threads"`
	Base        string        `yaml:"base" default:"blocking" doc:"the model to compare with; of pin: floating"`
	Other       string        `yaml:"other" default:"polling" doc:"the other model; of pin: pinned"`
	Connections int           `yaml:"connections" range:"1..1000" default:"100" doc:"how many an io server has"`
	Turn        time.Duration `yaml:"turn" range:"1ms..10s" default:"100ms" doc:"how long a variant runs at a time"`
	Pairs       int           `yaml:"pairs" range:"2..100000" default:"20" doc:"how many pairs of turns"`
}

// The variants of pin.
const (
	floating = "floating"
	pinned   = "pinned"
)

// Check reports variants that the program does not have.
func (a Alternate) Check(r *fields.Report) {
	known := ioModels
	if a.Program == "pin" {
		known = []string{floating, pinned}
	}
	r.Check(slices.Contains(known, a.Base), "base", fmt.Sprintf("is none of %q", known), "")
	r.Check(slices.Contains(known, a.Other), "other", fmt.Sprintf("is none of %q", known), "")
}

// Run measures all pairs.
func (a Alternate) Run(ctx context.Context) (measurement.Result, error) {
	var turns [2][]measurement.Result // of base and other
	for i := range a.Pairs {
		order := []int{0, 1}
		if i%2 == 1 {
			order = []int{1, 0}
		}
		for _, which := range order {
			r, err := a.program([]string{a.Base, a.Other}[which]).Run(ctx)
			if err != nil {
				return nil, err
			}
			turns[which] = append(turns[which], r)
		}
	}
	if a.Program == "pin" {
		return measurement.Result{
			"throughput_ratio": medianRatio(turns, "ops_per_second"), "pairs": float64(a.Pairs),
			"migrations_base": sum(turns[0], "migrations"), "migrations_other": sum(turns[1], "migrations"),
		}, nil
	}
	return measurement.Result{
		"throughput_ratio": medianRatio(turns, "exchanges_per_second"), "pairs": float64(a.Pairs),
		"cpu_ratio": medianRatio(turns, "server_cpu_per_exchange_seconds"),
	}, nil
}

func (a Alternate) program(variant string) measurement.Program {
	if a.Program == "pin" {
		return Pin{Pinned: variant == pinned, Threads: 4, Duration: a.Turn}
	}
	return IO{Model: variant, Connections: a.Connections, Duration: a.Turn}
}

// medianRatio returns the median ratio of the second variant's turns to the first one's. Pairs without a ratio do not count.
func medianRatio(turns [2][]measurement.Result, figure string) float64 {
	var ratios []float64
	for i := range turns[0] {
		if ratio := turns[1][i][figure] / turns[0][i][figure]; ratio > 0 && !math.IsInf(ratio, 0) {
			ratios = append(ratios, ratio)
		}
	}
	if len(ratios) == 0 {
		return 0
	}
	slices.Sort(ratios)
	return math.Sqrt(ratios[(len(ratios)-1)/2] * ratios[len(ratios)/2])
}

func sum(turns []measurement.Result, figure string) (all float64) {
	for _, r := range turns {
		all += r[figure]
	}
	return all
}
