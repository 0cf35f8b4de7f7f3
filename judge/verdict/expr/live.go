package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dyno/results/rundir"
)

// CheckAbort does for a threshold that is to end a run what CheckThreshold does. Its figures must be known while a load runs.
func (checks) CheckAbort(text string, variants, steps []string) error {
	known := func(string) (float64, bool) { return 1, true }
	for _, variant := range variants {
		if _, err := Breaks(text, variant, Names{Variants: variants, Steps: steps}, known); err != nil {
			return err
		}
	}
	return nil
}

// Breaks tells whether the figures of a variant break a threshold while its load runs: as they are measured, and not if
// one of them is not known yet. The error names a figure that never is, or is that of Compile.
func Breaks(text, variant string, names Names, figure func(metric string) (value float64, known bool)) (bool, error) {
	e, err := Compile(text, ForThreshold, names)
	if err != nil {
		return false, err
	}
	l := &liveFigures{variant: variant, figure: figure}
	r := e.holds(&evaluation{Evidence: l, variant: variant})
	if l.unknown != "" {
		return false, fmt.Errorf("%s is not known while a load runs; throughput, errors.ratio, errors.total, and response and service with their summaries are, of all requests to the variant that is loaded", l.unknown)
	}
	return r.is == no, nil
}

// liveFigures are the figures of one variant, whose load runs. Nothing asks for what evidence there is beyond them.
type liveFigures struct {
	Evidence
	variant string
	figure  func(metric string) (float64, bool)
	unknown string // what they have no figure of
}

var errNotYet = errors.New("not known yet")

func (l *liveFigures) Value(variant, metric string) (Quantity, error) {
	tag, _, _ := strings.Cut(metric, ".")
	_, step := rundir.SplitStep(metric)
	isLive := slices.Contains([]string{rundir.MetricThroughput, rundir.MetricErrorRatio, rundir.MetricErrorTotal}, metric) ||
		tag == rundir.TagResponse || tag == rundir.TagService
	if variant != l.variant || step != "" || !isLive {
		return l.refuse(metric)
	}
	v, known := l.figure(metric)
	if !known {
		return Quantity{}, errNotYet
	}
	return exactly(v), nil
}

func (l *liveFigures) Ratio(_, _, metric string) (Quantity, error) {
	return l.refuse("a ratio of " + metric)
}

func (l *liveFigures) Slope(_, gauge string) (Quantity, error) {
	return l.refuse("the slope of " + gauge)
}

func (l *liveFigures) Spread(_, metric string) (Quantity, error) {
	return l.refuse("the spread of " + metric)
}

func (l *liveFigures) refuse(what string) (Quantity, error) {
	l.unknown = what
	return Quantity{}, errNotYet
}
