package main

import (
	"context"
	"errors"
	"fmt"

	"dyno/experiments/subjects/measurement"
)

// A Stack measures the memory of a parked unit: how much the process grew when
// they were parked, over their number.
//
// A thread is one of the Go runtime's. Threads of C programs (and of cgo) map a stack of megabytes. Such a stack
// takes address space, and memory only when it is used. That is why both are given.
//
// Figures, per unit: resident_bytes, of memory; virtual_bytes, of address space (the heap reserves 64 MiB at a
// time, so few units show a coarse figure); kernel_stack_bytes, memory of the kernel that counts as neither (of
// the whole machine, so other programs disturb it); units.
type Stack struct {
	Unit  string `yaml:"unit" oneof:"goroutine thread" default:"goroutine" doc:"what is measured"`
	Units int    `yaml:"units" range:"1..2000000" default:"1000" doc:"how many to park"`
}

// Run parks the units, measures and releases them. It fails beforehand when the
// limit of threads does not allow them.
func (s Stack) Run(ctx context.Context) (measurement.Result, error) {
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if s.Unit == Thread {
		most, err := threadLimit()
		if err != nil {
			return nil, err
		}
		if s.Units > most.threads {
			return nil, fmt.Errorf("%d threads: %s leaves room for %d", s.Units, most.source, most.threads)
		}
		defer allowThreads(s.Units)()
	}
	l, err := newLot(s.Unit)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	before, err := readMemory()
	if err != nil {
		return nil, err
	}
	l.park(s.Units)
	after, err := readMemory()
	if err := errors.Join(err, interrupted(ctx)); err != nil {
		return nil, err
	}
	n := float64(s.Units)
	return measurement.Result{
		"resident_bytes":     (after.resident - before.resident) / n,
		"virtual_bytes":      (after.virtual - before.virtual) / n,
		"kernel_stack_bytes": (after.kernelStacks - before.kernelStacks) / n,
		"units":              n,
	}, nil
}
