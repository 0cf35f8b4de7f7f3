package registry

import (
	"cmp"
	"fmt"
	"slices"
)

// A Want is a run's demand for agents, among those that match.
type Want struct {
	Count int    // 0: all
	Alone bool   // with exclusive use of their machines
	By    string // the lease of the caller's reservation; empty: none
}

// A BusyError says that a run cannot begin now.
type BusyError struct {
	Match, Free, Want int
	// Reserve are the agents to reserve for exclusive use: no other run then begins there. Without any, waiting does
	// not help.
	Reserve []Agent
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d agents match, and %d of them are free: want %d", e.Match, e.Free, e.Want)
}

// Choose returns agents that accept parts: those with the fewest parts first, then by name. The error is a
// *BusyError. Choose is a pure function.
func Choose(all []Agent, w Want) ([]Agent, error) {
	var free, later []Agent
	for _, a := range all {
		switch mine := a.ReservedBy == w.By; {
		case a.Cordoned || a.ReservedBy != "" && !mine:
		case a.Held || w.Alone && a.Parts > 0:
			later = append(later, a)
		default:
			free = append(free, a)
		}
	}
	order := func(a, b Agent) int { return cmp.Or(cmp.Compare(a.Parts, b.Parts), cmp.Compare(a.Name, b.Name)) }
	slices.SortFunc(free, order)
	slices.SortFunc(later, order)
	n := cmp.Or(w.Count, max(len(free), 1))
	if len(free) >= n {
		return free[:n], nil
	}
	busy := &BusyError{Match: len(all), Free: len(free), Want: n}
	candidates := slices.Concat(free, later)
	if w.Count > 0 {
		candidates = candidates[:min(len(candidates), n)]
	}
	if w.Alone && len(candidates) >= n {
		busy.Reserve = candidates
	}
	return nil, busy
}
