package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// The rules by which items are ranked.
const (
	confidence = 0.95
	alpha      = 0.05 // of any item at all where nothing has changed
	// An item below leastShare of the whole, in both variants, has no test of its own:
	// each test makes the adjustment of the others stricter.
	leastShare = 0.002
	// A change below leastChange of the whole is not ranked, even if it is certain.
	leastChange = 0.002
)

// A cost is CPU time, memory or the like per request in one round, by item.
type cost map[string]float64

func (c cost) total() (sum float64) {
	for _, v := range c {
		sum += v
	}
	return sum
}

// A round holds the costs of base and variant in it.
type round struct{ base, variant cost }

// An Item is a function, a group of functions or a resource. Its figures are per
// request, in the unit of the table that it is in.
type Item struct {
	Name     string          `json:"name"`
	Group    string          `json:"group,omitempty"`  // of a function
	Caller   string          `json:"caller,omitempty"` // of a function: the target's own function nearest above it, to which most of the change belongs
	Base     float64         `json:"base"`             // mean over rounds
	Variant  float64         `json:"variant"`
	Change   rundir.Estimate `json:"change"`               // variant − base, over rounds
	P        *float64        `json:"p,omitempty"`          // two-sided, for no change
	Adjusted *float64        `json:"adjusted_p,omitempty"` // by Holm, among the items of the table
	// Ranked items have a change that is significant and not negligible.
	Ranked bool `json:"ranked"`
}

// rank compares every item in pairs over rounds. Ranked items come first. Among the
// ranked items, and among the others, the largest change comes first. The changes of all
// items add up to the change of the whole.
func rank(rounds []round) ([]Item, error) {
	means := map[string]*Item{}
	whole := 0.0
	n := float64(len(rounds))
	for _, r := range rounds {
		whole += r.base.total() / n
		for name, v := range r.base {
			item(means, name).Base += v / n
		}
		for name, v := range r.variant {
			item(means, name).Variant += v / n
		}
	}
	var tested []*Item
	items := make([]*Item, 0, len(means))
	for _, i := range means {
		items = append(items, i)
		change := i.Variant - i.Base
		i.Change = rundir.Estimate{Estimate: &change, Interval: rundir.NoInterval}
		for _, r := range rounds {
			i.Change.Values = append(i.Change.Values, r.variant[i.Name]-r.base[i.Name])
		}
		if len(rounds) < 2 {
			continue
		}
		m, err := stat.PairedMean(i.Change.Values, confidence)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		bound(&i.Change, m)
		i.P = &m.P
		if max(i.Base, i.Variant) >= leastShare*whole {
			tested = append(tested, i)
		}
	}
	if err := adjust(tested, whole); err != nil {
		return nil, err
	}
	slices.SortFunc(items, func(a, b *Item) int {
		if a.Ranked != b.Ranked {
			return before(a.Ranked)
		}
		return cmp.Or(cmp.Compare(math.Abs(*b.Change.Estimate), math.Abs(*a.Change.Estimate)), cmp.Compare(a.Name, b.Name))
	})
	sorted := make([]Item, len(items))
	for at, i := range items {
		sorted[at] = *i
	}
	return sorted, nil
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

func item(all map[string]*Item, name string) *Item {
	if all[name] == nil {
		all[name] = &Item{Name: name}
	}
	return all[name]
}

// adjust tests the items as one family and marks those that have changed.
func adjust(items []*Item, whole float64) error {
	if len(items) == 0 {
		return nil
	}
	slices.SortFunc(items, func(a, b *Item) int { return cmp.Compare(a.Name, b.Name) })
	ps := make([]float64, len(items))
	for at, i := range items {
		ps[at] = *i.P
	}
	adjusted, err := stat.Holm(ps)
	if err != nil {
		return err
	}
	for at, i := range items {
		i.Adjusted = &adjusted[at]
		i.Ranked = adjusted[at] < alpha && math.Abs(*i.Change.Estimate) >= leastChange*whole
	}
	return nil
}

func bound(e *rundir.Estimate, m stat.Mean) {
	low, high := m.Interval.Low, m.Interval.High
	e.Low, e.High, e.Confidence, e.Interval = &low, &high, confidence, rundir.ByStudentPairs
}

// summed is the paired mean of a value over rounds.
func summed(values []float64) (rundir.Estimate, error) {
	e := rundir.Estimate{Values: values, Interval: rundir.NoInterval}
	if len(values) == 0 {
		return e, nil
	}
	if len(values) == 1 {
		e.Estimate = &values[0]
		return e, nil
	}
	m, err := stat.PairedMean(values, confidence)
	if err != nil {
		return e, err
	}
	e.Estimate = &m.Estimate
	bound(&e, m)
	return e, nil
}
