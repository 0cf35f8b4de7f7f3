// Package profile tells where a program's time and memory go, by function and by group
// of functions.
//
// Profiles are in pprof's format. They come from three places: a Go program's own net/http/pprof
// (Source), the kernel's samples of any program (observe/profile/sample), and waits
// (observe/profile/offcpu). Table adds a profile up:
//
//	costs, err := profile.Table(p, "cpu") // in nanoseconds, of the whole profile
//
// A Function is the same in two builds if it has the same name, whatever its address. An inlined
// function counts under its own name where the profile has that name. Go's own profiles have it, and so
// do profiles of Go programs by observe/profile/sample. In profiles of C, C++ and Rust, inlined code
// counts for its caller.
//
// Calls divides a function's cost by the nearest caller in the target's own code. In Go that is the
// main module. The module's path is recorded with the profile, so that explaining reads the run folder
// alone.
//
// Profiling slows a program down; observe/profile/sample and observe/profile/offcpu say
// by how much. Profiles are therefore taken in trials of their own.
package profile

import (
	"errors"
	"fmt"

	pprof "github.com/google/pprof/profile"
)

// Merge adds up profiles of one kind, such as several trials'. The requests that they are divided by
// must be added up too.
func Merge(profiles []*pprof.Profile) (*pprof.Profile, error) {
	if len(profiles) == 0 {
		return nil, errors.New("merge profiles: there are none")
	}
	p, err := pprof.Merge(profiles)
	if err != nil {
		return nil, fmt.Errorf("merge profiles: %w", err)
	}
	return p, nil
}
