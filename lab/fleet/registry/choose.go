package registry

import (
	"cmp"
	"fmt"
	"slices"
)

// Choose returns n agents that take parts: those with the fewest parts first, then by name. 0 is all. If
// alone, only agents without parts are chosen.
func Choose(all []Agent, n int, alone bool) ([]Agent, error) {
	var free []Agent
	for _, a := range all {
		if !a.Cordoned && !a.Held && (!alone || a.Parts == 0) {
			free = append(free, a)
		}
	}
	if len(free) == 0 || len(free) < n {
		return nil, fmt.Errorf("%d agents match, and %d of them are free: want %d", len(all), len(free), max(n, 1))
	}
	slices.SortFunc(free, func(a, b Agent) int { return cmp.Or(cmp.Compare(a.Parts, b.Parts), cmp.Compare(a.Name, b.Name)) })
	if n > 0 {
		free = free[:n]
	}
	return free, nil
}
