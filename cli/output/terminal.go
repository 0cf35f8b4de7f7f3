package output

import (
	"io"
	"os"

	"golang.org/x/term"

	"dyno/internal/terminal"
	"dyno/report/short"
	"dyno/results/rundir"
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
	f, ok := terminal.Raw(w).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a descriptor is small
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // a descriptor is small
	if err != nil || columns == 0 {
		return defaultWidth
	}
	return columns
}

// Short writes the first screen of a run as wide as the terminal, in colours if it has some.
func Short(w io.Writer, f *rundir.Folder, noColor, kept bool) error {
	s := short.Screen{Width: terminalWidth(w), Kept: kept}
	if s.Colour = s.Width > 0 && Coloured(noColor, os.Getenv) && showsColour(w); s.Colour {
		w = terminal.Raw(w) // what it quotes is clean
	}
	return short.Text(w, f, s)
}

// Coloured reports whether to use colours: the terminal must have them, and they must not
// be disabled by a flag or by NO_COLOR (https://no-color.org).
func Coloured(no bool, getenv func(string) string) bool {
	return !no && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
