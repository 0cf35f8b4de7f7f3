package verdict

import (
	"errors"
	"slices"

	"dyno/results/rundir"
)

// CheckThreshold compiles a threshold of an experiment with these variants and the
// steps of their scenarios, so that its faults are known before anything is measured.
// The faults come joined, each an *Error.
func CheckThreshold(text string, variants, steps []string) error {
	_, err := Compile(text, ForThreshold, Names{Variants: variants, Steps: steps})
	return err
}

// CheckClaim does the same for an expression of a claim.
func CheckClaim(text string, variants, steps []string) error {
	_, err := Compile(text, ForClaim, Names{Variants: variants, Steps: steps})
	return err
}

// CheckMetric tells whether expressions know a metric of this name, such as
// throughput, response.p99, response.p99{step=login}, capacity or program.switch_seconds.
func CheckMetric(name string, steps []string) error {
	of, step := rundir.SplitStep(name)
	switch _, ok := lookup(of); {
	case !ok:
		return errors.New(unknownMetric(of))
	case step == "":
		return nil
	case !slices.Contains(steps, step):
		return errors.New(unknownStep(step, steps))
	}
	if _, ok := lookup(name); !ok {
		return errors.New(withoutSteps(of))
	}
	return nil
}
