package report

import (
	"cmp"
	"slices"
	"strconv"

	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// brief is the small table of an answer; nil where there is nothing to list.
func (p *page) brief() *Brief {
	var b *Brief
	switch {
	case p.nothing():
		return nil
	case len(p.run.Claims) > 0:
		b = p.claimsBrief()
	default:
		b = p.figuresBrief()
	}
	if len(b.Rows) == 0 {
		return nil
	}
	return b
}

// figuresBrief lists what was compared or measured.
func (p *page) figuresBrief() *Brief {
	switch {
	case len(p.run.Ladder) > 0:
		return p.ladderBrief()
	case len(p.run.Capacities) > 0:
		return p.capacitiesBrief()
	case slices.ContainsFunc(p.run.Comparisons, func(c rundir.Comparison) bool { return c.Role != rundir.RoleControl }):
		return p.comparisonsBrief()
	case len(p.run.Trends) > 0:
		return p.trendsBrief()
	}
	return p.variantsBrief()
}

// claimsBrief lists the claims. Claims that do not hold come first.
func (p *page) claimsBrief() *Brief {
	order := []string{rundir.Refuted, rundir.DirectionOnly, rundir.NotSettled, rundir.Holds, rundir.NotTestable}
	list := slices.Clone(p.run.Claims)
	slices.SortStableFunc(list, func(a, b rundir.Claim) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome)), natural(a.ID, b.ID))
	})
	b := &Brief{Kind: "claims", Head: []string{"outcome", "claim", "measured", "says"}}
	for _, c := range list {
		b.Rows = append(b.Rows, []string{c.Outcome, c.ID, cmp.Or(p.claimed(c), unknown), c.Says})
	}
	return b
}

func (p *page) ladderBrief() *Brief {
	metric := p.run.Plan.Metric
	b := &Brief{Kind: "ladder", Head: []string{"step", metric, "marginal", "verdict", "total"}}
	for _, s := range p.run.Ladder {
		marginal, total := unknown, unknown
		if s.Marginal != nil {
			marginal = changeUnder(s.Verdict, *s.Marginal)
		}
		if s.Total != nil {
			total = changeUnder(s.TotalVerdict, *s.Total)
		}
		b.Rows = append(b.Rows, []string{s.Variant, p.briefly(s.Variant, metric), marginal, s.Verdict, total})
	}
	return b
}

// changeUnder writes a ratio as a change, if its verdict does not say that it is not identified.
func changeUnder(verdict string, ratio rundir.Estimate) string {
	if verdict == rundir.Invalid {
		return doubted(ratio)
	}
	return change(ratio)
}

// doubted writes a ratio that cannot be relied on as a change.
func doubted(ratio rundir.Estimate) string {
	if ratio.Estimate == nil {
		return unknown
	}
	return change(rundir.Estimate{Estimate: ratio.Estimate}) + doubt
}

func (p *page) capacitiesBrief() *Brief {
	b := &Brief{Kind: "capacities", Head: []string{"variant", "capacity", "rounds", "limit"}}
	for _, c := range p.run.Capacities {
		b.Rows = append(b.Rows, []string{c.Variant, p.brieflyIn(c.Variant, "capacity", c.Rate), strconv.Itoa(len(c.Searches)), cmp.Or(c.Limit, unknown)})
	}
	return b
}

// comparisonsBrief lists comparisons in the primary metric. If there is only one, it
// lists that pair in the other metrics too, except those of steps.
func (p *page) comparisonsBrief() *Brief {
	list := p.primary("")
	if len(list) == 1 {
		for _, c := range p.run.Comparisons {
			_, step := rundir.SplitStep(c.Metric)
			if c.Role == "" && !c.Primary && step == "" && c.Variant == list[0].Variant && c.Base == list[0].Base {
				list = append(list, c)
			}
		}
	}
	b := &Brief{Kind: "comparisons", Head: []string{"metric", "variant", "figure", "base", "figure", "change", "verdict"}}
	for _, c := range list {
		b.Rows = append(b.Rows, []string{
			c.Metric, c.Variant, p.briefly(c.Variant, c.Metric), c.Base, p.briefly(c.Base, c.Metric),
			p.ratioBriefly(c), cmp.Or(c.Verdict, rundir.Inconclusive),
		})
	}
	return b
}

// ratioBriefly writes a comparison's ratio as its state allows.
func (p *page) ratioBriefly(c rundir.Comparison) string {
	if c.Verdict == rundir.Invalid || p.state(c.Metric, c.Variant, c.Base).State == rundir.StateNotIdentified {
		return doubted(c.Ratio)
	}
	if c.Verdict == rundir.Equivalent {
		return "= ±" + margin(p.run.Plan.Margin)
	}
	return change(c.Ratio)
}

func (p *page) trendsBrief() *Brief {
	b := &Brief{Kind: "trends", Head: []string{"variant", "gauge", "growth"}}
	for _, x := range p.run.Trends {
		b.Rows = append(b.Rows, []string{x.Variant, x.Metric, p.grown(x.Variant, x.Slope)})
	}
	return b
}

// variantsBrief lists the main figures of each variant.
func (p *page) variantsBrief() *Brief {
	metrics := []string{"throughput"}
	if len(p.run.Variants) > 0 {
		clock := p.latency(p.run.Variants[0].Name)
		metrics = append(metrics, clock+".p50", clock+".p99")
	}
	metrics = append(metrics, "errors.ratio")
	if p.isProgram() {
		metrics = nil
		if m := p.run.Plan.Metric; m != "" {
			metrics = []string{m}
		}
	} else if m := p.run.Plan.Metric; m != "" && !slices.Contains(metrics, m) {
		metrics = slices.Insert(metrics, 0, m)
	}
	b := &Brief{Kind: "variants", Head: append([]string{"variant"}, metrics...)}
	for _, v := range p.run.Variants {
		row := []string{v.Name}
		for _, m := range metrics {
			row = append(row, p.briefly(v.Name, m))
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// claimed writes the measured value of a claim.
func (p *page) claimed(c rundir.Claim) string {
	if c.NotIdentified != "" && c.Measured != nil {
		return p.measured(c.Holds, expr.ForClaim, c.Measured, nil, nil) + doubt
	}
	return p.measured(c.Holds, expr.ForClaim, c.Measured, c.Low, c.High)
}
