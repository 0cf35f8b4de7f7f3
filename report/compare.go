package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// control says how well the A/A control agrees with the base, and in which figures.
func (p *page) control() {
	found := p.Primary(rundir.RoleControl)
	switch {
	case len(found) > 0:
		p.Section("A/A control")
		for _, c := range found {
			said := answer.Control(p.Result, c).In(texts.English)
			if !p.Identified(c) {
				said = comparisonUnknown(p.State(c.Metric, c.Variant, c.Base))
			}
			p.Line("%s against itself (%s), %s: %s: %s", c.Base, c.Variant, c.Metric, figure.Change(c.Ratio), said)
		}
	case p.Run.Plan.Control != "":
		p.Section("A/A control")
		p.Line("%s was not measured in enough trials to compare it", p.Run.Plan.Control)
	case len(p.Run.Comparisons) > 0:
		p.Section("no A/A control")
		p.Line("nothing here shows that the run finds no difference where there is none (design.control)")
	}
	if p.ControlDiffers() {
		p.Line("%s", judged.Remedy(checks.FlagControlDiffers))
	}
}

// comparisonUnknown says why nothing can be said of a comparison.
func comparisonUnknown(v rundir.Validity) string {
	return "?: cannot be relied on: " + judged.Because(v).In(texts.English) + judged.Remedied(v)
}

// remedyFor says what would settle a comparison.
func (p *page) remedyFor(c rundir.Comparison) string {
	switch {
	case c.Ratio.Low != nil || c.Ratio.High != nil:
		if c.FurtherRounds == nil {
			return ""
		}
		return figure.Plural(*c.FurtherRounds, "further round") + " would settle it, if the spread stays as it is (design.rounds)"
	case c.Rounds < 2:
		return figure.Plural(c.Rounds, "round") + ": too few for any interval (design.rounds)"
	case c.Ratio.Interval == rundir.ByHodgesLehmann:
		return "signed ranks bound a ratio of quantiles from 6 rounds on (design.rounds)"
	}
	return "no interval is claimed for this ratio"
}

// comparisons writes all comparisons, a table for each role and base, in which
// each metric is a group: the base, then the variants with their change.
func (p *page) comparisons() {
	type family struct{ role, base string }
	var families []family
	of := map[family][]rundir.Comparison{}
	for _, c := range p.Run.Comparisons {
		f := family{c.Role, c.Base}
		switch c.Role {
		case rundir.RoleControl:
			f.role = "" // next to what it is the control of
		case rundir.RoleStep, rundir.RolePair:
			f.base = "" // each has its own
		case rundir.RoleLeftOut:
			f = family{role: c.Role}
		}
		if of[f] == nil {
			families = append(families, f)
		}
		of[f] = append(of[f], c)
	}
	for _, f := range families {
		title := "comparison with " + f.base
		switch f.role {
		case rundir.RoleStep:
			title = "comparison of each step with the one before"
		case rundir.RolePair:
			title = "comparison of the other pairs"
		case rundir.RoleLeftOut:
			title = "comparison of the whole ladder with the ladder without one step"
		}
		list := of[f]
		p.Section(title + ", " + rounds(list))
		p.Table(p.changes(list, f.base))
	}
}

// rounds says how many rounds comparisons have, and what intervals.
func rounds(list []rundir.Comparison) string {
	fewest, most, confidence := list[0].Rounds, list[0].Rounds, 0.
	for _, c := range list {
		fewest, most = min(fewest, c.Rounds), max(most, c.Rounds)
		confidence = max(confidence, c.Ratio.Confidence)
	}
	text := figure.Plural(most, "round")
	if fewest < most {
		text = fmt.Sprintf("%d to %s", fewest, text)
	}
	if confidence > 0 {
		text += ", " + figure.Digits(100*confidence) + "% intervals"
	}
	return text
}

// changes is the table of comparisons. Base is the variant that all are compared with. If
// it is empty, each row has its own. The base's figure is in each row: that of its rounds.
func (p *page) changes(list []rundir.Comparison, base string) layout.Table {
	var metrics []string
	for _, c := range list {
		if !slices.Contains(metrics, c.Metric) {
			if c.Primary {
				metrics = slices.Insert(metrics, 0, c.Metric)
			} else {
				metrics = append(metrics, c.Metric)
			}
		}
	}
	p1 := "p"
	for _, method := range adjustments(list) {
		p1 += " " + p.Footnote(adjustment(method))
	}
	t := layout.Table{Head: []string{"", cmp.Or(base, "base"), "variant", "change", p1, "verdict", "MDE " + p.Footnote(detectable)}, Left: []int{3, 5}}
	for _, m := range metrics {
		title := m
		if strings.HasPrefix(m, "service.") {
			title += " " + p.Footnote(serviceOnly)
		}
		t.Add(title)
		for _, c := range list {
			if c.Metric == m {
				t.Add(p.changeRow(c, base)...)
			}
		}
	}
	return t
}

