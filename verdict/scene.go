package verdict

import (
	"fmt"
	"maps"
	"slices"
)

// A scene is what expressions look at.
type scene struct {
	variant string                      // whose metrics bare names are
	whole   map[string]*figures         // by variant, over all its trials
	rounds  map[string]map[int]*figures // by variant and round
}

func (s *scene) value(variant string, m metric) (float64, error) {
	f := s.whole[variant]
	if f == nil || f.Trials == 0 {
		return 0, fmt.Errorf("no complete trial of %s", variant)
	}
	v := m.get(f)
	if v == nil {
		return 0, fmt.Errorf("%s of %s is not known: not observed, or too few values", m.name, variant)
	}
	return *v, nil
}

// ratio is the median over the rounds of variant over base: neighbours in a
// round ran close together, so that drift cancels.
func (s *scene) ratio(variant, base string, m metric) (float64, error) {
	v := median(s.ratios(variant, base, m))
	if v == nil {
		return 0, fmt.Errorf("%s is known of both %s and %s in no round: not observed, or too few values", m.name, variant, base)
	}
	return *v, nil
}

// ratios returns the ratio of each round that has one, in the rounds' order.
func (s *scene) ratios(variant, base string, m metric) []float64 {
	var ratios []float64
	for _, round := range slices.Sorted(maps.Keys(s.rounds[variant])) {
		b := s.rounds[base][round]
		if b == nil {
			continue
		}
		over, under := m.get(s.rounds[variant][round]), m.get(b)
		if over != nil && under != nil && *under != 0 {
			ratios = append(ratios, *over / *under)
		}
	}
	return ratios
}
