package rpc

import (
	"errors"
	"fmt"
)

// maxFaults is how many faults of a source are reported.
const maxFaults = 20

// joinFaults returns what is wrong with a source: the first faults, and the number of others.
func joinFaults(list []error) error {
	if more := len(list) - maxFaults; more > 0 {
		list = append(list[:maxFaults:maxFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(list...)
}
