package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/internal/units"
	"dyno/results/rundir"
)

// Digits writes a number with three significant digits at most.
func Digits(v float64) string { return fmt.Sprintf("%.3g", v) }

// Over writes a slope per second as the growth in a number of seconds.
func Over(e rundir.Estimate, seconds float64) string {
	if e.Estimate == nil {
		return Unknown
	}
	times := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		return new(*v * seconds)
	}
	return Growth(*e.Estimate*seconds, times(e.Low), times(e.High))
}

// Level writes a value of a sweep's variable in full.
func Level(v float64) string { return fmt.Sprintf("%.10g", v) }

// A Unit is how the figures of a metric are written.
type Unit struct{ units.Scale }

// Times is how times are written.
func Times() Unit { return Unit{units.Times()} }

// Sizes is how sizes are written.
func Sizes() Unit { return Unit{units.Sizes()} }

// Counts is how counts are written.
func Counts() Unit { return Unit{units.Counts()} }

// Rates is how rates are written.
func Rates() Unit { return Unit{units.Rates()} }

func shares() Unit { return Unit{units.Shares()} }

// Plain is how numbers without a unit are written.
func Plain() Unit { return Unit{units.Numbers()} }

// UnitOf is how the figures of a metric are written.
func UnitOf(metric string) Unit { return UnitIn(rundir.MetricOf(metric).Unit) }

// UnitIn is how figures that are kept in a unit are written.
func UnitIn(u rundir.Unit) Unit { return Unit{u.Scale()} }

// Estimate writes a figure with its interval, if it has one: as 1.23k ±2% if both sides
// are about equal, and otherwise with both ends in the figure's unit.
func (u Unit) Estimate(e rundir.Estimate) string {
	switch {
	case e.Estimate == nil:
		return Unknown
	case !Bounded(e):
		return strings.TrimSuffix(u.Write(*e.Estimate)+" "+u.rangeOf(e), " ")
	}
	v := *e.Estimate
	if e.Low != nil && e.High != nil && *e.Low == v && *e.High == v {
		return u.Write(v) + " ±0%"
	}
	if e.Low != nil && e.High != nil && v > 0 {
		down, up := 1-*e.Low/v, *e.High/v-1
		if wide := max(down, up); wide < 0.5 && math.Abs(up-down) <= max(0.25*wide, 0.001) {
			return u.Write(v) + " ±" + Margin(wide)
		}
	}
	return u.Write(v) + " " + u.Ends(e)
}

// Ends writes an interval in the unit of its estimate. If only one end is known, the text
// says so.
func (u Unit) Ends(e rundir.Estimate) string {
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
func (u Unit) rangeOf(e rundir.Estimate) string {
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

// Bounded tells whether an estimate has an interval, even one that is open on one side.
func Bounded(e rundir.Estimate) bool { return e.Low != nil || e.High != nil }

// Margin writes a share with two significant digits, in the form of ± figures.
func Margin(share float64) string {
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

// Growth writes a relative change, as a share, with its interval in percent, such as
// −5.6% (−7.1 … −4.0). The width of the interval decides the number of decimals.
func Growth(v float64, low, high *float64) string {
	n := Decimals(low, high)
	text := signed(100*v, n) + "%"
	if low != nil || high != nil {
		text += " " + Spread(low, high, n)
	}
	return text
}

// Decimals is how many decimals a change in percent has.
func Decimals(low, high *float64) int {
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

// Spread writes the interval of a relative change in percent.
func Spread(low, high *float64, decimals int) string {
	return "(" + inside(low, high, func(v float64) string { return signed(100*v, decimals) }) + ")"
}

// Change writes a ratio as a relative change. It writes a ratio of at least 2 or at most a
// half as a factor.
func Change(r rundir.Estimate) string {
	switch {
	case r.Estimate == nil:
		return Unknown
	case *r.Estimate >= 2 || *r.Estimate <= 0.5:
		text := factor(*r.Estimate)
		if ends := Factors(r); ends != "" {
			text += " (" + ends + ")"
		}
		return text
	case !Bounded(r) && len(r.Values) > 1:
		return Growth(*r.Estimate-1, nil, nil) + " (range " + reach(r, func(v float64) string { return signed(100*(v-1), 1) }) + ")"
	}
	return Growth(*r.Estimate-1, Less(r.Low), Less(r.High))
}

// Less is one less than an end of a ratio's interval.
func Less(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v - 1)
}

// factor writes a ratio, from 0.8 to 1.2 with three decimals.
func factor(v float64) string { return Bare(v) + "x" }

// Bare writes a ratio as a number.
func Bare(v float64) string {
	if math.Abs(v-1) < 0.2 {
		return fmt.Sprintf("%.3f", v)
	}
	return units.Figure(v)
}

// Factors writes the interval of a ratio, or their range if there are too few rounds.
func Factors(r rundir.Estimate) string {
	if !Bounded(r) && len(r.Values) > 1 {
		return "range " + reach(r, Bare)
	}
	return inside(r.Low, r.High, Bare)
}

// reach writes the range of the rounds' ratios.
func reach(r rundir.Estimate, write func(float64) string) string {
	low, high := slices.Min(r.Values), slices.Max(r.Values)
	return inside(&low, &high, write)
}

// Probability writes a p-value.
func Probability(p float64) string {
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

// Maybe writes a figure that may not be known.
func Maybe(v *float64, write func(float64) string) string {
	if v == nil {
		return Unknown
	}
	return write(*v)
}

// Percent writes a share.
func Percent(share float64) string { return shares().Write(share) }
