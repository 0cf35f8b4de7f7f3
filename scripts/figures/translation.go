package main

import (
	"fmt"
	"os"
	"strings"
	"unicode"
)

// translate fills the tables of a page in Chinese, NAME.zh.md, from the page that it translates: its tables are in the
// same order, with the same rows and columns. Cells with Chinese characters are the translator's; all others, and
// outcomes, are the original's. It leaves other pages alone.
func translate(page string) error {
	base, isTranslation := strings.CutSuffix(page, ".zh.md")
	if !isTranslation {
		return nil
	}
	original, err := os.ReadFile(base + ".md") //nolint:gosec // a document of the repository
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page) //nolint:gosec // a document of the repository
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	from, to := tablesOfRuns(strings.Split(string(original), "\n")), tablesOfRuns(lines)
	if len(from) != len(to) {
		return fmt.Errorf("%s: %d tables of runs, and %s.md has %d", page, len(to), base, len(from))
	}
	for i, t := range to {
		if len(t.rows) != len(from[i].rows) {
			return fmt.Errorf("%s:%d: %d rows, and the original has %d", page, t.line, len(t.rows), len(from[i].rows))
		}
		for j, cells := range t.rows {
			if err := t.translateRow(cells, from[i].rows[j]); err != nil {
				return fmt.Errorf("%s:%d: %w", page, t.line+2+j, err)
			}
			lines[t.line+1+j] = "| " + strings.Join(cells, " | ") + " |"
		}
	}
	if now := strings.Join(lines, "\n"); now != string(text) {
		return os.WriteFile(page, []byte(now), 0o644) //nolint:gosec // a document of the repository
	}
	return nil
}

// translateRow takes from a row of the original what is not in Chinese.
func (t table) translateRow(cells, original []string) error {
	if len(cells) != len(original) {
		return fmt.Errorf("want %d cells, and the row has %d", len(original), len(cells))
	}
	if cells[0] != original[0] && !inChinese(cells[0]) {
		return fmt.Errorf("the row is %q, want %q", cells[0], original[0])
	}
	for k, cell := range original {
		if o, ok := outcomeNamed(cell); ok && t.head[k] == "outcome" {
			cells[k] = o.chinese
		} else if !inChinese(cells[k]) {
			cells[k] = cell
		}
	}
	return nil
}

func inChinese(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// A tableOfRuns is one that is filled from runs. Its head is in a line, counted from one.
type tableOfRuns struct {
	table
	line int
}

func tablesOfRuns(lines []string) (list []tableOfRuns) {
	for i, line := range lines {
		if origin.MatchString(line) {
			first := min(i+2, len(lines))
			list = append(list, tableOfRuns{readTable(lines[first:]), first + 1})
		}
	}
	return list
}
