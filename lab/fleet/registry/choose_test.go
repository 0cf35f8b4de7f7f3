package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/lab/fleet/agent"
)

func TestChoose(t *testing.T) {
	of := func(name string, parts int) Agent { return Agent{Info: agent.Info{Name: name, Parts: parts}} }
	cordoned, held := of("c", 0), of("h", 0)
	cordoned.Cordoned, held.Held = true, true
	all := []Agent{of("a", 2), of("b", 1), cordoned, of("d", 0), of("e", 0), of("f", 1), held}
	for _, c := range []struct {
		all   []Agent
		n     int
		alone bool
		want  string // names, or the error
	}{
		{all, 0, false, "d e b f a"},
		{all, 3, false, "d e b"},
		{all, 0, true, "d e"},
		{all, 6, false, "7 agents match, and 5 of them are free: want 6"},
		{all, 3, true, "7 agents match, and 2 of them are free: want 3"},
		{nil, 0, false, "0 agents match, and 0 of them are free: want 1"},
	} {
		chosen, err := Choose(c.all, Want{Count: c.n, Alone: c.alone})
		var names []string
		for _, a := range chosen {
			names = append(names, a.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d of %d, alone %v: %s, want %s", c.n, len(c.all), c.alone, got, c.want)
		}
	}
}

// A run that wants machines alone gets them although small runs arrive all the time: each that began before it was
// reserved for ends, and no other begins. Of runs that want some of the same machines alone, one gets them.
func TestReservedMachinesBecomeFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := make([]Agent, rapid.IntRange(1, 6).Draw(t, "agents"))
		for i := range all {
			all[i].Name = fmt.Sprint("a", i)
			all[i].Parts = rapid.IntRange(0, 3).Draw(t, "parts")
			all[i].Cordoned = rapid.IntRange(0, 9).Draw(t, "cordoned") == 0
		}
		usable := len(slices.DeleteFunc(slices.Clone(all), func(a Agent) bool { return a.Cordoned }))
		if usable == 0 {
			return
		}
		type waiting struct {
			Want
			match []int
		}
		var alone []*waiting
		for i := range rapid.IntRange(1, 3).Draw(t, "runs") {
			w := &waiting{Want: Want{Alone: true, By: fmt.Sprint("r", i)}}
			for j := range all {
				if rapid.Bool().Draw(t, "matches") {
					w.match = append(w.match, j)
				}
			}
			free := 0
			for _, j := range w.match {
				if !all[j].Cordoned {
					free++
				}
			}
			if free > 0 {
				w.Count = rapid.IntRange(0, free).Draw(t, "count")
				alone = append(alone, w)
			}
		}
		began := 0 // of small runs, since the last run got its machines
		for step := 0; len(alone) > 0; step++ {
			if began > 100 {
				t.Fatalf("%d small runs began, and none that wants machines alone: %+v", began, all)
			}
			// A small run arrives, and one part of a machine ends.
			if small, err := Choose(all, Want{Count: 1}); err == nil {
				i := slices.IndexFunc(all, func(a Agent) bool { return a.Name == small[0].Name })
				if a := all[i]; a.Held || a.Cordoned || a.ReservedBy != "" {
					t.Fatalf("a small run began on %+v", a)
				}
				all[i].Parts++
			}
			began++
			if i := step % len(all); all[i].Parts > 0 {
				all[i].Parts--
			}
			w := alone[rapid.IntRange(0, len(alone)-1).Draw(t, "turn")]
			var match []Agent
			for _, j := range w.match {
				match = append(match, all[j])
			}
			chosen, err := Choose(match, w.Want)
			if busy := (*BusyError)(nil); errors.As(err, &busy) {
				reserve(all, w.By, busy.Reserve)
				continue
			}
			for _, a := range chosen {
				if a.Parts > 0 || a.Held || a.Cordoned {
					t.Fatalf("a run got %+v alone", a)
				}
			}
			reserve(all, w.By, nil) // it has begun, and has ended at once
			alone = slices.DeleteFunc(alone, func(of *waiting) bool { return of == w })
			began = 0
		}
	})
}

// reserve is what Reservation.Take does in a control plane.
func reserve(all []Agent, by string, of []Agent) {
	wanted := func(a Agent) bool {
		return slices.ContainsFunc(of, func(w Agent) bool { return w.Name == a.Name })
	}
	taken := slices.ContainsFunc(all, func(a Agent) bool { return wanted(a) && a.ReservedBy != "" && a.ReservedBy != by })
	for i := range all {
		switch a := &all[i]; {
		case wanted(*a) && !taken:
			a.ReservedBy = by
		case a.ReservedBy == by:
			a.ReservedBy = ""
		}
	}
}
