package output

import (
	"io"
	"strings"
	"text/tabwriter"

	"dyno/internal/terminal"
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
