package report

import (
	"dyno/internal/units"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
)

// trends writes how the target's gauges grew in each trial of a soak.
func (p *page) trends() {
	if len(p.Run.Trends) == 0 {
		return
	}
	p.Section("trends, relative to the level at the window's begin")
	shortest := judged.MostSpan
	for _, x := range p.Run.Trends {
		shortest = min(shortest, p.MeasuredSpan(x.Variant))
	}
	beyond := ""
	if shortest < judged.MostSpan {
		beyond = " " + p.Footnote("extrapolated: a window of "+units.FormatSeconds(shortest)+" does not tell how it goes on")
	}
	t := layout.Table{
		Head:  []string{"", "trial", "per hour" + beyond, "per 30 min" + beyond, "in the window " + p.Footnote("the slope over the whole window; its interval is the slope's"), "p " + p.Footnote("Mann and Kendall's, of there being no trend"), ""},
		Left:  []int{2, 3, 6},
		Prose: true,
	}
	variant := ""
	for i, x := range p.Run.Trends {
		if i == 0 || x.Variant != variant {
			variant = x.Variant
			t.Add(variant)
		}
		grown := figure.Unknown
		if x.Growth != nil {
			grown = figure.Growth(*x.Growth, nil, nil)
		}
		detail := x.Detail.English()
		if detail == "" {
			detail = "of " + figure.Plural(x.Values, "value")
		}
		t.Add("  "+x.Metric, figure.Whole(int64(x.Trial)), figure.Over(x.Slope, 3600), figure.Over(x.Slope, judged.MostSpan), grown, figure.Maybe(x.P, figure.Probability), detail)
	}
	p.Table(t)
}
