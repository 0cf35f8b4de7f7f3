package verdict

import "errors"

// CheckThreshold compiles a threshold of an experiment with these variants, so
// that its faults are known before anything is measured. The faults come joined,
// each an *Error.
func CheckThreshold(text string, variants []string) error {
	_, err := Compile(text, ForThreshold, variants)
	return err
}

// CheckClaim does the same for an expression of a claim.
func CheckClaim(text string, variants []string) error {
	_, err := Compile(text, ForClaim, variants)
	return err
}

// CheckMetric tells whether expressions know a metric of this name, such as
// throughput, response.p99, capacity or program.switch_seconds.
func CheckMetric(name string) error {
	if _, ok := lookup(name); !ok {
		return errors.New(unknownMetric(name))
	}
	return nil
}
