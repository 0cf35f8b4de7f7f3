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
	claimID   = regexp.MustCompile(`^\s+- id: (\S+)$`)
	claimSize = regexp.MustCompile(`^\s+published: (.+)$`)
	digits    = regexp.MustCompile(`[0-9][0-9,]*(?:\.[0-9]+)?`)
)

// checkClaims compares the claims of experiments with the tables of reports' pages: each claim has a row, each row a
// claim, and both have the same published size.
func checkClaims(experiments, reports string) error {
	var faults []error
	sizes, err := claimsOf(experiments)
	if err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(reports, "R[0-9].md"))
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page) //nolint:gosec // a document of the repository
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		at := slices.Index(lines, "<!-- table claims -->")
		if at < 0 {
			continue
		}
		claims := readTable(lines[min(at+2, len(lines)):])
		for _, row := range claims.rows {
			listed[row[0]] = true
			size, ok := sizes[row[0]]
			said := digits.FindAllString(claims.cell(row, "published"), -1)
			switch {
			case !ok:
				faults = append(faults, fmt.Errorf("%s: no experiment has the claim %s", page, row[0]))
			case size != "" && !slices.ContainsFunc(said, func(n string) bool { return significant(n) == significant(digits.FindString(size)) }):
				faults = append(faults, fmt.Errorf("%s: %s: the experiment says that %s was published", page, row[0], size))
			}
		}
	}
	for id := range sizes {
		if !listed[id] {
			faults = append(faults, fmt.Errorf("no page of a report has the claim %s", id))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// claimsOf returns the published sizes of the claims of all experiments in a folder. A claim without a size has an
// empty one. Two claims of one name would have two outcomes, and a page has one.
func claimsOf(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	sizes := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // an experiment of the repository
		if err != nil {
			return nil, err
		}
		id := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if m := claimID.FindStringSubmatch(line); m != nil {
				id = m[1]
				if _, twice := sizes[id]; twice {
					return nil, fmt.Errorf("%s: another experiment has the claim %s", file, id)
				}
				sizes[id] = ""
			} else if m := claimSize.FindStringSubmatch(line); m != nil && id != "" {
				sizes[id] = m[1]
			}
		}
	}
	return sizes, nil
}

// significant returns the significant digits of a number, whatever its unit: 12 of 1,200 and of 1.2.
func significant(number string) string {
	return strings.Trim(strings.NewReplacer(",", "", ".", "").Replace(number), "0")
}
