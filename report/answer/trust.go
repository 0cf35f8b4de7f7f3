package answer

import (
	"cmp"
	"slices"

	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// sure says how sure the answer is.
func sure(j *judged.Result) []texts.Message {
	if j.IsQuick() {
		return []texts.Message{texts.New("sure.trial")}
	}
	lines := []texts.Message{counted("sure.rounds", j.Run.Rounds)}
	confidence := 0.
	for _, c := range j.Run.Comparisons {
		if c.Ratio.Low != nil || c.Ratio.High != nil {
			confidence = max(confidence, c.Ratio.Confidence)
		}
	}
	for _, v := range j.Run.Variants {
		for _, metric := range []string{rundir.MetricThroughput, rundir.MetricCapacity} {
			if rate := v.Figure(metric); rate.Low != nil {
				confidence = max(confidence, rate.Confidence)
			}
		}
	}
	if j.Run.Chosen != nil {
		lines = append(lines, *j.Run.Chosen)
	}
	if confidence > 0 {
		lines = append(lines, texts.New("sure.confidence", "confidence", figure.Digits(100*confidence)))
	}
	found := j.Primary(rundir.RoleControl)
	for _, c := range found {
		lines = append(lines, Control(j, c))
	}
	switch {
	case len(found) > 0:
	case j.Run.Plan.Control != "":
		lines = append(lines, texts.New("sure.control.missing"))
	case len(j.Run.Comparisons) > 0:
		lines = append(lines, texts.New("sure.control.none"))
	}
	return lines
}

// Control says how well the control agrees: by as much as its interval reaches.
func Control(j *judged.Result, c rundir.Comparison) texts.Message {
	r := c.Ratio
	if r.Estimate == nil || r.Low == nil || r.High == nil {
		return texts.New("sure.control.few").With("rounds", ofRounds(c))
	}
	if j.ControlDiffers() {
		return texts.New("sure.control.differs", "share", figure.Margin(*r.Estimate-1), "interval", figure.Factors(r))
	}
	if *r.High > 2**r.Low {
		return texts.New("sure.control.wide")
	}
	return texts.New("sure.control", "share", figure.Margin(max(*r.High-1, 1-*r.Low)))
}

// trust counts the figures by state.
func trust(j *judged.Result) []texts.Message {
	counts := map[string]int{}
	for _, v := range j.Run.Validity {
		counts[v.State]++
	}
	all := len(j.Run.Validity)
	switch of := figure.Whole(int64(all)); {
	case all == 0:
		return nil
	case counts[rundir.StateOK] == all:
		return []texts.Message{texts.New("trust.all", "of", of)}
	default:
		lines := []texts.Message{texts.New("trust.ok", "n", figure.Whole(int64(counts[rundir.StateOK])), "of", of)}
		for _, s := range []struct{ state, kind string }{
			{rundir.StateBounded, "trust.bounded"}, {rundir.StateRelative, "trust.relative"}, {rundir.StateNotIdentified, "trust.unknown"},
		} {
			if n := counts[s.state]; n > 0 {
				lines = append(lines, texts.New(s.kind, "n", figure.Whole(int64(n))))
			}
		}
		return lines
	}
}

// askedBadly are the figures that were asked for and are not as printed, the worst first.
func askedBadly(j *judged.Result) []rundir.Validity {
	var list []rundir.Validity
	for _, v := range j.Run.Validity {
		if v.Asked && v.State != rundir.StateOK {
			list = append(list, v)
		}
	}
	rank := []string{rundir.StateNotIdentified, rundir.StateRelative, rundir.StateBounded}
	slices.SortStableFunc(list, func(a, b rundir.Validity) int {
		return cmp.Compare(slices.Index(rank, a.State), slices.Index(rank, b.State))
	})
	return list
}

func doubtful(j *judged.Result) []texts.Message {
	var lines []texts.Message
	for _, v := range askedBadly(j) {
		of := j.Message("trust.of", "metric", v.Figure, "variant", v.Variant)
		if v.Base != "" {
			of = texts.New("trust.over", "metric", v.Figure, "variant", v.Variant, "base", v.Base)
		}
		l := texts.New("trust.asked.unknown")
		switch {
		case v.State == rundir.StateRelative:
			l = texts.New("trust.asked.relative")
		case v.TooDisturbed && v.State == rundir.StateBounded:
			l = texts.New("trust.asked.wide")
		case v.State == rundir.StateBounded && v.Low != nil && v.High != nil:
			u := figure.UnitOf(v.Figure)
			if v.Base != "" {
				u = figure.Plain()
			}
			l = texts.New("trust.asked.bounded", "low", u.Write(max(0, *v.Low)), "high", u.Write(*v.High))
		}
		lines = append(lines, l.With("figure", of).With("why", judged.Because(v)))
	}
	return lines
}

// again says what was measured again: trials whose agents were lost, and how many rounds, with the outcome that the
// run has with these.
func again(j *judged.Result) (lines []texts.Message) {
	rounds := map[int]bool{}
	var void []texts.Message
	for _, e := range j.Run.Trials {
		if e.Excluded {
			rounds[e.Round] = true
		}
		for _, c := range e.Checks {
			if e.Replaced && c.Kind == checks.FlagIncomplete && c.About == rundir.AboutGenerator {
				void = append(void, texts.Verbatim(c.Detail.Values["error"]))
			}
		}
	}
	if len(void) > 0 {
		lines = append(lines, counted("again.agents", len(void)).With("why", texts.Together(void...)))
	}
	if len(rounds) == 0 {
		return lines
	}
	lines = append(lines, counted("again.rounds", len(rounds)))
	for _, c := range j.Primary("") {
		if c.AllRounds != nil {
			return append(lines, texts.New("again.with", "variant", c.Variant, "base", c.Base, "metric", c.Metric, "change", figure.Change(*c.AllRounds)))
		}
	}
	return lines
}
