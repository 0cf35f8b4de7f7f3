package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/internal/units"
	"dyno/results/rundir"
)

// A unit is how the figures of a metric are written.
type unit struct{ units.Scale }

func times() unit  { return unit{units.Times()} }
func sizes() unit  { return unit{units.Sizes()} }
func counts() unit { return unit{units.Counts()} }
func rates() unit  { return unit{units.Rates()} }
func shares() unit { return unit{units.Shares()} }
func plain() unit  { return unit{units.Numbers()} }

// unitOf is how the figures of a metric are written.
func unitOf(metric string) unit { return unit{rundir.MetricOf(metric).Unit.Scale()} }

// estimate writes a figure with its interval, if it has one: as 1.23k ±2% if both sides
// are about equal, and otherwise with both ends in the figure's unit.
func (u unit) estimate(e rundir.Estimate) string {
	switch {
	case e.Estimate == nil:
		return unknown
	case !bounded(e):
		return strings.TrimSuffix(u.Write(*e.Estimate)+" "+u.rangeOf(e), " ")
	}
	v := *e.Estimate
	if e.Low != nil && e.High != nil && *e.Low == v && *e.High == v {
		return u.Write(v) + " ±0%"
	}
	if e.Low != nil && e.High != nil && v > 0 {
		down, up := 1-*e.Low/v, *e.High/v-1
		if wide := max(down, up); wide < 0.5 && math.Abs(up-down) <= max(0.25*wide, 0.001) {
			return u.Write(v) + " ±" + margin(wide)
		}
	}
	return u.Write(v) + " " + u.ends(e)
}

// ends writes an interval in the unit of its estimate. If only one end is known, the text
// says so.
func (u unit) ends(e rundir.Estimate) string {
	s := u.Step(*e.Estimate)
	if *e.Estimate == 0 && e.High != nil {
		s = u.Step(*e.High)
	}
	text := inside(e.Low, e.High, func(v float64) string { return units.Figure(v / s.From) })
	if *e.Estimate == 0 { // the figure itself does not say which unit
		text += s.Name + u.Suffix()
	}
	return "(" + text + ")"
}

// rangeOf writes from where to where the values of trials reach that are too few for an
// interval; nothing of a single one.
func (u unit) rangeOf(e rundir.Estimate) string {
	if e.Interval == "" || e.Interval == rundir.NoInterval || len(e.Values) < 2 {
		return ""
	}
	s := u.Step(*e.Estimate)
	low, high := slices.Min(e.Values), slices.Max(e.Values)
	return "(range " + inside(&low, &high, func(v float64) string { return units.Figure(v / s.From) }) + ")"
}

// inside writes the ends of an interval, or the only one that is known.
func inside(low, high *float64, write func(float64) string) string {
	switch {
	case low != nil && high != nil:
		return write(*low) + " … " + write(*high)
	case low != nil:
		return "≥ " + write(*low)
	case high != nil:
		return "≤ " + write(*high)
	}
	return ""
}

// bounded tells whether an estimate has an interval, even one that is open on one side.
func bounded(e rundir.Estimate) bool { return e.Low != nil || e.High != nil }

// margin writes a share with two significant digits, in the form of ± figures.
func margin(share float64) string {
	p := 100 * math.Abs(share)
	switch {
	case p >= 9.95:
		return fmt.Sprintf("%.0f%%", p)
	case p >= 0.995:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", p), ".0") + "%"
	case p == 0:
		return "0%"
	}
	return fmt.Sprintf("%.2g%%", p)
}

// signed writes a change with the decimals given, always with a sign. A change that
// rounds to zero has no sign.
func signed(v float64, decimals int) string {
	text := fmt.Sprintf("%+.*f", decimals, v)
	if strings.Trim(text, "+-0.") == "" {
		return text[1:]
	}
	return strings.Replace(text, "-", "−", 1)
}

// growth writes a relative change, as a share, with its interval in percent, such as
// −5.6% (−7.1 … −4.0). The width of the interval decides the number of decimals.
func growth(v float64, low, high *float64) string {
	n := decimals(low, high)
	text := signed(100*v, n) + "%"
	if low != nil || high != nil {
		text += " " + spread(low, high, n)
	}
	return text
}

// decimals is how many decimals a change in percent has.
func decimals(low, high *float64) int {
	if low != nil && high != nil {
		switch half := 50 * (*high - *low); {
		case half < 0.2:
			return 2
		case half >= 20:
			return 0
		}
	}
	return 1
}

// spread writes the interval of a relative change in percent.
func spread(low, high *float64, decimals int) string {
	return "(" + inside(low, high, func(v float64) string { return signed(100*v, decimals) }) + ")"
}

// change writes a ratio as a relative change, or as a factor when it is at least 2 or at
// most a half.
func change(r rundir.Estimate) string {
	switch {
	case r.Estimate == nil:
		return unknown
	case *r.Estimate >= 2 || *r.Estimate <= 0.5:
		text := factor(*r.Estimate)
		if ends := factors(r); ends != "" {
			text += " (" + ends + ")"
		}
		return text
	case !bounded(r) && len(r.Values) > 1:
		return growth(*r.Estimate-1, nil, nil) + " (range " + reach(r, func(v float64) string { return signed(100*(v-1), 1) }) + ")"
	}
	return growth(*r.Estimate-1, less(r.Low), less(r.High))
}

// less is one less than an end of a ratio's interval.
func less(v *float64) *float64 {
	if v == nil {
		return nil
	}
	w := *v - 1
	return &w
}

// factor writes a ratio, from 0.8 to 1.2 with three decimals.
func factor(v float64) string { return bare(v) + "x" }

func bare(v float64) string {
	if math.Abs(v-1) < 0.2 {
		return fmt.Sprintf("%.3f", v)
	}
	return units.Figure(v)
}

// factors writes the interval of a ratio, or their range if there are too few rounds.
func factors(r rundir.Estimate) string {
	if !bounded(r) && len(r.Values) > 1 {
		return "range " + reach(r, bare)
	}
	return inside(r.Low, r.High, bare)
}

// reach writes the range of the rounds' ratios.
func reach(r rundir.Estimate, write func(float64) string) string {
	low, high := slices.Min(r.Values), slices.Max(r.Values)
	return inside(&low, &high, write)
}

// probability writes a p-value.
func probability(p float64) string {
	switch {
	case p < 0.0001:
		return "<0.0001"
	case p < 0.001:
		return fmt.Sprintf("%.4f", p)
	case p < 0.1:
		return fmt.Sprintf("%.3f", p)
	}
	return fmt.Sprintf("%.2f", p)
}

// maybe writes a figure that may not be known.
func maybe(v *float64, write func(float64) string) string {
	if v == nil {
		return unknown
	}
	return write(*v)
}

// percent writes a share.
func percent(share float64) string { return shares().Write(share) }
