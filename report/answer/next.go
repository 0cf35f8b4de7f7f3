package answer

import (
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// next is the one step that helps most. It is chosen in this order: a figure that was
// asked for and is not identified, the target, a comparison that is not settled, bounds.
func next(j *judged.Result) *texts.Message {
	remedied := func(kinds []string) *texts.Message {
		for _, kind := range kinds {
			if r := checks.Of(kind).Remedy; r != "" && j.Remediable(r) {
				return new(j.Message(r))
			}
		}
		return nil
	}
	if !j.Run.Complete && j.Folder.Dir != "" && j.Run.Plan.Source != "" {
		return new(texts.New("next.resume", "folder", j.Folder.Dir))
	}
	switch {
	case j.Run.NoRoom == nil:
	case verdict.MostlyDisturbed(j.Run) != nil:
		return new(texts.New("next.quiet"))
	case !j.ControlDiffers():
		return new(texts.New("next.wide"))
	}
	bad := askedBadly(j)
	for _, v := range bad {
		if l := remedied(v.Causes); v.State == rundir.StateNotIdentified && l != nil {
			return l
		}
	}
	for _, f := range j.Run.Flags {
		if judged.HasNoGoodAnswers(f) {
			return new(j.Message("remedy.no_good_answers"))
		}
		if f.Breaks || f.Kind == "no_complete_trial" {
			if l := remedied([]string{f.Kind}); l != nil {
				return l
			}
		}
	}
	if j.ControlDiffers() {
		return remedied([]string{checks.FlagControlDiffers})
	}
	for _, c := range j.Primary("") {
		if c.Verdict == rundir.Inconclusive && c.FurtherRounds != nil {
			return new(counted("next.rounds", *c.FurtherRounds, "variant", c.Variant, "base", c.Base))
		}
	}
	for _, c := range j.Primary("") {
		if c.Ratio.Low == nil && c.Ratio.High == nil && c.Ratio.Estimate != nil {
			return new(texts.New("next.more").With("needs", Needs(c)))
		}
	}
	if slices.ContainsFunc(j.Run.Thresholds, func(t rundir.Threshold) bool { return t.Outcome == rundir.Undecided }) {
		return new(texts.New("next.threshold"))
	}
	for _, v := range bad {
		if l := remedied(v.Causes); l != nil {
			return l
		}
	}
	// Without a mark on a figure, there is no use in a quieter machine. When agents begin, no mark says.
	marked := slices.ContainsFunc(j.Run.Validity, func(v rundir.Validity) bool {
		return v.State != rundir.StateOK && (v.Figure == rundir.MetricThroughput || strings.HasPrefix(v.Figure, j.Clock(v.Variant)+"."))
	})
	for _, f := range j.Run.Flags {
		if j.IsQuick() && (marked || f.About == rundir.AboutTarget || f.Kind == checks.FlagStartSkew) || !j.IsQuick() && f.Disturbs {
			if l := remedied([]string{f.Kind}); l != nil {
				return l
			}
		}
	}
	return nil
}
