package verdict

import (
	"fmt"

	"dyno/judge/verdict/compare"
	"dyno/results/rundir"
)

// Breaking returns the flags of a judged run that blame a target: it could not be
// reached, ended, or answered nothing, or only in part.
func Breaking(run *rundir.Run) []rundir.Flag {
	var found []rundir.Flag
	for _, f := range run.Flags {
		if f.Breaks {
			found = append(found, f)
		}
	}
	return found
}

// leastFailing is the least share of failed requests that is reported even without a threshold on
// failures.
const leastFailing = 0.001

// MostFailing returns the variant of which the largest share of requests failed; nil if it is too
// small to report.
func MostFailing(run *rundir.Run) (most *rundir.Variant) {
	for i := range run.Variants {
		if ratio := run.Variants[i].Known(rundir.MetricErrorRatio); ratio != nil && *ratio >= leastFailing && (most == nil || *ratio > *most.Known(rundir.MetricErrorRatio)) {
			most = &run.Variants[i]
		}
	}
	return most
}

// LostRounds says, for each variant and its base, how many rounds the variant's target
// lost and the base's did not. A target loses a round when it ends by itself, or answers
// nothing.
func LostRounds(run *rundir.Run) []string {
	byTarget := map[string]map[int]bool{} // the rounds lost, by variant
	for _, t := range run.Trials {
		if t.Purpose != "" || t.Replaced || !t.Lost {
			continue
		}
		if byTarget[t.Variant] == nil {
			byTarget[t.Variant] = map[int]bool{}
		}
		byTarget[t.Variant][t.Round] = true
	}
	var found []string
	for _, f := range compare.Families(run.Plan) {
		for _, p := range f {
			n := 0
			for round := range byTarget[p.Variant] {
				if !byTarget[p.Base][round] {
					n++
				}
			}
			if n > 0 && p.Role != rundir.RoleControl {
				found = append(found, fmt.Sprintf("%s answered nothing, or ended, in %s in which %s answered", p.Variant, roundsOf(n), p.Base))
			}
		}
	}
	return found
}

func roundsOf(n int) string {
	if n == 1 {
		return "one round"
	}
	return fmt.Sprintf("%d rounds", n)
}
