package scenario

import (
	"errors"
	"fmt"
	"strings"
)

// maxFaults bounds how many faults of a Spec are reported.
const maxFaults = 100

// A Fault is one thing wrong with a Spec.
type Fault struct {
	Path    string // such as steps[2].body
	Problem string
	Hint    string // what would be right; may be empty
}

func (f *Fault) Error() string {
	text := f.Problem
	if f.Path != "" {
		text = f.Path + ": " + text
	}
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

// add adds a fault at an offset in the text at a path, in bytes from 0; -1: of it as a whole.
func (f *faults) add(path string, offset int, problem, hint string) {
	if len(f.list) == maxFaults {
		f.omitted++
		return
	}
	// Prompts and messages are a part of the text.
	if offset >= 0 && !strings.HasSuffix(path, ".prompt") && !strings.HasSuffix(path, ".messages") {
		problem = fmt.Sprintf("at offset %d: %s", offset, problem)
	}
	f.list = append(f.list, &Fault{path, problem, hint})
}

func (f *faults) err() error {
	if f.omitted > 0 {
		return errors.Join(append(f.list, fmt.Errorf("and %d more", f.omitted))...)
	}
	return errors.Join(f.list...)
}
