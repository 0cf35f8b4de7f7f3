package stat

import (
	"cmp"
	"fmt"
	"slices"
)

// Holm returns adjusted p-values. A finding is an adjusted p-value of at most alpha. The chance of any
// false finding in the family is at most alpha. This holds however the tests depend on each other
// (Holm: A simple sequentially rejective multiple test procedure, 1979). The adjusted values keep the
// order of the argument. An empty family is none; a p outside 0 to 1 is an error.
func Holm(p []float64) ([]float64, error) {
	order, err := rising(p)
	if err != nil {
		return nil, err
	}
	adjusted := make([]float64, len(p))
	last := 0.0
	for k, i := range order {
		last = max(last, min(1, float64(len(p)-k)*p[i]))
		adjusted[i] = last
	}
	return adjusted, nil
}

// rising returns the places of p-values, the smallest first.
func rising(p []float64) ([]int, error) {
	order := make([]int, len(p))
	for i, x := range p {
		if !(x >= 0 && x <= 1) {
			return nil, fmt.Errorf("p-value %d is %v: want 0 to 1", i, x)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	return order, nil
}
