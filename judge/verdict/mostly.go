package verdict

import (
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// mostCauses is how many causes of disturbances are named.
const mostCauses = 3

// MostlyDisturbed says how many of the trials behind the figures were disturbed by the machine; nil
// if these are not most of them. It names the causes, the most frequent first. Such a run may be
// valid: the bounds of its figures hold. But measured elsewhere, the figures would be others.
func MostlyDisturbed(run *rundir.Run) *texts.Message {
	all, disturbed := 0, map[int]bool{}
	for _, e := range run.Trials {
		if e.Purpose == "" && !e.Replaced && !e.Excluded {
			all++
			if e.Disturbed {
				disturbed[e.Number] = true
			}
		}
	}
	if 2*len(disturbed) <= all {
		return nil
	}
	byTrial := map[int][]string{} // the causes
	for _, f := range run.Flags {
		if disturbed[f.Trial] && f.Disturbs && checks.DisturbsRound(f.Kind) {
			byTrial[f.Trial] = append(byTrial[f.Trial], causesOf(f)...)
		}
	}
	trials := map[string]int{}
	for _, causes := range byTrial {
		for _, cause := range slices.Compact(slices.Sorted(slices.Values(causes))) {
			trials[cause]++
		}
	}
	var causes []texts.Message
	for i, cause := range checks.MostFirst(trials) {
		if i < mostCauses {
			causes = append(causes, texts.New("disturbance."+cause))
		}
	}
	kind := "answer.disturbed"
	if all == 1 {
		kind += ".one"
	}
	return new(texts.New(kind, "n", strconv.Itoa(len(disturbed)), "of", strconv.Itoa(all)).With("causes", causes...))
}

// causesOf are the kinds for which there are words of what disturbed a trial, as one of its flags says.
func causesOf(f rundir.Flag) []string {
	var causes []string
	if f.Detail != nil {
		for _, c := range f.Detail.Parts["causes"] {
			if cause := c.Values["cause"]; texts.Has("disturbance." + cause) {
				causes = append(causes, cause)
			}
		}
	}
	if len(causes) == 0 {
		causes = []string{f.Kind}
	}
	return causes
}
