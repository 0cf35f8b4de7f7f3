package output

import (
	"io"
	"os"

	"dyno/report/short"

	"golang.org/x/term"
)

// HasBoard reports whether a board can be drawn on a writer: a terminal that is not dumb.
func HasBoard(w io.Writer, getenv func(string) string) bool {
	return terminalWidth(w) > 0 && getenv("TERM") != "dumb" && getenv("TERM") != ""
}

// defaultWidth is that of a terminal that does not say how wide it is.
const defaultWidth = 80

// terminalWidth is how many columns the terminal has that a writer writes to; 0 where it writes to
// none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a descriptor is small
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // a descriptor is small
	if err != nil || columns == 0 {
		return defaultWidth
	}
	return columns
}

// Screen is what a writer shows.
func Screen(w io.Writer, noColor, kept bool) short.Screen {
	width := terminalWidth(w)
	return short.Screen{Width: width, Colour: width > 0 && Coloured(noColor, os.Getenv) && showsColour(w), Kept: kept}
}

// Coloured reports whether to use colours: the terminal must have them, and they must not
// be disabled by a flag or by NO_COLOR (https://no-color.org).
func Coloured(no bool, getenv func(string) string) bool {
	return !no && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
