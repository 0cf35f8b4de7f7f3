package answer

import (
	"cmp"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

func claimOutcomes(j *judged.Result) texts.Message {
	kinds := []struct{ outcome, kind string }{
		{rundir.Holds, "answer.claims.holds"}, {rundir.Agrees, "answer.claims.agrees"}, {rundir.Larger, "answer.claims.larger"},
		{rundir.Smaller, "answer.claims.smaller"}, {rundir.Refuted, "answer.claims.refuted"},
		{rundir.NotSettled, "answer.claims.open"}, {rundir.NotTestable, "answer.claims.untestable"},
	}
	counts := map[string]int{}
	for _, c := range j.Run.Claims {
		counts[c.Outcome]++
	}
	var parts []texts.Message
	for _, k := range kinds {
		if n := counts[k.outcome]; n > 0 {
			parts = append(parts, counted(k.kind, n))
		}
	}
	return counted("answer.claims", len(j.Run.Claims)).With("parts", parts...)
}

func sweeps(j *judged.Result) []texts.Message {
	var lines []texts.Message
	if m := unranked(j, j.Run.Sweeps[0].Metric); m != nil {
		return []texts.Message{*m}
	}
	for _, s := range j.Run.Sweeps {
		best, ok := highest(s.Levels)
		if !ok || figure.UnitOf(s.Metric).Suffix() == "" {
			continue
		}
		l := texts.New("answer.sweep", "metric", s.Metric, "variable", s.Variable, "level", figure.Level(best.Value), "figure", j.BrieflyIn(best.Variant, s.Metric, best.Figure))
		if len(s.Fixed) > 0 {
			var fixed []string
			for _, d := range j.Run.Plan.Sweep {
				if v, ok := s.Fixed[d.Name]; ok {
					fixed = append(fixed, d.Name+" "+v)
				}
			}
			for name, v := range s.Fixed {
				if len(fixed) == 0 {
					fixed = append(fixed, name+" "+v)
				}
			}
			l.Kind, l.Values["fixed"] = "answer.sweep.fixed", strings.Join(fixed, ", ")
		}
		lines = append(lines, l)
	}
	if len(j.Run.Sweeps) > 1 || len(lines) == 0 {
		lines = append(extremes(j, j.Run.Sweeps[0].Metric), lines...)
	}
	return lines
}

func highest(levels []rundir.Level) (best rundir.Level, ok bool) {
	for _, l := range levels {
		if e := l.Figure.Estimate; e != nil && (!ok || *e > *best.Figure.Estimate) {
			best, ok = l, true
		}
	}
	return best, ok
}

// unranked says how many variants are too disturbed for a rank in a metric; nil if none is.
func unranked(j *judged.Result, metric string) *texts.Message {
	n := 0
	for _, v := range j.Run.Validity {
		if v.Figure == metric && v.Base == "" && v.TooDisturbed {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return new(texts.New("answer.unranked", "metric", metric, "n", figure.Whole(int64(n)), "of", figure.Whole(int64(len(j.Run.Variants)))))
}

// extremes names the best and the worst variant in a metric.
func extremes(j *judged.Result, metric string) []texts.Message {
	type place struct {
		name  string
		value float64
	}
	var places []place
	if m := unranked(j, metric); m != nil {
		return []texts.Message{*m}
	}
	for _, v := range j.Run.Variants {
		if e := v.Figure(metric); e.Estimate != nil && v.Name != j.Run.Plan.Control && j.State(metric, v.Name, "").State != rundir.StateNotIdentified {
			places = append(places, place{v.Name, *e.Estimate})
		}
	}
	if len(places) < 2 {
		return nil
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.value, b.value) })
	first, last := places[0].name, places[len(places)-1].name
	if figure.UnitOf(metric).Suffix() == "" {
		return []texts.Message{texts.New("answer.shortest", "variant", first, "metric", metric, "figure", j.Briefly(first, metric), "other", last, "most", j.Briefly(last, metric))}
	}
	return []texts.Message{texts.New("answer.highest", "variant", last, "metric", metric, "figure", j.Briefly(last, metric), "other", first, "least", j.Briefly(first, metric))}
}

func capacities(j *judged.Result) []texts.Message {
	var lines []texts.Message
	for _, c := range j.Run.Capacities {
		switch rate := j.Run.Variant(c.Variant).Figure(rundir.MetricCapacity); {
		case rate.Estimate == nil:
			lines = append(lines, texts.New("answer.capacity.none", "variant", c.Variant))
		case c.Limit == "" && c.LimitBecause == nil:
			lines = append(lines, texts.New("answer.capacity", "variant", c.Variant, "rate", figure.Rates().Estimate(rate)))
		default:
			l := texts.New("answer.capacity.limit", "variant", c.Variant, "rate", figure.Rates().Estimate(rate), "limit", c.Limit)
			if c.LimitBecause != nil {
				l = l.With("limit", *c.LimitBecause)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// trends says what grew in a soak, and by how much.
func trends(j *judged.Result) []texts.Message {
	var grows, still []texts.Message
	for _, x := range j.Run.Trends {
		e := x.Slope
		if e.Estimate == nil {
			continue
		}
		span := j.MeasuredSpan(x.Variant)
		text, interval, _ := strings.Cut(figure.Over(e, span), " (")
		l := texts.New("answer.soak.still", "gauge", x.Metric, "variant", x.Variant, "growth", text,
			"time", units.FormatSeconds(span), "interval", strings.TrimSuffix(interval, ")")+"%")
		if e.Low != nil && *e.Low > 0 {
			l.Values["growth"] = strings.TrimPrefix(text, "+")
			l.Kind = "answer.soak.grows"
			grows = append(grows, l)
		} else if interval != "" {
			still = append(still, l)
		}
	}
	if lines := append(grows, still...); len(lines) > 0 {
		return lines
	}
	var lines []texts.Message
	for _, v := range j.Run.Variants {
		lines = append(lines, texts.New("answer.soak.unknown", "variant", v.Name))
	}
	return lines
}

// alone describes the measurements of a run without comparisons.
func alone(j *judged.Result) []texts.Message {
	metric := cmp.Or(j.Run.Plan.Metric, "throughput")
	if len(j.Run.Variants) > mostSentences {
		return extremes(j, metric)
	}
	var lines []texts.Message
	for _, v := range j.Run.Variants {
		e := v.Figure(metric)
		if e.Estimate == nil {
			continue
		}
		l := j.Message("answer.alone", "variant", v.Name, "metric", metric, "figure", j.Briefly(v.Name, metric))
		if s := j.State(metric, v.Name, ""); s.State == rundir.StateNotIdentified {
			l = j.Message("answer.unknown", "variant", v.Name, "metric", metric, "figure", l.Values["figure"]).With("why", judged.Because(s))
		}
		lines = append(lines, l)
	}
	return lines
}
