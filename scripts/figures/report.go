package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	origin   = regexp.MustCompile(`^<!-- table (.+) -->$`)
	footnote = regexp.MustCompile(` *\\\[[0-9]+\\\]`)
)

// refresh fills the tables of a report's page from a file with the tables of its runs, and those of its translation.
// It draws the pictures. Notes name claims whose outcome has changed: the page's text still describes the former outcome.
func refresh(tables, page string) (notes []string, err error) {
	source, err := os.ReadFile(tables) //nolint:gosec // named by who calls it
	if err != nil {
		return nil, err
	}
	before, err := os.ReadFile(page) //nolint:gosec // named by who calls it
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(page), ".md")
	after, notes, err := fill(name, string(before), string(source))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(after), 0o644); err != nil { //nolint:gosec // a document of the repository
		return nil, err
	}
	if err := takeCurves(filepath.Dir(tables), page); err != nil {
		return nil, err
	}
	return notes, drawAll(filepath.Dir(page))
}

// fill returns the page of a report with the figures of source. A line <!-- table HEADING · HEADING --> and an
// empty line precede a table of the page. The table takes its columns from the first table of source under these
// headings, if that has them. The first column names the row of source. All other columns are written by hand.
// The table of "claims" must have all claims of the report; what was published, it has in the report's own words.
func fill(name, page, source string) (filled string, notes []string, err error) {
	var (
		faults []error
		lines  = strings.Split(page, "\n")
	)
	for i, line := range lines {
		m := origin.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		from, err := findTable(source, strings.Split(m[1], between))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		first := min(i+2, len(lines))
		to := readTable(lines[first:])
		for j, cells := range to.rows {
			changed, err := from.copyRow(to.head, cells)
			faults = append(faults, err)
			notes = append(notes, changed...)
			lines[first+2+j] = "| " + strings.Join(cells, " | ") + " |"
		}
		for _, r := range from.rows { // a claim is named by the report, a point or a slash, and more
			if m[1] == "claims" && strings.HasPrefix(strings.Replace(r[0], "/", ".", 1), name+".") && to.row(r[0]) == nil {
				faults = append(faults, fmt.Errorf("the claim %s is missing", r[0]))
			}
		}
	}
	return strings.Join(lines, "\n"), notes, errors.Join(faults...)
}

// A table is one of a Markdown document, with cells as they are written there.
type table struct {
	head    []string
	rows    [][]string
	chinese bool // it stands on a Chinese page
}

// chinese are the heads of a table of claims on a Chinese page.
var chinese = map[string]string{"论断": "what is claimed", "公布值": "published", "实测值": "measured", "结论": "outcome", "原因": "why"}

// findTable returns the first table under headings, each named by how it begins, and each below the one before.
func findTable(text string, headings []string) (table, error) {
	lines := strings.Split(text, "\n")
	depth, wanted := 0, headings
	for i, line := range lines {
		marks, title, _ := strings.Cut(line, " ")
		level := len(marks)
		if marks == "" || strings.Trim(marks, "#") != "" {
			level = 0
		}
		switch {
		case len(wanted) == 0 && level == 0 && cut(line) != nil:
			return readTable(lines[i:]), nil
		case level == 0:
			continue
		case level <= depth || len(wanted) == 0:
			return table{}, fmt.Errorf("there is no table under %q", strings.Join(headings, between))
		case strings.HasPrefix(title, wanted[0]):
			depth, wanted = level, wanted[1:]
		}
	}
	return table{}, fmt.Errorf("there is no table under %q", strings.Join(headings, between))
}

// readTable reads the table that begins with the first line: its head, a line of dashes, and its rows.
func readTable(lines []string) (t table) {
	for i, line := range lines {
		cells := cut(line)
		switch {
		case cells == nil:
			return t
		case i == 0:
			t.head = cells
			for n, head := range cells {
				if english := chinese[head]; english != "" {
					t.head[n], t.chinese = english, true
				}
			}
		case i > 1:
			t.rows = append(t.rows, cells)
		}
	}
	return t
}

// row returns the row with a first cell; nil if there is none.
func (t table) row(first string) []string {
	i := slices.IndexFunc(t.rows, func(r []string) bool { return r[0] == first })
	if i < 0 {
		return nil
	}
	return t.rows[i]
}

// cell returns a cell of a row by the head of its column; "" if there is none.
func (t table) cell(row []string, column string) string {
	if i := slices.Index(t.head, column); i > 0 && i < len(row) {
		return row[i]
	}
	return ""
}

// copyRow copies what the row of the same name has in columns of the same head, without footnotes.
func (t table) copyRow(head, cells []string) (notes []string, err error) {
	found := t.row(cells[0])
	switch {
	case found == nil:
		return nil, fmt.Errorf("the row %q is not in the tables of the runs", cells[0])
	case len(cells) != len(head):
		return nil, fmt.Errorf("the row %q: want %d cells, and it has %d", cells[0], len(head), len(cells))
	}
	for i, column := range t.head {
		to := slices.Index(head, footnote.ReplaceAllString(column, ""))
		if i == 0 || to < 1 || column == "" || column == "published" {
			continue
		}
		now := footnote.ReplaceAllString(found[i], "")
		if column == "outcome" && cells[to] != "" && cells[to] != now {
			notes = append(notes, fmt.Sprintf("%s: %s is now %s: change what the page says about it", cells[0], cells[to], now))
		}
		cells[to] = now
	}
	return notes, nil
}
