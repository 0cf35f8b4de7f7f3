package intent

import (
	"fmt"
	"slices"
	"strings"
)

// An Example is a text with its known intent.
type Example struct{ Intent, Text string }

// ParseExamples reads lines of an intent, a tab and a text. Empty lines, and those that begin with #, are ignored.
func ParseExamples(text string) ([]Example, error) {
	var list []Example
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		intent, said, ok := strings.Cut(line, "\t")
		if !ok || intent == "" || said == "" {
			return nil, fmt.Errorf("line %d: want an intent, a tab and a text", i+1)
		}
		list = append(list, Example{intent, said})
	}
	return list, nil
}

// A Quality is how well an intent is found. Ratios are NaN where there is nothing to
// divide by.
type Quality struct {
	Intent                string
	Found, Missed, Wrong  int     // found; missed; found in texts of other intents
	Precision, Recall, F1 float64 // from 0 to 1
}

// A Measurement is the quality of a parser.
type Measurement struct {
	Examples int
	Accuracy float64 // the share of examples whose intent was found
	Intents  []Quality
	Mistakes []string // in words
}

// Measure compares a parser with examples.
func Measure(p *Parser, examples []Example) Measurement {
	m := Measurement{Examples: len(examples)}
	by := map[string]*Quality{}
	of := func(name string) *Quality {
		if by[name] == nil {
			by[name] = &Quality{Intent: name}
		}
		return by[name]
	}
	right := 0
	for _, e := range examples {
		got := p.Find(e.Text)
		if got.Intent == e.Intent {
			right++
			of(e.Intent).Found++
			continue
		}
		of(e.Intent).Missed++
		of(got.Intent).Wrong++
		m.Mistakes = append(m.Mistakes, fmt.Sprintf("%q: %s, taken for %s (%v to %v)", e.Text, e.Intent, got.Intent, got.Score, got.Next))
	}
	m.Accuracy = float64(right) / float64(len(examples))
	for _, q := range by {
		found := float64(q.Found)
		q.Precision = found / float64(q.Found+q.Wrong)
		q.Recall = found / float64(q.Found+q.Missed)
		q.F1 = 2 * found / float64(2*q.Found+q.Wrong+q.Missed)
		m.Intents = append(m.Intents, *q)
	}
	slices.SortFunc(m.Intents, func(a, b Quality) int { return strings.Compare(a.Intent, b.Intent) })
	return m
}
