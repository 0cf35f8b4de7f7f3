package pace

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// MaxUsers bounds the users of a Population.
const MaxUsers = 4_000_000

// A Population says how many users a closed loop has over time: its stages are lines of users in place of
// rates. Users are numbered from 0, and user n is present while the line is above n + ½. So a rising line
// adds the next number, and a falling one removes the highest. The number of users never depends on the
// number of workers. It is immutable and may be shared.
type Population struct{ stages []Stage }

// NewPopulation returns the population of the stages, one after the other.
func NewPopulation(stages []Stage) (*Population, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("population: "+format, args...)) }
	if len(stages) == 0 || len(stages) > MaxStages {
		fault("%d stages, want 1 to %d", len(stages), MaxStages)
	}
	p := &Population{stages: stages}
	for i, s := range stages {
		for _, n := range []float64{s.From, s.To} {
			if n != math.Trunc(n) || n < 0 || n > MaxUsers {
				fault("stage %d: %v users, want a whole number from 0 to %d", i+1, n, MaxUsers)
			}
		}
		if s.Duration <= 0 || s.Duration > MaxDuration {
			fault("stage %d: duration %v, want more than 0, and at most %v", i+1, s.Duration, MaxDuration)
		}
	}
	if len(faults) == 0 && p.Most() == 0 {
		fault("there is no user in any stage")
	}
	return p, errors.Join(faults...)
}

// Most returns the largest number of users at once.
func (p *Population) Most() int {
	most := 0.0
	for _, s := range p.stages {
		most = max(most, s.From, s.To)
	}
	return int(most)
}

// First returns how many users are present at the beginning.
func (p *Population) First() int { return int(p.stages[0].From) }

// Forever is the end of a presence that nothing ends.
const Forever = time.Duration(math.MaxInt64)

// Presence returns the first stretch of time that a user is present in and that ends after a time; ok is
// false if there is none. After the last stage, the number of users stays as it is.
func (p *Population) Presence(user int, after time.Duration) (begin, end time.Duration, ok bool) {
	line := float64(user) + 0.5
	present := false
	start := time.Duration(0)
	for _, s := range p.stages {
		crossing := start
		if (s.From > line) != (s.To > line) {
			crossing += time.Duration(float64(s.Duration) * ((line - s.From) / (s.To - s.From)))
		}
		for _, edge := range []struct {
			at    time.Duration
			above bool
		}{{start, s.From > line}, {crossing, s.To > line}} {
			switch {
			case edge.above == present:
			case edge.above:
				present, begin = true, edge.at
			case edge.at > after:
				return begin, edge.at, true
			default:
				present = false
			}
		}
		start += s.Duration
	}
	return begin, Forever, present
}
