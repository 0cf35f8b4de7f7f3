package feed

import (
	"errors"
	"fmt"
)

// maxFaults is how many faults of a file are reported; reading ends with the last.
const maxFaults = 20

// A Fault is one thing wrong with a file.
type Fault struct {
	File    string
	Line    int // from 1; 0: of the file as a whole
	Column  int // from 1, in characters
	Problem string
	Hint    string // what would be right; may be empty
}

func (f *Fault) Error() string {
	at := f.File + ": "
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d: ", f.File, f.Line, f.Column)
	}
	if f.Hint == "" {
		return at + f.Problem
	}
	return at + f.Problem + "; " + f.Hint
}

// errFaults ends a list of faults that is not complete.
var errFaults = errors.New("the rest of the file was not checked")
