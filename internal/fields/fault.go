package fields

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxFaults bounds how many faults one file can have; further ones are counted, not listed.
const MaxFaults = 200

// A Fault is one thing wrong with a file, or with Go values.
type Fault struct {
	File    string // empty for Go values that no file holds
	Line    int    // from 1; 0 when the fault is in no file
	Column  int    // from 1, in characters
	Field   string // such as load.closed.connections; empty for the file as a whole
	Problem string
	Hint    string // what would be right; may be empty
}

func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Problem)
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return b.String()
}

// Faults are all faults there are, in the order of the file.
type Faults struct {
	Faults  []Fault
	Omitted int // found beyond those listed
}

func (f *Faults) Error() string {
	lines := make([]string, 0, len(f.Faults)+1)
	for _, x := range f.Faults {
		lines = append(lines, x.Error())
	}
	if f.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", f.Omitted))
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find a single Fault.
func (f *Faults) Unwrap() []error {
	errs := make([]error, len(f.Faults))
	for i, x := range f.Faults {
		errs[i] = x
	}
	return errs
}

// A Finding is a fault before it has a place: found at a path, in some of the
// variants (none: in what all of them share).
type Finding struct {
	Path, Problem, Hint string
	Line, Column        int // where the path alone does not say it
}

// A Collector gathers findings and in which variants each was made. Findings
// beyond its bound are counted.
type Collector struct {
	found    map[Finding]*[]string
	Order    []Finding
	omitted  int
	Variants int // how many variants there are

	Touched map[string]bool // paths whose value is not to be relied on
	settled map[string]bool // the touched paths when Settle was called
	above   map[string]bool // and all paths above those
}

// NewCollector returns an empty collector.
func NewCollector() *Collector {
	return &Collector{found: map[Finding]*[]string{}, Touched: map[string]bool{}}
}

// Add records a finding; variant is empty when it is about all of them.
func (c *Collector) Add(f Finding, variant string) {
	c.Touched[f.Path] = true
	names, ok := c.found[f]
	if !ok {
		if len(c.Order) == MaxFaults {
			c.omitted++
			return
		}
		names = new([]string)
		c.found[f] = names
		c.Order = append(c.Order, f)
	}
	if variant != "" && (len(*names) == 0 || (*names)[len(*names)-1] != variant) {
		*names = append(*names, variant)
	}
}

// Settle ends the reading of values: from now on, Reliable judges by what was
// found so far.
func (c *Collector) Settle() {
	c.settled, c.above = maps.Clone(c.Touched), map[string]bool{}
	for path := range c.settled {
		for up := Parent(path); up != "" && !c.above[up]; up = Parent(up) {
			c.above[up] = true
		}
	}
}

// Reliable tells whether no fault was settled at, below or above the path. Then a finding there is not
// merely a consequence of another.
func (c *Collector) Reliable(path string) bool {
	if c.above[path] {
		return false
	}
	for ; path != ""; path = Parent(path) {
		if c.settled[path] {
			return false
		}
	}
	return true
}

// Err returns the findings as *Faults, or nil when there are none. place says
// where in the file a path is.
func (c *Collector) Err(file string, place func(path string) (line, column int)) error {
	if len(c.Order) == 0 {
		return nil
	}
	out := &Faults{Omitted: c.omitted}
	for _, f := range c.Order {
		x := Fault{File: file, Line: f.Line, Column: f.Column, Field: f.Path, Problem: f.Problem, Hint: f.Hint}
		if x.Line == 0 {
			x.Line, x.Column = place(f.Path)
		}
		if names := *c.found[f]; len(names) > 0 && len(names) < c.Variants {
			x.Problem += " in " + variantList(names)
		}
		out.Faults = append(out.Faults, x)
	}
	slices.SortStableFunc(out.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out
}

func variantList(names []string) string {
	const shown = 3
	switch {
	case len(names) == 1:
		return "variant " + names[0]
	case len(names) > shown:
		return fmt.Sprintf("variants %s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return "variants " + strings.Join(names, ", ")
}

// Parent returns the path without its last step: load.stages[2].rate,
// load.stages[2], load.stages, load, "".
func Parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// Join appends a step to a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
