package experiment

import (
	"fmt"
	"math"
	"time"
)

// leastSoak is how long a soak lasts if its trends are to mean anything: caches
// fill and garbage collectors settle for minutes.
const leastSoak = 10 * time.Minute

func (i *inspector) capacity(e *Experiment) {
	c := e.Capacity
	rate := specAt("capacity.to")
	switch {
	case !i.c.reliable("capacity.from"): // an edge that is not known
	case c.To <= c.From:
		i.fault("capacity.to", fmt.Sprintf("%s is not above from, %s", rate.format(c.To), rate.format(c.From)), "a higher rate, or a lower from")
	case c.To <= c.From*(1+c.Resolution):
		i.fault("capacity.to", fmt.Sprintf("the range is narrower than the resolution, %s", specAt("capacity.resolution").format(c.Resolution)), "a wider one")
	}
	if len(e.Thresholds) == 0 && i.c.reliable("thresholds") {
		i.fault("capacity", "there is no threshold that a rate could break", `such as thresholds: ["response.p99 < 50ms"]`)
	}
	if e.Soak {
		i.fault("soak", "capacity and soak exclude each other", "keep one of them")
	}
}

// searched judges a load whose rate the search sets.
func (i *inspector) searched(l *Load) {
	switch {
	case l.Subscribers != nil && l.Publish == nil:
		i.fault("load.publish", "is missing: a search for capacity sets the rate of publishing", "such as publish: {path: /publish} with open: {}")
	case l.Closed != nil:
		i.fault("load.closed", "a search for capacity sets the rate of an open load", "open: {}")
	case l.Open == nil: // reported as for any load
	case len(l.Open.Stages) > 0:
		i.fault("load.stages", "a search for capacity sets the rate itself", "remove them")
	case l.Open.Rate != 0:
		i.fault("load.open.rate", "a search for capacity sets the rate itself", "remove it")
	}
}

// Sending is how many arrivals there must be on average for a number of requests.
func (o *Open) Sending(requests int) float64 {
	if o.Arrivals == ArrivalsPoisson && requests > 0 {
		// Four standard deviations more: one trial in 30,000 has fewer than needed.
		return math.Pow(2+math.Sqrt(4+float64(requests)), 2)
	}
	return float64(requests)
}

// searchable reports a threshold that needs more requests in a trial than a search sends at its
// lowest rate: it would be broken there whatever the target does.
func (r *reader) searchable(n *node, e *Experiment, needed int) {
	rate := specAt("capacity.from")
	for _, v := range e.Variants {
		l := &v.Load
		if l.Open == nil || l.Window <= 0 || l.Requests > 0 || l.Subscribers != nil || l.Scenario != nil {
			continue // reported as such, or there are more figures than arrivals
		}
		enough := l.Open.Sending(needed)
		if sent := e.Capacity.From * l.Window.Seconds(); needed > 0 && sent < enough {
			window := time.Duration(math.Ceil(enough/e.Capacity.From*10)) * time.Second / 10
			r.fault(n, fmt.Sprintf("needs %d requests in each trial: %s for %v are about %.0f", needed, rate.format(e.Capacity.From), l.Window, sent),
				fmt.Sprintf("capacity.from: %s or more, or load.window: %v or more", rate.format(math.Ceil(enough/l.Window.Seconds())), window))
			return
		}
	}
}

func (i *inspector) soak(e *Experiment) {
	switch {
	case e.Ladder != nil:
		i.fault("soak", "ladder and soak exclude each other", "keep one of them; a soak can have a compare")
	case len(e.Sweep) > 0:
		i.fault("soak", "sweep and soak exclude each other", "keep one of them; a soak can have a compare")
	}
}

// hurriedSoak warns of a soak that is short, but in a short form, and of one that
// is repeated until a comparison is settled.
func (r *reader) hurriedSoak(e *Experiment) {
	if !e.Soak {
		return
	}
	if w := e.Variants[0].Load.Window; w != 0 && w < leastSoak && !e.Short {
		r.warn(r.from("load.window"), fmt.Sprintf("%v are short for a soak", w), "a trend shows in 10m or more")
	}
	if e.Design.Stop != StopFixed {
		r.warn("design.stop", fmt.Sprintf("the soak is repeated up to %d times", e.Design.Rounds), "fixed")
	}
}
