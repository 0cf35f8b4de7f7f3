// Package units reads and writes figures for people: times, sizes, rates, shares and lists of CPUs. It
// is the only place that knows units, their spelling and the rounding of figures. Experiment files,
// flags, expressions and reports use it. It is pure.
//
// A Parse function reads what a person has written. The Format function of the same name
// writes it again, exactly. A Scale writes a measured value with three significant
// digits.
package units

import "fmt"

// A Dimension is what a figure measures. Figures of different dimensions are neither
// compared nor added.
type Dimension uint8

// The dimensions, each with the unit in which figures are kept.
const (
	Plain    Dimension = iota // a count, a share, a ratio
	Duration                  // seconds
	Size                      // bytes
	Rate                      // per second
	Growth                    // a share of itself per second
)

var dimensionNames = [...]string{"a plain number", "a time", "a size", "a rate", "a slope"}

// String describes a figure of the dimension, for messages.
func (d Dimension) String() string {
	if int(d) < len(dimensionNames) {
		return dimensionNames[d]
	}
	return fmt.Sprintf("Dimension(%d)", uint8(d))
}

// Times returns the dimension of a product. If the product is no figure, it returns
// false, and d.
func (d Dimension) Times(e Dimension) (Dimension, bool) {
	switch {
	case d == Plain:
		return e, true
	case e == Plain:
		return d, true
	case d == Duration && e.perTime() || d.perTime() && e == Duration:
		return Plain, true
	}
	return d, false
}

// Over returns the dimension of d divided by e. If the quotient is no figure, it returns
// false, and d.
func (d Dimension) Over(e Dimension) (Dimension, bool) {
	switch {
	case d == e || d.perTime() && e.perTime():
		return Plain, true
	case e == Plain:
		return d, true
	case d == Plain && e == Duration:
		return Rate, true
	case d == Plain && e.perTime():
		return Duration, true
	}
	return d, false
}

// perTime reports whether a dimension is per time.
func (d Dimension) perTime() bool { return d == Rate || d == Growth }

// A Unit is a word that may directly follow a number.
//
// Its factor is kept as a fraction: one division rounds as reading the decimal number
// would, so 57ms is exactly 0.057s, which multiplying by 0.001 can miss.
type Unit struct {
	Name      string
	Dimension Dimension
	times, by float64
}

// Of returns v of the unit, converted to seconds, bytes, per second or ones.
func (u Unit) Of(v float64) float64 { return v * u.times / u.by }

// greekMicro is the microsecond with the Greek letter instead of the micro sign, which
// looks the same.
const greekMicro = "μs"

// all returns the units. A variable could be changed.
func all() []Unit {
	return []Unit{
		{"ns", Duration, 1, 1e9},
		{"us", Duration, 1, 1e6},
		{"µs", Duration, 1, 1e6},
		{greekMicro, Duration, 1, 1e6},
		{"ms", Duration, 1, 1e3},
		{"s", Duration, 1, 1},
		{"m", Duration, 60, 1},
		{"min", Duration, 60, 1},
		{"h", Duration, 3600, 1},
		{"B", Size, 1, 1},
		{"KB", Size, 1e3, 1},
		{"MB", Size, 1e6, 1},
		{"GB", Size, 1e9, 1},
		{"TB", Size, 1e12, 1},
		{"KiB", Size, 1 << 10, 1},
		{"MiB", Size, 1 << 20, 1},
		{"GiB", Size, 1 << 30, 1},
		{"TiB", Size, 1 << 40, 1},
		{"%", Plain, 1, 100},
		{"/s", Rate, 1, 1},
		{"/min", Rate, 1, 60},
		{"/h", Rate, 1, 3600},
		{"%/s", Growth, 1, 100},
		{"%/min", Growth, 1, 100 * 60},
		{"%/h", Growth, 1, 100 * 3600},
	}
}

// Named returns the unit with exactly that name: ms is not MS.
func Named(name string) (Unit, bool) {
	for _, u := range all() {
		if u.Name == name {
			return u, true
		}
	}
	return Unit{}, false
}

// Names lists the units' names. It lists one of several names that look the same.
func Names() (names []string) {
	for _, u := range all() {
		if u.Name != greekMicro {
			names = append(names, u.Name)
		}
	}
	return names
}
