package scenario

import (
	"errors"
	"fmt"
)

// maxFaults bounds how many faults of a Spec are reported.
const maxFaults = 100

// A Fault is one thing wrong with a Spec.
type Fault struct {
	Path    string // such as steps[2].body
	Offset  int    // in bytes from 0, in that text; -1: of the text as a whole
	Problem string
	Hint    string // what would be right; may be empty
}

func (f *Fault) Error() string {
	text := f.Path + ": "
	if f.Offset >= 0 {
		text += fmt.Sprintf("at offset %d: ", f.Offset)
	}
	text += f.Problem
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	return text
}

// faults collects what is wrong.
type faults struct {
	list    []error
	omitted int
}

func (f *faults) add(path string, offset int, problem, hint string) {
	if len(f.list) == maxFaults {
		f.omitted++
		return
	}
	f.list = append(f.list, &Fault{Path: path, Offset: offset, Problem: problem, Hint: hint})
}

func (f *faults) err() error {
	if f.omitted > 0 {
		return errors.Join(append(f.list, fmt.Errorf("and %d more", f.omitted))...)
	}
	return errors.Join(f.list...)
}
