package expr

import (
	"errors"
	"math"
	"slices"
	"strings"

	"dyno/results/rundir"
)

// Checks judge the expressions of an experiment, so that faults are known before anything is measured.
var Checks checks

type checks struct{}

// CheckThreshold judges a threshold of an experiment with these variants and the steps of their scenarios.
// The faults come joined, each an *Error.
func (checks) CheckThreshold(text string, variants, steps []string) error {
	_, err := Compile(text, ForThreshold, Names{Variants: variants, Steps: steps})
	return err
}

// CheckProbe does for a threshold of a search for capacity what CheckThreshold does.
func (checks) CheckProbe(text string, variants, steps []string) error {
	_, err := Compile(text, ForProbe, Names{Variants: variants, Steps: steps})
	return err
}

// RequestsNeeded returns how many requests a trial needs for the percentiles of a threshold to be
// known: 1,000 for a p99 of response times. It is 0 if none is about every request, as those of
// single steps are not.
func (checks) RequestsNeeded(text string, variants, steps []string) int {
	e, err := Compile(text, ForThreshold, Names{Variants: variants, Steps: steps})
	if err != nil {
		return 0 // which CheckThreshold says
	}
	needed := 0
	for _, u := range e.uses {
		of, step := rundir.SplitStep(u.metric)
		tag, summary, _ := strings.Cut(of, ".")
		q, ok := rundir.QuantileOf(summary)
		if ok && step == "" && slices.Contains([]string{rundir.TagResponse, rundir.TagService, rundir.TagSendLag}, tag) {
			needed = max(needed, int(math.Ceil(rundir.Beyond/(1-q)-1e-6)))
		}
	}
	return needed
}

// CheckClaim does for a claim's condition what CheckThreshold does.
func (checks) CheckClaim(text string, variants, steps []string) error {
	_, err := Compile(text, ForClaim, Names{Variants: variants, Steps: steps})
	return err
}

// CheckMeasured does for what a claim measures what CheckThreshold does.
func (checks) CheckMeasured(text string, variants, steps []string) error {
	_, err := CompileMeasured(text, Names{Variants: variants, Steps: steps})
	return err
}

// CheckPublished judges a published size by what is measured, if that has no fault.
func (checks) CheckPublished(published, measured string, variants, steps []string) error {
	names := Names{Variants: variants, Steps: steps}
	e, err := CompileMeasured(measured, names)
	if err != nil {
		return nil //nolint:nilerr // CheckMeasured says so
	}
	return e.publish(published, names)
}

// CheckMetric tells whether expressions know a metric of this name, such as
// throughput, response.p99, response.p99{step=login}, capacity or program.switch_seconds.
func (checks) CheckMetric(name string, steps []string) error {
	of, step := rundir.SplitStep(name)
	switch _, ok := rundir.FindMetric(of); {
	case !ok:
		return errors.New(unknownMetric(of))
	case step == "":
		return nil
	case !slices.Contains(steps, step):
		return errors.New(unknownStep(step, steps))
	}
	if _, ok := rundir.FindMetric(name); !ok {
		return errors.New(withoutSteps(of))
	}
	return nil
}
