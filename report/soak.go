package report

import "dyno/results/rundir"

// trends writes how the target's gauges grew in each trial of a soak.
func (p *page) trends() {
	if len(p.run.Trends) == 0 {
		return
	}
	p.section("trends, relative to the level at the window's begin")
	t := table{
		head:  []string{"", "trial", "per hour", "per 30 min", "in the window " + p.footnote("the slope over the whole window; its interval is the slope's"), "p " + p.footnote("Mann and Kendall's, of there being no trend"), ""},
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
		t.add("  "+x.Metric, whole(int64(x.Trial)), over(x.Slope, 3600), over(x.Slope, 1800), grown, maybe(x.P, probability), detail)
	}
	p.table(t)
}

// over writes a slope per second as the growth in so many seconds.
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
