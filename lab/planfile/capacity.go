package planfile

import (
	"fmt"
	"math"
	"time"

	"dyno/internal/fields"
	"dyno/lab/plan"
)

// leastSoak is how long a soak lasts if its trends are to mean anything: caches
// fill and garbage collectors settle for minutes.
const leastSoak = 10 * time.Minute

// searchable reports a threshold that needs more requests in a trial than a search sends at its
// lowest rate: it would be broken there whatever the target does.
func (r *reader) searchable(n *fields.Node, e *plan.Experiment, needed int) {
	rate := plan.DeclaredAt("capacity.from")
	for _, v := range e.Variants {
		l := &v.Load
		if l.Open == nil || l.Window <= 0 || l.Requests > 0 || l.Subscribers != nil || l.Scenario != nil {
			continue // reported as such, or there are more figures than arrivals
		}
		enough := l.Open.Sending(needed)
		if sent := e.Capacity.From * l.Window.Seconds(); needed > 0 && sent < enough {
			window := time.Duration(math.Ceil(enough/e.Capacity.From*10)) * time.Second / 10
			r.fault(n, fmt.Sprintf("needs %d requests in each trial: %s for %v are about %.0f", needed, rate.Format(e.Capacity.From), l.Window, sent),
				fmt.Sprintf("capacity.from: %s or more, or load.window: %v or more", rate.Format(math.Ceil(enough/l.Window.Seconds())), window))
			return
		}
	}
}

// hurriedSoak warns of a soak that is short, except in a short form. It also warns of one that is
// repeated until a comparison is settled.
func (r *reader) hurriedSoak(e *plan.Experiment) {
	if !e.Soak {
		return
	}
	if w := e.Variants[0].Load.Window; w != 0 && w < leastSoak && !e.Short {
		r.warn(r.from("load.window"), fmt.Sprintf("%v are short for a soak", w), "a trend shows in 10m or more")
	}
	if e.Design.Stop != plan.StopFixed {
		r.warn("design.stop", fmt.Sprintf("the soak is repeated up to %d times", e.Design.Rounds), "fixed")
	}
}
