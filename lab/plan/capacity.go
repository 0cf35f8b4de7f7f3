package plan

import (
	"cmp"
	"fmt"
	"math"
)

func (i *inspector) capacity(e *Experiment) {
	c := e.Capacity
	rate := DeclaredAt("capacity.to")
	switch {
	case !i.c.Reliable("capacity.from"): // an edge that is not known
	case c.To <= c.From:
		i.fault("capacity.to", fmt.Sprintf("%s is not above from, %s", rate.Format(c.To), rate.Format(c.From)), "a higher rate, or a lower from")
	case c.To <= c.From*(1+c.Resolution):
		i.fault("capacity.to", fmt.Sprintf("the range is narrower than the resolution, %s", DeclaredAt("capacity.resolution").Format(c.Resolution)), "a wider one")
	}
	for n, t := range e.Thresholds {
		if t.Abort {
			i.fault(fmt.Sprintf("thresholds[%d].abort", n), "a search for capacity breaks thresholds on purpose", "leave it out")
		}
	}
	if len(e.Thresholds) == 0 && i.c.Reliable("thresholds") {
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
	case l.Paces != nil:
		i.fault("load.paces", "a search has one rate for all", "remove them")
	case len(l.Stages) > 0:
		i.fault("load.stages", "a search for capacity sets the rate itself", "remove them")
	case l.Open.Rate != 0:
		i.fault("load.open.rate", "a search for capacity sets the rate itself", "remove it")
	}
}

// DefaultConnections is how many an open load may have, and with how many a search begins.
const DefaultConnections = 500

// Connections is the most that there may be outside of searches.
func (o *Open) Connections() int { return cmp.Or(o.MaxConnections, DefaultConnections) }

// Sending is how many arrivals there must be on average for a number of requests.
func (o *Open) Sending(requests int) float64 {
	if o.Arrivals == ArrivalsPoisson && requests > 0 {
		// Four standard deviations more: one trial in 30,000 has fewer than needed.
		return math.Pow(2+math.Sqrt(4+float64(requests)), 2)
	}
	return float64(requests)
}

func (i *inspector) soak(e *Experiment) {
	switch {
	case e.Ladder != nil:
		i.fault("soak", "ladder and soak exclude each other", "keep one of them; a soak can have a compare")
	case len(e.Sweep) > 0:
		i.fault("soak", "sweep and soak exclude each other", "keep one of them; a soak can have a compare")
	}
}
