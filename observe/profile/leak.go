package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// A Stack is a set of goroutines at the same place.
type Stack struct {
	Functions     []string // the leaf first, as name:line
	Before, After int64    // how many goroutines
}

// More returns how many have been added.
func (s Stack) More() int64 { return s.After - s.Before }

// Leftover compares two goroutine profiles of a program, one from before the load and one
// from after it. It returns the stacks with more goroutines after than before, the
// largest number first. Goroutines that answer the request for the profile are left out.
func Leftover(before, after *pprof.Profile) ([]Stack, error) {
	stacks := map[string]*Stack{}
	for i, p := range []*pprof.Profile{before, after} {
		value := slices.IndexFunc(p.SampleType, func(t *pprof.ValueType) bool { return t.Type == "goroutine" })
		if value < 0 {
			return nil, fmt.Errorf("leftover: %s is no goroutine profile", [...]string{"before", "after"}[i])
		}
		for _, s := range p.Sample {
			if value >= len(s.Value) {
				continue
			}
			functions := places(s)
			if slices.ContainsFunc(functions, answersProfile) {
				continue
			}
			key := strings.Join(functions, "\n")
			if stacks[key] == nil {
				stacks[key] = &Stack{Functions: functions}
			}
			if i == 0 {
				stacks[key].Before += s.Value[value]
			} else {
				stacks[key].After += s.Value[value]
			}
		}
	}
	var left []Stack
	for _, s := range stacks {
		if s.More() > 0 {
			left = append(left, *s)
		}
	}
	slices.SortFunc(left, func(a, b Stack) int {
		return cmp.Or(cmp.Compare(b.More(), a.More()), slices.Compare(a.Functions, b.Functions))
	})
	return left, nil
}

func answersProfile(place string) bool {
	return strings.HasPrefix(place, "runtime/pprof.") && strings.Contains(place, "writeGoroutine")
}

func places(s *pprof.Sample) (all []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			all = append(all, fmt.Sprintf("%s:%d", functionOf(l, line).Name, line.Line))
		}
	}
	return all
}
