package answer

import (
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

func comparisons(j *judged.Result) []texts.Message {
	if j.Run.Plan.Ladder != nil {
		return ladderEffects(j)
	}
	var lines []texts.Message
	for _, c := range j.Primary("") {
		lines = append(lines, Comparison(j, c))
	}
	return lines
}

// mostWorse is how many worse figures a sentence names.
const mostWorse = 6

// alsoWorse lists the figures in which a variant is worse, except those that the plan's metric is about. A gain in that
// metric may have its price elsewhere. With several figures, one would be worse by chance too often. Each p-value must
// therefore be as small as their number asks for (Bonferroni).
func alsoWorse(j *judged.Result) (list []texts.Message) {
	further := func(c rundir.Comparison) bool {
		_, step := rundir.SplitStep(c.Metric)
		return !c.Primary && c.Role == "" && step == ""
	}
	looked := map[string]float64{} // by variant
	for _, c := range j.Run.Comparisons {
		if further(c) {
			looked[c.Variant]++
		}
	}
	more := 0
	for _, c := range j.Run.Comparisons {
		p, _ := judged.PValue(c)
		switch {
		case !further(c) || c.Verdict != rundir.Worse || c.Ratio.Estimate == nil || !j.Identified(c):
		case p != nil && *p*looked[c.Variant] > 1-c.Ratio.Confidence && c.Ratio.Confidence > 0:
		case len(list) == mostWorse:
			more++
		default:
			text, _, _ := strings.Cut(figure.Change(c.Ratio), " (")
			list = append(list, texts.New("answer.worse.figure", "metric", c.Metric, "variant", c.Variant, "change", text))
		}
	}
	if more > 0 {
		list = append(list, texts.New("more.lines", "n", figure.Whole(int64(more))))
	}
	return list
}

// mostPairs is how many pairs a sentence names at most.
const mostPairs = 12

// pairs writes, for each metric in which all variants were compared with each other, how many
// pairs differ. It names those that do not. The plan's metric comes first.
func pairs(j *judged.Result) (lines []texts.Message) {
	var metrics []string
	for _, c := range j.Run.Comparisons {
		switch {
		case c.Role != rundir.RolePair || slices.Contains(metrics, c.Metric):
		case c.Primary:
			metrics = slices.Insert(metrics, 0, c.Metric)
		default:
			metrics = append(metrics, c.Metric)
		}
	}
	for _, m := range metrics {
		lines = append(lines, pairsIn(j, m))
	}
	return lines
}

func pairsIn(j *judged.Result, metric string) texts.Message {
	differ, all, confidence := 0, 0, 0.
	others := map[string][]texts.Message{}
	for _, c := range j.Run.Comparisons {
		if c.Metric != metric || c.Role != rundir.RolePair && c.Role != "" {
			continue
		}
		all++
		confidence = max(confidence, c.Ratio.Confidence)
		pair := texts.New("pairs.pair", "variant", c.Variant, "base", c.Base)
		switch {
		case !j.Identified(c):
			others["pairs.unknown"] = append(others["pairs.unknown"], pair)
		case c.Verdict == rundir.Better || c.Verdict == rundir.Worse:
			differ++
		case c.Verdict == rundir.Equivalent:
			others["pairs.equivalent"] = append(others["pairs.equivalent"], pair)
		default:
			if p, _ := judged.PValue(c); p != nil && c.Ratio.Estimate != nil {
				pair = texts.New("pairs.pair.ratio", "variant", c.Variant, "base", c.Base,
					"factor", figure.Bare(*c.Ratio.Estimate), "interval", figure.Factors(c.Ratio), "p", figure.Probability(*p))
			}
			others["pairs.open"] = append(others["pairs.open"], pair)
		}
	}
	var rest []texts.Message
	for _, kind := range []string{"pairs.open", "pairs.equivalent", "pairs.unknown"} {
		list := others[kind]
		if len(list) == 0 {
			continue
		}
		if left := len(list) - mostPairs; left > 0 {
			list = append(list[:mostPairs:mostPairs], texts.New("more.lines", "n", figure.Whole(int64(left))))
		}
		clause := texts.New(kind)
		if kind == "pairs.equivalent" {
			clause = texts.New(kind, "margin", figure.Margin(j.Run.Plan.Margin))
		}
		rest = append(rest, clause.With("list", list...))
	}
	if len(rest) == 0 {
		return texts.New("pairs.all", "metric", metric, "n", figure.Whole(int64(all)), "confidence", figure.Digits(100*confidence))
	}
	return texts.New("pairs.some", "metric", metric, "n", figure.Whole(int64(all)), "differ", figure.Whole(int64(differ)), "confidence", figure.Digits(100*confidence)).
		With("reasons", rest...)
}

func ladderEffects(j *judged.Result) []texts.Message {
	var lines []texts.Message
	steps := j.Run.Plan.Ladder.Steps
	for _, c := range j.Primary("") {
		if len(steps) == 0 || c.Variant != steps[len(steps)-1] {
			continue
		}
		l := Comparison(j, c)
		if clear := c.Verdict == rundir.Better || c.Verdict == rundir.Worse; clear && c.Ratio.Estimate != nil && figure.Bounded(c.Ratio) && c.Ratio.Interval != rundir.ByLostRounds {
			l = ratioLine(j, "answer.ladder", c)
		}
		lines = append(lines, l)
	}
	for _, c := range j.Primary(rundir.RoleStep) {
		if c.Verdict == rundir.Better && c.Ratio.Estimate != nil {
			return append(lines, texts.New("answer.ladder.most", "variant", c.Variant, "factor", figure.Bare(*c.Ratio.Estimate), "interval", figure.Factors(c.Ratio)))
		}
	}
	return lines
}

// ratioLine is a sentence with what is known of a ratio.
func ratioLine(j *judged.Result, kind string, c rundir.Comparison) texts.Message {
	return texts.New(kind, "variant", c.Variant, "base", c.Base, "metric", c.Metric,
		"factor", figure.Bare(*c.Ratio.Estimate), "interval", figure.Factors(c.Ratio), "confidence", figure.Digits(100*c.Ratio.Confidence))
}

// mostChange is the largest change that is written in percent.
const mostChange = 0.5

// Comparison describes a comparison in words.
func Comparison(j *judged.Result, c rundir.Comparison) texts.Message {
	r := c.Ratio
	v := j.State(c.Metric, c.Variant, c.Base)
	switch {
	case c.Verdict == rundir.Invalid || v.State == rundir.StateNotIdentified || r.Estimate == nil:
		return texts.New("answer.none", "variant", c.Variant, "base", c.Base, "metric", c.Metric).With("why", judged.Because(v))
	case r.Interval == rundir.ByLostRounds:
		return texts.New("answer.lost", "variant", c.Variant, "base", c.Base)
	case c.Verdict == rundir.Equivalent:
		return texts.New("answer.equivalent", "variant", c.Variant, "base", c.Base, "metric", c.Metric, "margin", figure.Margin(j.Run.Plan.Margin))
	case c.Verdict != rundir.Better && c.Verdict != rundir.Worse:
		if r.Low == nil && r.High == nil {
			return ratioLine(j, "answer.open.range", c).With("rounds", ofRounds(c)).With("needs", Needs(c))
		}
		return ratioLine(j, "answer.open", c)
	case r.Low == nil && r.High == nil:
		return ratioLine(j, "answer.times.range", c).With("rounds", ofRounds(c)).With("needs", Needs(c))
	case *r.Estimate > 1+mostChange || *r.Estimate < 1/(1+mostChange):
		return ratioLine(j, "answer.times", c)
	}
	text, _, _ := strings.Cut(figure.Change(r), " (")
	l := texts.New("answer.higher", "variant", c.Variant, "base", c.Base, "metric", c.Metric,
		"change", strings.TrimLeft(text, "+−"), "interval", strings.Trim(figure.Spread(figure.Less(r.Low), figure.Less(r.High), figure.Decimals(figure.Less(r.Low), figure.Less(r.High))), "()")+"%",
		"confidence", figure.Digits(100*r.Confidence))
	if *r.Estimate < 1 {
		l.Kind = "answer.lower"
	}
	return l
}

// ofRounds says between which ratios the rounds of a comparison without an interval lie, or how many there are.
func ofRounds(c rundir.Comparison) texts.Message {
	if len(c.Ratio.Values) < 2 {
		return counted("sure.rounds", c.Rounds)
	}
	return texts.New("range.rounds", "interval", figure.Factors(c.Ratio))
}

// fewestRanked is how many rounds signed ranks need for an interval at 95 %: with fewer,
// all on one side may be chance. Student's t needs two.
const fewestRanked = 6

// Needs says how many rounds an interval needs.
func Needs(c rundir.Comparison) texts.Message {
	n := 2
	if c.Ratio.Interval == rundir.ByHodgesLehmann || c.Rounds >= n {
		n = max(fewestRanked, c.Rounds+1)
	}
	return texts.New("needs.rounds", "n", strconv.Itoa(n))
}
