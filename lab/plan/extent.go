package plan

import (
	"time"
)

// IdleRounds is the number of a duet's first rounds in which each variant also runs next to the idle
// base: once on either set of CPUs. One round has no interval to check by that.
func (d *Design) IdleRounds() int {
	if d.Rounds < 2 {
		return 0
	}
	return 2
}

// LoadTime is how long the trials of a plan load their targets, one after the other, without
// starts and stops. It is 0 where that depends on what is measured: of searches, rules that end a
// run, pilots, and programs.
func (e *Experiment) LoadTime() time.Duration {
	if e.Capacity != nil || e.Design.Pilot > 0 || e.Design.Stop != "" && e.Design.Stop != StopFixed {
		return 0
	}
	for i := range e.Variants {
		if e.Variants[i].Load.Window == 0 {
			return 0
		}
	}
	if e.Design.Duet {
		return e.duetTime()
	}
	var sum time.Duration
	for i := range e.Variants {
		l := &e.Variants[i].Load
		sum += time.Duration(e.Design.Rounds) * (l.Unmeasured() + l.Window)
		if p := e.Profile; p != nil {
			window := l.Window
			if p.Window > 0 && len(l.Stages) == 0 { // stages keep their own
				window = p.Window
			}
			sum += time.Duration(min(p.Rounds, e.Design.Rounds)) * (l.Unmeasured() + window)
		}
	}
	return sum
}

// duetTime is LoadTime of a duet: two trials share a stretch of time. The base runs next to each
// variant without load, but not next to itself.
func (e *Experiment) duetTime() (sum time.Duration) {
	var base time.Duration
	for i := range e.Variants {
		if v := &e.Variants[i]; v.Name == e.Base {
			base = v.Load.Unmeasured() + v.Load.Window
		}
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		if v.Name == e.Base {
			continue
		}
		sum += time.Duration(e.Design.Rounds) * max(base, v.Load.Unmeasured()+v.Load.Window)
		if v.AliasOf == "" {
			sum += time.Duration(e.Design.IdleRounds()) * base
		}
	}
	return sum
}
