package judged

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// HasNoGoodAnswers tells whether a flag says that the target answered, but nothing well.
func HasNoGoodAnswers(f rundir.Flag) bool {
	return f.Detail != nil && f.Detail.Kind == "found.no_good_answers"
}

// Remedied returns the remedy for a figure: that of the first of its causes that has one.
func Remedied(v rundir.Validity) string {
	for _, kind := range v.Causes {
		if r := Remedy(kind); r != "" {
			return "; " + r
		}
	}
	return ""
}

// A FlagGroup is the flags of a kind, of one trial or of several.
type FlagGroup struct {
	First  rundir.Flag
	Trials []string
}

// Detail describes the first of the group, and names its trial if there are others.
func (g *FlagGroup) Detail() string {
	if len(g.Trials) > 1 {
		return "trial " + g.Trials[0] + ": " + g.First.Detail.English()
	}
	return g.First.Detail.English()
}

// FlagGroups groups flags by kind, the most serious first. Flags of the whole run stay apart.
// Flags of different targets that did not do what was asked stay apart, too.
func (r *Result) FlagGroups() []*FlagGroup {
	var groups []*FlagGroup
	for _, f := range r.Run.Flags {
		i := slices.IndexFunc(groups, func(g *FlagGroup) bool {
			return g.First.Kind == f.Kind && g.First.Disturbs == f.Disturbs && f.Trial != 0 && g.First.Trial != 0 && (g.First.Variant == f.Variant || !f.Breaks)
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &FlagGroup{First: f})
		}
		if f.Trial != 0 {
			groups[i].Trials = append(groups[i].Trials, strconv.Itoa(f.Trial))
		}
	}
	slices.SortStableFunc(groups, func(a, b *FlagGroup) int { return cmp.Compare(rank(a.First), rank(b.First)) })
	return groups
}

// Severity says how serious a flag is.
func Severity(f rundir.Flag) string {
	switch {
	case f.Breaks:
		return "broken"
	case f.Disturbs:
		return "disturbed"
	}
	return "warning"
}

// rank orders flags. The flag of a control that differs comes first.
func rank(f rundir.Flag) int {
	switch {
	case f.Kind == checks.FlagControlDiffers:
		return 0
	case f.Breaks:
		return 1
	case f.Disturbs:
		return 2
	}
	return 3
}

// Where names the trials of a flag, the first ones when there are many.
func Where(first rundir.Flag, trials []string) string {
	switch {
	case len(trials) == 0:
		return "run"
	case len(trials) == 1:
		return "trial " + trials[0] + " (" + first.Variant + ")"
	case len(trials) > 6:
		return fmt.Sprintf("%d trials: %s …", len(trials), strings.Join(trials[:6], " "))
	}
	return "trials " + strings.Join(trials, " ")
}

// Remedy says how to help against a flag, by its kind in run.json.
func Remedy(kind string) string {
	if r := checks.Of(kind).Remedy; r != "" {
		return texts.Say(texts.English, r, nil)
	}
	return ""
}
