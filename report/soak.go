package report

import (
	"dyno/internal/units"
	"dyno/results/rundir"
)

// trends writes how the target's gauges grew in each trial of a soak.
func (p *page) trends() {
	if len(p.run.Trends) == 0 {
		return
	}
	p.section("trends, relative to the level at the window's begin")
	shortest := mostSpan
	for _, x := range p.run.Trends {
		shortest = min(shortest, p.measuredSpan(x.Variant))
	}
	beyond := ""
	if shortest < mostSpan {
		beyond = " " + p.footnote("extrapolated: a window of "+units.FormatSeconds(shortest)+" does not tell how it goes on")
	}
	t := table{
		head:  []string{"", "trial", "per hour" + beyond, "per 30 min" + beyond, "in the window " + p.footnote("the slope over the whole window; its interval is the slope's"), "p " + p.footnote("Mann and Kendall's, of there being no trend"), ""},
		left:  []int{2, 3, 6},
		prose: true,
	}
	variant := ""
	for i, x := range p.run.Trends {
		if i == 0 || x.Variant != variant {
			variant = x.Variant
			t.add(variant)
		}
		grown := unknown
		if x.Growth != nil {
			grown = growth(*x.Growth, nil, nil)
		}
		detail := x.Detail
		if detail == "" {
			detail = "of " + plural(x.Values, "value")
		}
		t.add("  "+x.Metric, whole(int64(x.Trial)), over(x.Slope, 3600), over(x.Slope, mostSpan), grown, maybe(x.P, probability), detail)
	}
	p.table(t)
}

// mostSpan is the time of which reports say what grows in it.
const mostSpan = 1800.0

// measuredSpan is in how many seconds a variant's gauges are said to grow: no more than were measured,
// as what comes later may be another slope.
func (p *page) measuredSpan(variant string) float64 {
	for _, v := range p.run.Plan.Variants {
		if v.Name == variant && v.WindowSeconds > 0 {
			return min(mostSpan, v.WindowSeconds)
		}
	}
	return mostSpan
}

// grown writes a variant's slope as the growth in what was measured of it.
func (p *page) grown(variant string, slope rundir.Estimate) string {
	if slope.Estimate == nil {
		return unknown
	}
	span := p.measuredSpan(variant)
	return over(slope, span) + " in " + units.FormatSeconds(span)
}

// over writes a slope per second as the growth in a number of seconds.
func over(e rundir.Estimate, seconds float64) string {
	if e.Estimate == nil {
		return unknown
	}
	times := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		w := *v * seconds
		return &w
	}
	return growth(*e.Estimate*seconds, times(e.Low), times(e.High))
}
