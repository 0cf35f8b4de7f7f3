// Package series holds what was recorded over time: the rows of observers (series.csv), and the stretches in which a CPU
// did not wake a thread (stalls.csv).
package series

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"dyno/internal/lazyregexp"
)

// TimeColumn is the first column of a series: seconds since the recording began.
const TimeColumn = "time_seconds"

// Bounds of a series. They have room for all that one trial can record.
const (
	MaxColumns = 8192
	MaxCells   = 1 << 25
	maxRow     = 1 << 20 // bytes
)

// columnName is what a column may be called; its end names the unit, as in
// rss_bytes or cpu_seconds.
var columnName = lazyregexp.New(`^[a-z][a-z0-9_.]{0,99}$`)

// A Series holds the observers' recordings, one row per tick. NaN means that a value was
// not known at a tick.
type Series struct {
	Columns []string    // TimeColumn is the first
	Values  [][]float64 // by column, then by row
}

// Column returns a column's values, nil when there is no such column.
func (s *Series) Column(name string) []float64 {
	if i := slices.Index(s.Columns, name); i >= 0 {
		return s.Values[i]
	}
	return nil
}

// Rows returns the number of rows.
func (s *Series) Rows() int {
	if len(s.Values) == 0 {
		return 0
	}
	return len(s.Values[0])
}

func checkColumns(columns []string) error {
	if len(columns) == 0 || columns[0] != TimeColumn {
		return fmt.Errorf("the first column is not %s", TimeColumn)
	}
	if len(columns) > MaxColumns {
		return fmt.Errorf("%d columns, want at most %d", len(columns), MaxColumns)
	}
	seen := make(map[string]bool, len(columns))
	for _, c := range columns {
		switch {
		case !columnName().MatchString(c):
			return fmt.Errorf("%q cannot be a column's name", c[:min(len(c), 100)])
		case seen[c]:
			return fmt.Errorf("two columns are named %s", c)
		}
		seen[c] = true
	}
	return nil
}

// Read reads a series of at most MaxCells values. An error names the line and
// comes with the rows before it; such a series may be nil.
func Read(r io.Reader) (*Series, error) {
	in := csv.NewReader(bufio.NewReader(&rowLimit{r: r}))
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		err = errors.New("the file is empty")
	}
	if err == nil {
		err = checkColumns(head)
	}
	if err != nil {
		return nil, fmt.Errorf("series: line 1: %w", err)
	}
	s := &Series{Columns: slices.Clone(head), Values: make([][]float64, len(head))}
	row := make([]float64, len(head))
	for cells := 0; ; cells += len(row) {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err == nil && cells+len(row) > MaxCells {
			err = fmt.Errorf("more than %d values", MaxCells)
		}
		if err == nil {
			err = parseRow(record, row)
		}
		if err != nil {
			line, _ := in.FieldPos(0)
			return s, fmt.Errorf("series: line %d: %w", line, err)
		}
		for i, v := range row {
			s.Values[i] = append(s.Values[i], v)
		}
	}
}

func parseRow(record []string, row []float64) error {
	for i, text := range record {
		row[i] = math.NaN()
		if text != "" {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fmt.Errorf("column %d: %q is not a number", i+1, text[:min(len(text), 100)])
			}
			row[i] = v
		}
	}
	if math.IsNaN(row[0]) || math.IsInf(row[0], 0) {
		return errors.New("the row has no time")
	}
	return nil
}

// A rowLimit refuses a line that is longer than any row: it would have to be held in
// memory whole.
type rowLimit struct {
	r   io.Reader
	run int // bytes since the last line feed
}

func (l *rowLimit) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for _, b := range p[:n] {
		if l.run++; b == '\n' {
			l.run = 0
		}
		if l.run > maxRow {
			return 0, fmt.Errorf("a line is longer than %d bytes", maxRow)
		}
	}
	return n, err
}
