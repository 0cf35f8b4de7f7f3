package scrape

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"dyno/observe"
)

// DefaultMaxColumns bounds the columns of one endpoint or command.
const DefaultMaxColumns = 64

// A table holds the columns that an observer begins with. They stay, and none is added.
type table struct {
	columns []observe.Column
	index   map[string]int // by series
}

// newTable makes a column of each sample.
func newTable(samples []Sample) table {
	t := table{index: make(map[string]int, len(samples))}
	taken := make(map[string]bool, len(samples))
	for _, s := range samples {
		name := columnName(s)
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s_%d", columnName(s), n)
		}
		taken[name] = true
		t.index[s.Series()] = len(t.columns)
		t.columns = append(t.columns, observe.Column{Name: name, Kind: s.Kind, Help: "as the program tells it: " + s.Series()})
	}
	return t
}

// fill writes the samples that have a column, and NaN where there is none now.
func (t table) fill(row []float64, samples []Sample) {
	for i := range row {
		row[i] = math.NaN()
	}
	for _, s := range samples {
		if i, ok := t.index[s.Series()]; ok {
			row[i] = s.Value
		}
	}
}

// unit is how names of metrics end, by the conventions of Prometheus.
var (
	unit    = regexp.MustCompile(`(_(seconds|bytes|ratio|celsius|meters|joules|grams|volts|amperes))?(_(total|sum|count))?$`)
	foreign = regexp.MustCompile(`[^a-zA-Z0-9]+`)
)

// columnName makes a column's name of a series: labels go before the unit. Characters that a name
// cannot hold become underscores, and capitals small letters; long names are shortened.
//
//	http_request_duration_seconds_sum{code="200"} → http_request_duration_code_200_seconds_sum
func columnName(s Sample) string {
	at := unit.FindStringIndex(s.Name)[0] // matches also nothing, at the end
	var b strings.Builder
	b.WriteString(s.Name[:at])
	for _, l := range s.Labels {
		b.WriteString("_" + l.Name + "_" + l.Value)
	}
	b.WriteString(s.Name[at:])
	name := strings.ToLower(strings.Trim(foreign.ReplaceAllString(b.String(), "_"), "_"))
	if len(name) > maxName {
		name = name[:maxName]
	}
	return name
}

// maxName bounds a column's name, so that it stays one with what is put before and after
// it.
const maxName = 60

// choose returns the samples that any of the selectors selects. If there are more than
// most, the error says how many each selector selects.
func choose(samples []Sample, selectors []selector, most int) ([]Sample, error) {
	if len(selectors) == 0 {
		if len(samples) > most {
			return nil, fmt.Errorf("%d numbers, and at most %d can be recorded: name those that matter", len(samples), most)
		}
		return samples, nil
	}
	var chosen []Sample
	picked := make([]int, len(selectors))
	for _, m := range samples {
		any := false
		for i, s := range selectors {
			if s.matches(m) {
				picked[i]++
				any = true
			}
		}
		if any {
			chosen = append(chosen, m)
		}
	}
	var faults []string
	for i, s := range selectors {
		switch {
		case picked[i] == 0:
			faults = append(faults, s.text+" matches nothing")
		case len(chosen) > most:
			faults = append(faults, fmt.Sprintf("%s matches %d", s.text, picked[i]))
		}
	}
	switch {
	case len(chosen) > most:
		return nil, fmt.Errorf("%d numbers match, and at most %d can be recorded: %s", len(chosen), most, strings.Join(faults, ", "))
	case len(chosen) == 0:
		return nil, fmt.Errorf("%s", strings.Join(faults, ", "))
	}
	return chosen, nil
}
