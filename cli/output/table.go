package output

import (
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"dyno/internal/terminal"
	"dyno/internal/units"
)

// Table writes rows in columns. Cells may say what others wrote: none breaks its row.
func Table(w io.Writer, rows [][]string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = terminal.Line(cell)
		}
		if _, err := io.WriteString(columns, strings.Join(cells, "\t")+"\n"); err != nil {
			return err
		}
	}
	return columns.Flush()
}

// Seconds writes a duration whose fractions of seconds do not matter. 0 is not known.
func Seconds(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return units.FormatDuration(max(time.Second, time.Duration(seconds*float64(time.Second)).Round(time.Second)))
}
