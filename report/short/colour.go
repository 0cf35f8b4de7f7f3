package short

import (
	"regexp"
)

// The colours of a terminal (ECMA-48, SGR).
const (
	red      = "\x1b[31m"
	green    = "\x1b[32m"
	yellow   = "\x1b[33m"
	noColour = "\x1b[0m"
)

// faults are the lines that say what is wrong.
var faults = regexp.MustCompile(`^  (errors|problem) |^worse, too: |^INCOMPLETE`)

// meanings are the pieces of a line that have a colour. A cell ends with two blanks or with its line.
var meanings = []struct {
	pattern *regexp.Regexp
	colour  string
}{
	{regexp.MustCompile(`  (worse|refuted|broken|invalid)(  |$)|\b[1-9][0-9,]* (failed|dropped|unfinished)\b|\b[45][0-9]{2} × [0-9,]+`), red},
	{regexp.MustCompile(`  (better|holds)(  |$)`), green},
	{regexp.MustCompile(`[≤≥~][0-9][0-9.,]*( [µnm]?s)?|\b[0-9][0-9.,]*( [µnm]?s)?\?`), yellow},
}

// paint colours finished lines, so that a colour never counts in a width. The first line holds names
// that others gave.
func paint(lines []string) {
	for i := range lines[1:] {
		line := &lines[1+i]
		if faults.MatchString(*line) {
			*line = red + *line + noColour
			continue
		}
		for _, m := range meanings {
			*line = m.pattern.ReplaceAllString(*line, m.colour+"$0"+noColour)
		}
	}
}
