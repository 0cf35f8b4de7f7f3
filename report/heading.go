package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/units"
	"dyno/report/figure"
	"dyno/results/rundir"
)

func (p *page) heading() {
	p.Section(p.Title())
	p.Parts[0].Flush = true
	if p.Run.Question != "" {
		p.Line("%s", p.Run.Question)
	}
	if load := p.load(); load != "" {
		p.Line("%s", load)
	}
}

// load describes the load, where all variants agree on it, and how often it was repeated.
func (p *page) load() string {
	plan := p.Run.Plan
	var parts []string
	common := func(of func(rundir.PlanVariant) string) {
		var values []string
		for _, v := range plan.Variants {
			values = append(values, of(v))
		}
		if values = slices.Compact(values); len(values) == 1 && values[0] != "" {
			parts = append(parts, values[0])
		}
	}
	if plan.Protocol != "" {
		parts = append(parts, plan.Protocol)
	}
	if !p.IsProgram() {
		common(func(v rundir.PlanVariant) string {
			if v.Subscribers == 0 {
				return ""
			}
			return figure.Plural(v.Subscribers, "subscriber")
		})
		common(func(v rundir.PlanVariant) string {
			switch {
			case v.Loop == "stream":
				return "events of the target's own"
			case v.Subscribers > 0:
				return v.Loop + " loop of publications"
			}
			return v.Loop + " loop"
		})
		common(func(v rundir.PlanVariant) string {
			if v.Rate == nil {
				return ""
			}
			return strconv.FormatFloat(*v.Rate, 'f', -1, 64) + " " + p.Sent() + "/s"
		})
		if c := plan.Capacity; c != nil {
			parts = append(parts, "a search from "+units.Figure(c.From)+" to "+units.Figure(c.To)+" "+p.Sent()+"/s")
		}
		common(func(v rundir.PlanVariant) string {
			switch v.Loop {
			case "stream":
				return ""
			case "open":
				return "at most " + figure.Plural(v.Connections, "connection")
			}
			return figure.Plural(v.Connections, "connection")
		})
		common(func(v rundir.PlanVariant) string {
			if v.WindowSeconds == 0 {
				return "" // the number of requests ends the window
			}
			return "window " + units.FormatSeconds(v.WindowSeconds)
		})
		common(func(v rundir.PlanVariant) string { return "warm-up " + units.FormatSeconds(v.WarmupSeconds) })
	}
	if rounds := p.rounds(); rounds != "" {
		parts = append(parts, rounds)
	}
	if d := plan.Duet; d != nil {
		parts = append(parts, duet(d, plan.Base))
	}
	if s := plan.Profile; s != nil {
		parts = append(parts, "profiled ("+strings.Join(s.Kinds, ", ")+"; see dyno explain)")
	}
	if plan.Short {
		parts = append(parts, "short form")
	}
	return strings.Join(parts, ", ")
}

// duet says which variants are measured at once, and where.
func duet(d *rundir.PlanDuet, base string) string {
	place := func(s rundir.CPUSet) string {
		if s.Shared() {
			return "CPU " + units.FormatCPUs(s.TargetCPUs)
		}
		return "CPU " + units.FormatCPUs(s.TargetCPUs) + " (generator " + units.FormatCPUs(s.LoadCPUs) + ")"
	}
	return fmt.Sprintf("duet: %s and another at once, on %s and %s, exchanged every round; only ratios are known",
		figure.Printable(base), place(d.CPUSets[0]), place(d.CPUSets[1]))
}

func (p *page) rounds() string {
	plan := p.Run.Plan
	if plan.Rounds <= 1 {
		return ""
	}
	text := figure.Plural(plan.Rounds, "round")
	if plan.HasStoppingRule() {
		text = "at most " + text
	}
	return text + " in random order (seed " + strconv.FormatUint(plan.Seed, 10) + ")"
}
