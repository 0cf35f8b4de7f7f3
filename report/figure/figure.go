// Package figure writes figures: in their unit, with their interval, and as changes of
// others. It also writes names and commands so that they are harmless on a terminal.
package figure

import (
	"math"
	"strings"

	"dyno/internal/terminal"
	"dyno/internal/units"
)

// Unknown replaces a figure that is not known.
const Unknown = "–"

// Seconds writes a time in a unit that fits, with three significant digits.
func Seconds(seconds float64) string {
	return units.Times().Write(seconds)
}

// Deviation writes a time with its sign.
func Deviation(seconds float64) string {
	text := Seconds(math.Abs(seconds))
	switch {
	case seconds > 0:
		return "+" + text
	case seconds < 0:
		return "−" + text
	}
	return text
}

// Duration is Seconds of a time in nanoseconds, as histograms have it.
func Duration(ns int64) string { return Seconds(float64(ns) / 1e9) }

// Count writes a number with three significant digits, in thousands (k) or
// millions (M) where it is that large.
func Count(n float64) string { return units.Counts().Write(n) }

// Whole writes a count.
func Whole(n int64) string { return units.Whole(n) }

// Plural writes a count with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Whole(int64(n)) + " " + noun + "s"
}

// Printable makes text fit for one line of a terminal.
func Printable(s string) string { return terminal.Line(s) }

// CommandLine writes a command as a user would type it in a shell.
func CommandLine(args []string) string {
	var words []string
	for _, a := range args {
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_") != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// PerSecond writes a rate in whole numbers from 100 on.
func PerSecond(x float64) string {
	if x >= 100 {
		return Whole(int64(math.Round(x)))
	}
	return units.Figure(x)
}
