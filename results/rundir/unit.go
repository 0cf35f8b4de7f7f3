package rundir

import "dyno/internal/units"

// A Unit is what figures are kept in. It decides how reports write them.
type Unit string

// The units. A figure of none, such as a ratio of two others, is a bare number.
const (
	Number         Unit = ""
	Count          Unit = "count"
	Seconds        Unit = "s"
	Bytes          Unit = "B"
	PerSecond      Unit = "/s"
	BytesPerSecond Unit = "B/s"
	CPUs           Unit = "cpu"     // seconds of CPU time a second
	Share          Unit = "ratio"   // the whole is 1
	SharePerSecond Unit = "share/s" // how fast a level grows, of itself
)

// Units lists the units.
func Units() []Unit {
	return []Unit{Number, Count, Seconds, Bytes, PerSecond, BytesPerSecond, CPUs, Share, SharePerSecond}
}

// Scale is how figures of the unit are written.
func (u Unit) Scale() units.Scale {
	switch u {
	case Count:
		return units.Counts()
	case Seconds:
		return units.Times()
	case Bytes:
		return units.Sizes()
	case PerSecond:
		return units.Rates()
	case BytesPerSecond:
		return units.SizeRates()
	case CPUs:
		return units.Processors()
	case Share:
		return units.Shares()
	}
	return units.Numbers()
}

// Dimension is what figures of the unit measure, for expressions.
func (u Unit) Dimension() units.Dimension {
	switch u {
	case Seconds:
		return units.Duration
	case Bytes:
		return units.Size
	case PerSecond:
		return units.Rate
	case SharePerSecond:
		return units.Growth
	}
	return units.Plain
}

// UnitOf is the unit in which figures of a dimension are kept.
func UnitOf(d units.Dimension) Unit {
	for _, u := range Units() {
		if u.Dimension() == d {
			return u
		}
	}
	return Number
}
