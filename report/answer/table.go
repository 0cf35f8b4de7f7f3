package answer

import (
	"cmp"
	"slices"
	"strconv"

	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// table is the small table of an answer; nil where there is nothing to list.
func table(j *judged.Result) *Brief {
	var b *Brief
	switch {
	case j.IsEmpty():
		return nil
	case len(j.Run.Claims) > 0:
		b = claimTable(j)
	default:
		b = Figures(j)
	}
	if len(b.Rows) == 0 {
		return nil
	}
	return b
}

// Figures lists what was compared or measured.
func Figures(j *judged.Result) *Brief {
	switch {
	case len(j.Run.Ladder) > 0:
		return ladderTable(j)
	case len(j.Run.Capacities) > 0:
		return capacityTable(j)
	case slices.ContainsFunc(j.Run.Comparisons, func(c rundir.Comparison) bool { return c.Role != rundir.RoleControl }):
		return comparisonTable(j)
	case len(j.Run.Trends) > 0:
		return trendTable(j)
	}
	return variantTable(j)
}

// claimTable lists the claims. Claims that do not hold come first.
func claimTable(j *judged.Result) *Brief {
	order := []string{rundir.Refuted, rundir.Smaller, rundir.Larger, rundir.NotSettled, rundir.Agrees, rundir.Holds, rundir.NotTestable}
	list := slices.Clone(j.Run.Claims)
	slices.SortStableFunc(list, func(a, b rundir.Claim) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome)), judged.CompareIDs(a.ID, b.ID))
	})
	b := &Brief{Kind: "claims", Head: []string{"outcome", "claim", "published", "measured", "says"}}
	columns := func(row []string) []string {
		if !j.HasSizes() {
			return slices.Delete(row, 2, 3)
		}
		return row
	}
	b.Head = columns(b.Head)
	for _, c := range list {
		b.Rows = append(b.Rows, columns([]string{c.Outcome, c.ID, cmp.Or(c.Published, figure.Unknown), cmp.Or(j.Claimed(c), figure.Unknown), c.Says}))
	}
	return b
}

func ladderTable(j *judged.Result) *Brief {
	metric := j.Run.Plan.Metric
	b := &Brief{Kind: "ladder", Head: []string{"step", metric, "marginal", "verdict", "total"}}
	for _, s := range j.Run.Ladder {
		marginal, total := figure.Unknown, figure.Unknown
		if s.Marginal != nil {
			marginal = judged.ChangeUnder(s.Verdict, *s.Marginal)
		}
		if s.Total != nil {
			total = judged.ChangeUnder(s.TotalVerdict, *s.Total)
		}
		b.Rows = append(b.Rows, []string{s.Variant, j.Briefly(s.Variant, metric), marginal, s.Verdict, total})
	}
	return b
}

func capacityTable(j *judged.Result) *Brief {
	b := &Brief{Kind: "capacities", Head: []string{"variant", "capacity", "rounds", "limit"}}
	for _, c := range j.Run.Capacities {
		b.Rows = append(b.Rows, []string{c.Variant, j.Briefly(c.Variant, rundir.MetricCapacity), strconv.Itoa(len(c.Searches)), cmp.Or(c.Limit, c.LimitBecause.English(), figure.Unknown)})
	}
	return b
}

// comparisonTable lists comparisons in the primary metric. If there is only one, it
// lists that pair in the other metrics too, except those of steps.
func comparisonTable(j *judged.Result) *Brief {
	list := j.Primary("")
	if len(list) == 1 {
		for _, c := range j.Run.Comparisons {
			_, step := rundir.SplitStep(c.Metric)
			if c.Role == "" && !c.Primary && step == "" && c.Variant == list[0].Variant && c.Base == list[0].Base {
				list = append(list, c)
			}
		}
	}
	b := &Brief{Kind: "comparisons", Head: []string{"metric", "variant", "figure", "base", "figure", "change", "verdict"}}
	for _, c := range list {
		variant, base := j.Paired(c)
		b.Rows = append(b.Rows, []string{
			c.Metric, c.Variant, variant, c.Base, base,
			ratio(j, c), cmp.Or(c.Verdict, rundir.Inconclusive),
		})
	}
	return b
}

// ratio writes a comparison's ratio as its state allows.
func ratio(j *judged.Result, c rundir.Comparison) string {
	if c.Verdict == rundir.Invalid || j.State(c.Metric, c.Variant, c.Base).State == rundir.StateNotIdentified {
		return judged.Doubted(c.Ratio)
	}
	if c.Verdict == rundir.Equivalent {
		return "= ±" + figure.Margin(j.Run.Plan.Margin)
	}
	return figure.Change(c.Ratio)
}

func trendTable(j *judged.Result) *Brief {
	b := &Brief{Kind: "trends", Head: []string{"variant", "gauge", "growth"}}
	for _, x := range j.Run.Trends {
		b.Rows = append(b.Rows, []string{x.Variant, x.Metric, j.Grown(x.Variant, x.Slope)})
	}
	return b
}

// variantTable lists the main figures of each variant.
func variantTable(j *judged.Result) *Brief {
	metrics := []string{"throughput"}
	if len(j.Run.Variants) > 0 {
		clock := j.Clock(j.Run.Variants[0].Name)
		metrics = append(metrics, clock+".p50", clock+".p99")
	}
	metrics = append(metrics, "errors.ratio")
	if j.IsProgram() {
		metrics = nil
		if m := j.Run.Plan.Metric; m != "" {
			metrics = []string{m}
		}
	} else if m := j.Run.Plan.Metric; m != "" && !slices.Contains(metrics, m) {
		metrics = slices.Insert(metrics, 0, m)
	}
	b := &Brief{Kind: "variants", Head: append([]string{"variant"}, metrics...)}
	for _, v := range j.Run.Variants {
		row := []string{v.Name}
		for _, m := range metrics {
			row = append(row, j.Briefly(v.Name, m))
		}
		b.Rows = append(b.Rows, row)
		for i := range v.Stages {
			row := []string{figure.Stage(&v.Stages[i].Planned, j.Run.Plan.Variant(v.Name).Loop)}
			for _, m := range metrics {
				row = append(row, stageFigure(&v.Stages[i], j.Clock(v.Name), m))
			}
			b.Rows = append(b.Rows, row)
		}
	}
	return b
}

// stageFigure writes a figure of a stage: of the metrics that a table of variants has, a stage has four.
func stageFigure(s *rundir.Stage, clock, metric string) string {
	switch metric {
	case rundir.MetricThroughput:
		return figure.Maybe(s.Throughput, func(x float64) string { return figure.PerSecond(x) + "/s" })
	case clock + ".p50":
		return figure.Maybe(s.Times[clock].P50, figure.Seconds)
	case clock + ".p99":
		return figure.Maybe(s.Times[clock].P99, figure.Seconds)
	case rundir.MetricErrorRatio:
		if n := s.OK + s.Failed; n > 0 {
			return figure.Percent(float64(s.Failed) / float64(n))
		}
	}
	return figure.Unknown
}
