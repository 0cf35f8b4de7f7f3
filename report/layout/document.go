package layout

import (
	"fmt"
	"slices"
	"strconv"
)

// A Document is parts while they are written, with the footnotes that they need. The code that
// writes it adds to the last part.
type Document struct {
	Parts     []*Part
	Footnotes []string
}

// Section begins a part with a title.
func (d *Document) Section(title string) { d.Parts = append(d.Parts, &Part{Title: title}) }

// Item adds an item to the last part.
func (d *Document) Item(i Item) {
	last := d.Parts[len(d.Parts)-1]
	last.Items = append(last.Items, i)
}

// Line adds a line of prose.
func (d *Document) Line(format string, args ...any) { d.Item(Item{Text: fmt.Sprintf(format, args...)}) }

// Table adds a table if it has rows.
func (d *Document) Table(t Table) {
	if len(t.Rows) > 0 {
		d.Item(Item{Table: &t})
	}
}

// Footnote returns the mark of a footnote, which is added when it is new.
func (d *Document) Footnote(text string) string {
	i := slices.Index(d.Footnotes, text)
	if i < 0 {
		i = len(d.Footnotes)
		d.Footnotes = append(d.Footnotes, text)
	}
	return "[" + strconv.Itoa(i+1) + "]"
}
