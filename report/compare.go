package report

import (
	"fmt"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/results/rundir"
)

// control says how well the A/A control agrees with the base, and in which figures.
func (p *page) control() {
	found := p.primary(rundir.RoleControl)
	switch {
	case len(found) > 0:
		p.section("A/A control")
		for _, c := range found {
			said := p.controlLine(c).In(texts.English)
			if !p.identified(c) {
				said = comparisonUnknown(p.state(c.Metric, c.Variant, c.Base))
			}
			p.line("%s against itself (%s), %s: %s: %s", c.Base, c.Variant, c.Metric, change(c.Ratio), said)
		}
	case p.run.Plan.Control != "":
		p.section("A/A control")
		p.line("%s was not measured in enough trials to compare it", p.run.Plan.Control)
	case len(p.run.Comparisons) > 0:
		p.section("no A/A control")
		p.line("nothing here shows that the run finds no difference where there is none (design.control)")
	}
	if p.controlDiffers() {
		p.line("%s", remedy(controlDiffers))
	}
}

// identified tells whether anything can be said of a comparison.
func (p *page) identified(c rundir.Comparison) bool {
	return c.Verdict != rundir.Invalid && p.state(c.Metric, c.Variant, c.Base).State != rundir.StateNotIdentified
}

// comparisonUnknown says why nothing can be said of a comparison.
func comparisonUnknown(v rundir.Validity) string {
	return "?: cannot be relied on: " + because(v).In(texts.English) + remedied(v)
}

// remedied returns the remedy for a figure: that of the first of its causes that has one.
func remedied(v rundir.Validity) string {
	for _, kind := range v.Causes {
		if r := remedy(kind); r != "" {
			return "; " + r
		}
	}
	return ""
}

// controlDiffers tells whether the run has the flag of a control that differs.
func (p *page) controlDiffers() bool {
	return slices.ContainsFunc(p.run.Flags, func(f rundir.Flag) bool { return f.Kind == controlDiffers })
}

// pValue is the p that decides: within its family where there is one.
func pValue(c rundir.Comparison) (p *float64, adjusted bool) {
	if c.AdjustedP != nil {
		return c.AdjustedP, true
	}
	return c.P, false
}

// remedyFor says what would settle a comparison.
func (p *page) remedyFor(c rundir.Comparison) string {
	switch {
	case c.Ratio.Low != nil || c.Ratio.High != nil:
		if c.FurtherRounds == nil {
			return ""
		}
		return plural(*c.FurtherRounds, "further round") + " would settle it, if the spread stays as it is (design.rounds)"
	case c.Rounds < 2:
		return plural(c.Rounds, "round") + ": too few for any interval (design.rounds)"
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
	for _, c := range p.run.Comparisons {
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
		p.section(title + ", " + rounds(list))
		p.table(p.changes(list, f.base))
	}
}

// rounds says how many rounds comparisons have, and what intervals.
func rounds(list []rundir.Comparison) string {
	fewest, most, confidence := list[0].Rounds, list[0].Rounds, 0.
	for _, c := range list {
		fewest, most = min(fewest, c.Rounds), max(most, c.Rounds)
		confidence = max(confidence, c.Ratio.Confidence)
	}
	text := plural(most, "round")
	if fewest < most {
		text = fmt.Sprintf("%d to %s", fewest, text)
	}
	if confidence > 0 {
		text += ", " + digits(100*confidence) + "% intervals"
	}
	return text
}

// changes is the table of comparisons. Base is the variant that all are compared with. If
// it is empty, each row has its own.
func (p *page) changes(list []rundir.Comparison, base string) table {
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
		p1 += " " + p.footnote(adjustment(method))
	}
	t := table{head: []string{"", "", "change", p1, "verdict", "MDE " + p.footnote(detectable)}, left: []int{2, 4}}
	for _, m := range metrics {
		title := m
		if strings.HasPrefix(m, "service.") {
			title += " " + p.footnote(serviceOnly)
		}
		t.add(title)
		if base != "" {
			t.add("  "+base, p.cell(base, m))
		}
		for _, c := range list {
			if c.Metric == m {
				t.add(p.changeRow(c, base)...)
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
	prob := unknown
	if v, _ := pValue(c); v != nil {
		prob = probability(*v)
	}
	verdict := c.Verdict
	if !p.identified(c) {
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
			verdict += " " + p.footnote(r)
		}
	}
	if c.SignFlipP != nil && *c.SignFlipP > 0.05 && (verdict == rundir.Better || verdict == rundir.Worse) {
		verdict += " " + p.footnote("the exact sign-flip test, which assumes no distribution, gives p "+probability(*c.SignFlipP)+" here")
	}
	effect := unknown
	if c.Detectable != nil {
		effect = "±" + margin(*c.Detectable)
	} else {
		p.footnote(unknown + " for p or MDE: too few rounds to tell")
	}
	return []string{name, p.cell(c.Variant, c.Metric), p.shown(c), prob, verdict, effect}
}

// shown writes a comparison's change, with ~ where no difference is shown, and = where it
// is shown that there is no relevant difference.
func (p *page) shown(c rundir.Comparison) string {
	r := c.Ratio
	if !p.identified(c) {
		return "? " + p.footnote(comparisonUnknown(p.state(c.Metric, c.Variant, c.Base)))
	}
	switch c.Verdict {
	case rundir.Equivalent:
		text := "= within ±" + margin(p.run.Plan.Margin)
		e := c.Equivalence
		if e == nil { // the interval that showed it is not known here: this is the ratio's own
			return text + " " + spread(less(r.Low), less(r.High), 1)
		}
		return text + " " + spread(less(e.Low), less(e.High), 1) + " " +
			p.footnote("the two differ by less than the margin (design.margin): the "+digits(100*e.Confidence)+"% interval shown lies within it")
	case rundir.Inconclusive, "":
		if r.Estimate == nil || !bounded(r) && len(r.Values) < 2 {
			return "~ (no interval)"
		}
		if !bounded(r) {
			return "~ " + change(r) + " " + p.footnote(needs(c).In(texts.English)+": without one, the range of the rounds is shown (design.rounds)")
		}
		text, ends, _ := strings.Cut(change(r), " (")
		if strings.HasSuffix(text, "%") {
			ends = strings.TrimSuffix(ends, ")") + "%)"
		}
		return "~ (" + ends
	}
	return change(r)
}

// digits writes a number with three significant digits at most.
func digits(v float64) string { return fmt.Sprintf("%.3g", v) }

// excludedRounds shows both figures where rounds were left out for noise.
func (p *page) excludedRounds() {
	var out []int
	for _, e := range p.run.Trials {
		if e.Excluded && !slices.Contains(out, e.Round) {
			out = append(out, e.Round)
		}
	}
	t := table{head: []string{"", "metric", "without them", "with all rounds"}, left: []int{1, 2, 3}}
	for _, c := range p.run.Comparisons {
		if c.AllRounds != nil {
			t.add(c.Variant+" / "+c.Base, c.Metric, change(c.Ratio), change(*c.AllRounds))
		}
	}
	if len(out) == 0 && len(t.rows) == 0 {
		return
	}
	slices.Sort(out)
	p.section(fmt.Sprintf("%s left out, because the machine disturbed them and others were measured in their place: %s", plural(len(out), "round"), units.FormatCPUs(out)))
	p.table(t)
}