const detectable = "minimum detectable effect: the smallest change that this number of rounds with this spread finds in four comparisons of five"

// adjustments lists the ways in which p-values were adjusted.
func adjustments(list []rundir.Comparison) (methods []string) {
	for _, c := range list {
		if c.AdjustedP != nil && !slices.Contains(methods, c.Adjustment) {
			methods = append(methods, c.Adjustment)
		}
	}
	return methods
}

func adjustment(method string) string {
	name := method
	switch strings.ToLower(method) {
	case "":
		name = "its family"
	case "holm":
		name = "Holm's method"
	}
	return "adjusted by " + name + ", since several comparisons are made: each p is that of the whole family of comparisons in this metric"
}

func (p *page) changeRow(c rundir.Comparison, base string) []string {
	name := "  " + c.Variant
	if base == "" {
		name += " / " + c.Base
	}
	prob := figure.Unknown
	if v, _ := judged.PValue(c); v != nil {
		prob = figure.Probability(*v)
	}
	verdict := c.Verdict
	if !p.Identified(c) {
		verdict = "?"
	}
	if verdict == "" {
		verdict = rundir.Inconclusive
	}
	switch {
	case verdict == rundir.Inconclusive && c.Role == rundir.RoleControl && (c.Ratio.Low != nil || c.Ratio.High != nil):
		verdict = "none found" // as it must be
	case verdict == rundir.Inconclusive:
		if r := p.remedyFor(c); r != "" {
			verdict += " " + p.Footnote(r)
		}
	}
	if c.SignFlipP != nil && *c.SignFlipP > 0.05 && (verdict == rundir.Better || verdict == rundir.Worse) {
		verdict += " " + p.Footnote("the exact sign-flip test, which assumes no distribution, gives p "+figure.Probability(*c.SignFlipP)+" here")
	}
	effect := figure.Unknown
	if c.Detectable != nil {
		effect = "±" + figure.Margin(*c.Detectable)
	} else {
		p.Footnote(figure.Unknown + " for p or MDE: too few rounds to tell")
	}
	over, under := p.Paired(c)
	if slices.ContainsFunc(c.Ratio.Values, func(v float64) bool { return v == 0 || v == math.MaxFloat64 }) {
		name += " " + p.Footnote("figures of all trials: in a lost round nothing was measured, but it counts in the change")
	}
	return []string{name, p.noted(c.Base, c.Metric, under), p.noted(c.Variant, c.Metric, over), p.shown(c), prob, verdict, effect}
}

// shown writes a comparison's change. ~ means that no difference is shown, and = that the
// difference is shown to be irrelevant.
func (p *page) shown(c rundir.Comparison) string {
	r := c.Ratio
	if !p.Identified(c) {
		return "? " + p.Footnote(comparisonUnknown(p.State(c.Metric, c.Variant, c.Base)))
	}
	switch c.Verdict {
	case rundir.Equivalent:
		text := "= within ±" + figure.Margin(p.Run.Plan.Margin)
		e := c.Equivalence
		if e == nil { // the interval that showed it is not known here: this is the ratio's own
			return text + " " + figure.Spread(figure.Less(r.Low), figure.Less(r.High), 1)
		}
		return text + " " + figure.Spread(figure.Less(e.Low), figure.Less(e.High), 1) + " " +
			p.Footnote("the two differ by less than the margin (design.margin): the "+figure.Digits(100*e.Confidence)+"% interval shown lies within it")
	case rundir.Inconclusive, "":
		if r.Estimate == nil || !figure.Bounded(r) && len(r.Values) < 2 {
			return "~ (no interval)"
		}
		if !figure.Bounded(r) {
			return "~ " + figure.Change(r) + " " + p.Footnote(answer.Needs(c).In(texts.English)+": without one, the range of the rounds is shown (design.rounds)")
		}
		text, ends, _ := strings.Cut(figure.Change(r), " (")
		if strings.HasSuffix(text, "%") {
			ends = strings.TrimSuffix(ends, ")") + "%)"
		}
		return "~ (" + ends
	}
	return figure.Change(r)
}

// excludedRounds shows both figures where rounds were left out for noise.
func (p *page) excludedRounds() {
	var out []int
	for _, e := range p.Run.Trials {
		if e.Excluded && !slices.Contains(out, e.Round) {
			out = append(out, e.Round)
		}
	}
	t := layout.Table{Head: []string{"", "metric", "without them", "with all rounds"}, Left: []int{1, 2, 3}}
	for _, c := range p.Run.Comparisons {
		if c.AllRounds != nil {
			t.Add(c.Variant+" / "+c.Base, c.Metric, figure.Change(c.Ratio), figure.Change(*c.AllRounds))
		}
	}
	if len(out) == 0 && len(t.Rows) == 0 {
		return
	}
	slices.Sort(out)
	p.Section(fmt.Sprintf("%s left out, because the machine disturbed them and others were measured in their place: %s", figure.Plural(len(out), "round"), units.FormatCPUs(out)))
	p.Table(t)
}
