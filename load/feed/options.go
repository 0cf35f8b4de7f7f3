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
)

// An Order says in which order rows are taken. A pass is as many rows as the table has.
type Order uint8

// The orders.
const (
	Sequential Order = iota // the file's order
	Shuffled                // each row once a pass, each pass in another random order
	Random                  // each row drawn from all rows, whatever was drawn before
)

// An End says what follows a pass.
type End uint8

// What follows a pass.
const (
	Wrap End = iota // another pass
	Stop            // nothing
)

// A Column is a column with a name.
type Column struct {
	Name string
	Path string // JSON Lines: where the value is, as package jsonpath has it; default the object's member Name
}

// Options say how to read a file. The zero value reads CSV with a header row, and JSON
// Lines by the names of the first object's members.
//
// Text is UTF-8, with or without a byte order mark. Lines end with CR LF or LF. Empty lines are allowed
// at the end of the file only. In CSV a quote stands at the beginning of a field or nowhere. All rows
// have the same number of fields. In JSON Lines every row has a value for each column; a string counts
// without its quotes and escapes, any other value as it is written.
type Options struct {
	Format    Format
	Delimiter byte // CSV: one ASCII character; default the comma

	// Columns names the columns of CSV, in their order; the first row is then data. For JSON Lines it
	// says which values there are. Default: CSV's first row has the names, and for JSON Lines they are
	// the members of the first object.
	Columns []Column
}

// hasHeader tells whether the first row names the columns.
func (o *Options) hasHeader() bool { return o.Format == CSV && len(o.Columns) == 0 }

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
	case JSONLines:
		if o.Delimiter != 0 {
			fault("delimiter %q: want none for JSON Lines", rune(o.Delimiter))
		}
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
