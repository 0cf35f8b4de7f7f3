package rpc

import (
	"errors"
	"fmt"
)

// maxFaults is how many faults of a source are reported.
const maxFaults = 20

// faults collects what is wrong with a source.
type faults struct {
	list    []error
	omitted int
}

func (f *faults) add(fault error) {
	if len(f.list) == maxFaults {
		f.omitted++
		return
	}
	f.list = append(f.list, fault)
}

func (f *faults) err() error {
	if f.omitted > 0 {
		return errors.Join(append(f.list, fmt.Errorf("and %d more", f.omitted))...)
	}
	return errors.Join(f.list...)
}
