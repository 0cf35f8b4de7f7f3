package feed

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"dyno/load/jsonpath"
)

// Bounds of a table.
const (
	MaxRow     = 1 << 20 // bytes of one row, its line end included
	MaxColumns = 4096
)

// A Format is how a file holds its rows.
type Format uint8

// The formats.
const (
	Auto      Format = iota // JSONLines if the file's name ends in .jsonl or .ndjson, else CSV
	CSV                     // RFC 4180, with the exceptions that Options names
	JSONLines               // one JSON object a line
	formats
)

var formatNames = [formats]string{"auto", "csv", "jsonl"}

// String returns the name that ParseFormat reads.
func (f Format) String() string { return name(formatNames[:], f) }

// ParseFormat reads "auto", "csv" or "jsonl".
func ParseFormat(s string) (Format, error) { return parse[Format]("format", formatNames[:], s) }

// An Order says in which order rows are taken. A pass is as many rows as the table has.
type Order uint8

// The orders.
const (
	Sequential Order = iota // that of the file
	Shuffled                // each row once a pass, each pass in another random order
	Random                  // each row drawn from all rows, whatever was drawn before
	orders
)

var orderNames = [orders]string{"sequential", "shuffled", "random"}

// String returns the name that ParseOrder reads.
func (o Order) String() string { return name(orderNames[:], o) }

// ParseOrder reads "sequential", "shuffled" or "random".
func ParseOrder(s string) (Order, error) { return parse[Order]("order", orderNames[:], s) }

// An End says what follows a pass.
type End uint8

// What may follow a pass.
const (
	Wrap End = iota // another pass
	Stop            // nothing
	ends
)

var endNames = [ends]string{"wrap", "stop"}

// String returns the name that ParseEnd reads.
func (e End) String() string { return name(endNames[:], e) }

// ParseEnd reads "wrap" or "stop".
func ParseEnd(s string) (End, error) { return parse[End]("end", endNames[:], s) }

func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%T(%d)", v, uint8(v))
}

func parse[T ~uint8](what string, names []string, s string) (T, error) {
	for v, n := range names {
		if n == s {
			return T(v), nil
		}
	}
	last := len(names) - 1
	return 0, fmt.Errorf("%s %q: want %s or %s", what, s, strings.Join(names[:last], ", "), names[last])
}

// A Column is a column with a name.
type Column struct {
	Name string
	Path string // JSON Lines: where the value is, as package jsonpath has it; default the object's member Name
}

// Options say how to read a file. The zero value reads CSV with a header row, and JSON
// Lines by the names of the first object's members.
//
// Text is UTF-8, with or without a byte order mark. Lines end with CR LF or LF. Empty
// lines are allowed at the end of the file only. In CSV a quote stands at the beginning
// of a field or not at all, and all rows have as many fields as the first. In JSON
// Lines every row has a value for each column; a string counts without its quotes and
// escapes, any other value as it is written.
type Options struct {
	Format    Format
	Delimiter byte // CSV: one ASCII character; default the comma

	// NoHeader says that the first row of CSV is data. Columns then names the columns.
	NoHeader bool

	// Columns names the columns of CSV without a header, in their order, or says which
	// values of JSON Lines there are. Default for JSON Lines: the members of the first
	// object.
	Columns []Column
}

// withDefaults returns the options with everything filled in that does not depend on
// what the file holds.
func (o Options) withDefaults(path string) Options {
	if o.Format == Auto {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".jsonl", ".ndjson":
			o.Format = JSONLines
		default:
			o.Format = CSV
		}
	}
	if o.Delimiter == 0 && o.Format == CSV {
		o.Delimiter = ','
	}
	return o
}

// Validate reports everything that is wrong with the options for a file of that name.
func (o Options) Validate(path string) error {
	o = o.withDefaults(path)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	switch o.Format {
	case CSV:
		if d := o.Delimiter; d == '"' || d != '\t' && d < ' ' || d >= 0x7f {
			fault("delimiter %q: want one ASCII character that is neither a quote nor a line end", rune(d))
		}
		switch {
		case o.NoHeader && len(o.Columns) == 0:
			fault("columns: none given; want their names, as the file has no header")
		case !o.NoHeader && len(o.Columns) > 0:
			fault("columns: %d given; want none, as the file's header names them", len(o.Columns))
		}
	case JSONLines:
		if o.Delimiter != 0 {
			fault("delimiter %q: want none for JSON Lines", rune(o.Delimiter))
		}
		if o.NoHeader {
			fault("no header: JSON Lines have none anyway; leave it out")
		}
	default:
		fault("format %d: want auto, csv or jsonl", uint8(o.Format))
	}
	if len(o.Columns) > MaxColumns {
		fault("columns: %d given; want at most %d", len(o.Columns), MaxColumns)
		return errors.Join(faults...)
	}
	seen := map[string]bool{}
	for i, c := range o.Columns {
		if problem := checkName(c.Name, seen); problem != "" {
			fault("columns[%d]: %s", i, problem)
		}
		switch {
		case c.Path == "":
		case o.Format == CSV:
			fault("columns[%d]: path %q: want none for CSV", i, c.Path)
		default:
			if _, err := jsonpath.Compile(c.Path); err != nil {
				fault("columns[%d]: %w", i, err)
			}
		}
	}
	return errors.Join(faults...)
}

// checkName says what is wrong with a column's name, and notes that it is taken.
func checkName(name string, seen map[string]bool) (problem string) {
	switch {
	case name == "":
		return "a column without a name; want a name for each"
	case seen[name]:
		return fmt.Sprintf("column %q: named twice; want each name once", name)
	case !utf8.ValidString(name):
		return fmt.Sprintf("column %q: the name is not UTF-8", name)
	}
	seen[name] = true
	return ""
}
