package answer

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/expr"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// failures says which share of the requests succeeded, if many failed, and how many users could not
// log in. Both are before any other figure, which is of the others.
func failures(j *judged.Result) (lines []texts.Message) {
	if v := verdict.MostFailing(j.Run); v != nil {
		pairs := []string{"variant", v.Name, "share", figure.Percent(1 - *v.Known(rundir.MetricErrorRatio)), "failed", figure.Whole(v.Counts.Unanswered()), "of", figure.Whole(v.Counts.Due())}
		if why := mostFrequentFailure(j, v.Name); why != "" {
			lines = append(lines, j.Message("answer.succeeded.why", append(pairs, "why", why)...))
		} else {
			lines = append(lines, j.Message("answer.succeeded", pairs...))
		}
	}
	for _, v := range j.Run.Variants {
		if u := v.Users; u != nil && u.LoggedOut > 0 {
			lines = append(lines, j.Message("answer.logged_out", "variant", v.Name, "n", figure.Whole(u.LoggedOut), "failed", figure.Whole(u.FailedLogins)))
		}
	}
	return lines
}

// mostFrequentFailure is what the most frequent failure of a variant's requests says; empty if that is not known.
func mostFrequentFailure(j *judged.Result, variant string) string {
	counts := map[string]int64{}
	for _, t := range j.Folder.Measured() {
		for text, n := range t.Failures {
			if t.Variant == variant {
				counts[text] += n
			}
		}
	}
	for _, text := range judged.MostFrequent(counts) {
		_, why, _ := strings.Cut(text, ": ")
		return why
	}
	return ""
}

// remarks are the kinds of flags that are findings about the target although they break nothing.
var remarks = []string{checks.FlagUnopened, checks.FlagConflicts, checks.FlagRedirects, checks.FlagDeviations, checks.FlagTeardown}

// broke lists the findings about the target, those that break first, and the thresholds that it
// breaks.
func broke(j *judged.Result) []texts.Message {
	type finding struct {
		first  rundir.Flag
		trials int
	}
	var found []*finding
	for _, f := range j.Run.Flags {
		if !f.Breaks && !slices.Contains(remarks, f.Kind) {
			continue
		}
		i := slices.IndexFunc(found, func(g *finding) bool { return g.first.Kind == f.Kind && g.first.Variant == f.Variant })
		if i < 0 {
			i = len(found)
			found = append(found, &finding{first: f})
		}
		found[i].trials++
		if known(f.Measured) > known(found[i].first.Measured) {
			f.Trial = found[i].first.Trial
			found[i].first = f
		}
	}
	slices.SortStableFunc(found, func(a, b *finding) int {
		switch {
		case a.first.Breaks && !b.first.Breaks:
			return -1
		case b.first.Breaks && !a.first.Breaks:
			return 1
		}
		return -cmp.Compare(a.trials, b.trials)
	})
	var lines []texts.Message
	for _, g := range found {
		kind := "broke." + g.first.Kind
		var ways []texts.Message
		if m := g.first.Detail; m != nil {
			ways = m.Parts["ways"]
		}
		if !texts.Has(kind) || g.first.Kind == checks.FlagDeviations && len(ways) == 0 {
			kind = "broke.other"
		}
		of := 0
		for _, e := range j.Run.Trials {
			if e.Variant == g.first.Variant && !e.Replaced {
				of++
			}
		}
		where := texts.New("where.trials", "n", strconv.Itoa(g.trials), "of", strconv.Itoa(max(of, g.trials)))
		switch {
		case g.first.Trial == 0:
			where = texts.New("where.run")
		case g.trials == 1:
			where = texts.New("where.trial", "trial", strconv.Itoa(g.first.Trial))
		}
		l := j.Message(kind, "variant", cmp.Or(g.first.Variant, j.Title()), "check", g.first.Kind, "measured", measuredAs(g.first))
		if because := g.first.Detail; judged.HasNoGoodAnswers(g.first) {
			l = j.Message("broke.no_good_answers", "variant", l.Values["variant"], "answers", because.Values["answers"])
		}
		lines = append(lines, l.With("ways", ways...).With("where", where))
	}
	for _, t := range j.Run.Thresholds {
		if t.Outcome == rundir.Broken {
			kind := "broke.threshold"
			if t.Variant == "" || j.IsQuick() {
				kind = "broke.threshold.all"
			}
			l := texts.New(kind, "variant", t.Variant, "threshold", t.Text, "measured", j.Measured(t))
			if t.Detail != nil && t.Detail.Kind == expr.BrokenAsMeasured {
				l = texts.New("broke.unsure").With("broken", l).With("why", *t.Detail)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// unsure lists the thresholds that are kept only as measured.
func unsure(j *judged.Result) (lines []texts.Message) {
	for _, t := range j.Run.Thresholds {
		if t.Outcome == rundir.KeptAsMeasured {
			kind := "unsure.threshold"
			if t.Variant == "" || j.IsQuick() {
				kind = "unsure.threshold.all"
			}
			lines = append(lines, texts.New(kind, "variant", t.Variant, "threshold", t.Text).With("why", *t.Detail))
		}
	}
	return lines
}

func known(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// measuredAs writes what a flag's check found, in its unit.
func measuredAs(f rundir.Flag) string {
	if f.Measured == nil {
		return figure.Unknown
	}
	switch f.Unit {
	case rundir.Seconds:
		return figure.Seconds(*f.Measured)
	case rundir.Share:
		return figure.Percent(*f.Measured)
	}
	return figure.Whole(int64(math.Round(*f.Measured)))
}
