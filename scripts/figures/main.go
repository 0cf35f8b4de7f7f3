// Figures puts measured figures from files into documents, so that no document can state
// anything else than what was measured. In place of TEXT, in
//
//	<!-- figure FILE · KEY -->TEXT<!-- / -->
//
// it writes what FILE has for KEY, with numbers to three significant digits. In a file that ends in .md, KEY is
// a cell of a table: the leading cells of its row and the head of its column, with " · " between them. A first
// cell that is empty repeats the one above. In any other file KEY is the name after "result: " at the beginning
// of a line. The rest of the line is the figure.
//
// Tables between <!-- figures --> and <!-- /figures --> have only such numbers from the third column on. The
// first two columns say what was measured, and how.
//
// A report's page (docs/reports) has tables that are filled from the tables of its runs (see fill). The runs are
// not in the repository. One picture shows the page's table of claims (see draw), others are of runs (see curve).
// The table has all claims of experiments/reports, with what was published (see checkClaims).
//
//	figures                 from the repository's root; it rewrites documents, and draws the pictures
//	figures TABLES PAGE     fills the tables of a report's page, and draws its picture
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// documents are those whose figures have sources.
var documents = []string{"README.md", "README.zh-CN.md", "docs/development/benchmarks.md", "docs/explanation/ten-million.md"}

func main() {
	var err error
	if len(os.Args) == 3 {
		var notes []string
		notes, err = refresh(os.Args[1], os.Args[2])
		for _, n := range notes {
			fmt.Fprintf(os.Stderr, "figures: %s: %s\n", os.Args[2], n)
		}
	} else {
		err = errors.Join(run(".", documents), drawAll("docs/reports"), checkClaims("experiments/reports", "docs/reports"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run updates documents. Each is written only if all its figures are found.
func run(root string, documents []string) error {
	var faults []error
	for _, name := range documents {
		path := filepath.Join(root, name)
		before, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		after, err := render(root, string(before))
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if after != string(before) {
			faults = append(faults, os.WriteFile(path, []byte(after), 0o644)) //nolint:gosec // a document of the repository
		}
	}
	return errors.Join(faults...)
}

var (
	marker = regexp.MustCompile(`(<!-- figure ([^>]+?) -->)(.*?)(<!-- / -->)`)
	region = regexp.MustCompile(`(?s)<!-- figures -->(.*?)<!-- /figures -->`)
	number = regexp.MustCompile(`\b[0-9][0-9,]*(?:\.[0-9]+)?`) // not within a name, such as p99
)

// between separates the parts of a key.
const between = " · "

// render returns a document with the current figures. The error names every marker
// without a figure and every number without a marker.
func render(root, text string) (string, error) {
	var faults []error
	for _, m := range region.FindAllStringSubmatch(text, -1) {
		faults = append(faults, unmarked(m[1])...)
	}
	text = marker.ReplaceAllStringFunc(text, func(m string) string {
		parts := marker.FindStringSubmatch(m)
		found, err := look(root, parts[2])
		if err != nil {
			faults = append(faults, err)
			return m
		}
		return parts[1] + tidy(found) + parts[4]
	})
	return text, errors.Join(faults...)
}

// unmarked returns a fault for each number without a marker in a table's third and later columns.
func unmarked(text string) (faults []error) {
	for line := range strings.Lines(text) {
		cells := row(line)
		if len(cells) < 3 {
			continue
		}
		for _, cell := range cells[2:] {
			if n := number.FindString(marker.ReplaceAllString(cell, "")); n != "" {
				faults = append(faults, fmt.Errorf("%q, of %q: the number has no source: put it into a marker, or leave it out", n, strings.TrimSpace(cell)))
			}
		}
	}
	return faults
}

// row returns the cells of a table's line, as they are read; nil for any other line.
func row(line string) []string {
	cells := cut(line)
	for i, c := range cells {
		cells[i] = html.UnescapeString(c)
	}
	return cells
}

// cut returns the cells of a table's line, as they are written; nil for any other line.
func cut(line string) []string {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	cells := strings.Split(line[1:len(line)-1], "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(c)
	}
	return cells
}

// look finds the figure of a marker.
func look(root, name string) (string, error) {
	file, key, ok := strings.Cut(name, between)
	if !ok {
		return "", fmt.Errorf("%q: want FILE%sKEY", name, between)
	}
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return "", err
	}
	found, err := "", error(nil)
	if filepath.Ext(file) == ".md" {
		found, err = cell(content, strings.Split(key, between))
	} else {
		found, err = result(content, key)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}

// result finds a result line. A name that occurs twice is an error.
func result(content []byte, key string) (found string, err error) {
	for line := range bytes.Lines(content) {
		rest, ok := strings.CutPrefix(string(line), "result: "+key+" ")
		if !ok {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("there are two lines for %q", key)
		}
		found = strings.TrimSpace(rest)
	}
	if found == "" {
		return "", fmt.Errorf("there is no line %q", "result: "+key)
	}
	return found, nil
}

// cell finds a cell of a table by its row's leading cells and its column's head. The first
// table that has it counts.
func cell(content []byte, key []string) (string, error) {
	labels, column := key[:len(key)-1], key[len(key)-1]
	var head []string
	first := ""
	for line := range strings.Lines(string(content)) {
		cells := row(line)
		switch {
		case cells == nil:
			head = nil
			continue
		case head == nil:
			head, first = cells, ""
			continue
		}
		if cells[0] == "" {
			cells[0] = first
		}
		first = cells[0]
		at := slices.Index(head, column)
		if at < len(labels) || len(cells) <= at || !slices.Equal(cells[:len(labels)], labels) {
			continue
		}
		if cells[at] == "" || cells[at] == "–" {
			break
		}
		return cells[at], nil
	}
	return "", fmt.Errorf("no table has a figure for %q in a column %q", labels, column)
}

// tidy writes every number of a figure with at most three significant digits, and commas
// between thousands.
func tidy(figure string) string {
	return number.ReplaceAllStringFunc(figure, func(text string) string {
		plain := strings.ReplaceAll(text, ",", "")
		digits := len(strings.TrimLeft(strings.ReplaceAll(plain, ".", ""), "0"))
		x, err := strconv.ParseFloat(plain, 64)
		if err != nil {
			return text // not a number, such as the parts of a date
		}
		if digits > 3 {
			decimals := 2 - int(math.Floor(math.Log10(x)))
			scale := math.Pow(10, float64(decimals))
			plain = strconv.FormatFloat(math.Round(x*scale)/scale, 'f', max(0, decimals), 64)
		}
		whole, fraction, _ := strings.Cut(plain, ".")
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		if fraction != "" {
			whole += "." + fraction
		}
		return whole
	})
}
