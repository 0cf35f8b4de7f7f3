// Package compare compares variants by the ratios of their rounds, and says what may be said of
// these ratios. It knows which pairs a plan asks for, when their rounds are enough, and how a
// duet's halves face each other.
package compare

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/validity"
	"dyno/results/rundir"
)

// A Comparer compares the variants of a dataset with each other.
type Comparer struct{ validity.Assessor }

// New returns a comparer of a dataset.
func New(d *dataset.Dataset) Comparer { return Comparer{validity.Assessor{Dataset: d}} }

// A Pair is two variants that are compared: a variant and its base.
type Pair struct{ Variant, Base, Role string }

// A family is a set of pairs that answer one question together. Their p-values are
// adjusted for their number, metric by metric.
type family []Pair

// Families returns the pairs that a plan compares. The control comes first and is a
// family of its own, because it tests the measurement and not a variant.
func Families(plan rundir.Plan) []family {
	var all []family
	i := slices.IndexFunc(plan.Variants, func(v rundir.PlanVariant) bool {
		return v.Name == plan.Control && v.AliasOf != ""
	})
	if i >= 0 {
		all = append(all, family{{plan.Control, plan.Variants[i].AliasOf, rundir.RoleControl}})
	}
	if plan.Ladder != nil {
		return append(all, steps(*plan.Ladder), leftOut(*plan.Ladder))
	}
	var withBase family
	for _, v := range plan.Variants {
		if plan.Base != "" && v.Name != plan.Base && v.Name != plan.Control {
			withBase = append(withBase, Pair{Variant: v.Name, Base: plan.Base})
		}
	}
	return append(all, append(withBase, otherPairs(plan)...))
}

// otherPairs pairs the variants that are not the base with each other, where the plan asks for
// it: each with those before it. They are of one family with the comparisons with the base,
// because "which of them differ" is one question.
func otherPairs(plan rundir.Plan) (f family) {
	if !plan.Pairs {
		return nil
	}
	var before []string
	for _, v := range plan.Variants {
		if v.Name == plan.Base || v.Name == plan.Control {
			continue
		}
		for _, other := range before {
			f = append(f, Pair{v.Name, other, rundir.RolePair})
		}
		before = append(before, v.Name)
	}
	return f
}

// compared lists the metrics in which a pair is compared, with the primary one among
// them, and the times of each step of a scenario. A program's plain counts are left out: nobody knows which
// direction is good. Where all variants are compared with each other, memory is among the metrics.
// Pairs without the base are compared in those metrics alone that the question is about: each
// further one would make its family as large.
func (s Comparer) compared(p Pair) []dataset.Metric {
	var latency string // if the two have different loops, the one that both know
	for _, v := range s.Plan.Variants {
		if (v.Name == p.Variant || v.Name == p.Base) && latency != rundir.TagService {
			latency = v.Latency()
		}
	}
	names := []string{rundir.MetricThroughput, rundir.MetricCPU, rundir.MetricCapacity, s.Plan.PrimaryMetric()}
	if s.Plan.Pairs {
		names = append(names, rundir.MetricMemory)
	}
	if p.Role != rundir.RolePair {
		names = append(names, latency+".p50", latency+".p99")
	}
	var list []dataset.Metric
	for _, m := range s.Metrics() {
		further := m.IsProgram() && m.Dimension() != units.Plain || m.Step != "" && comparesSteps(m.Kind(), latency)
		if slices.Contains(names, m.Name) || further && p.Role != rundir.RolePair {
			list = append(list, m)
		}
	}
	return list
}

// comparesSteps tells whether variants are compared in such a figure of each step.
func comparesSteps(kind, latency string) bool {
	return kind == latency+".p50" || kind == latency+".p99"
}

// Compare makes all comparisons, the control's first. It leaves out comparisons for which
// no round has the figures. The notes say where a ratio would have no meaning.
func (s Comparer) Compare() (list []rundir.Comparison, notes []rundir.Message, err error) {
	list = []rundir.Comparison{}
	for _, f := range Families(s.Plan) {
		byMetric := map[string][]*rundir.Comparison{}
		var made []*rundir.Comparison
		for _, p := range f {
			confidence := s.confidence(p)
			for _, m := range s.compared(p) {
				c, err := s.comparison(p, m, confidence)
				var none *noRatio
				switch {
				case errors.As(err, &none):
					if none.zero {
						notes = append(notes, none.Message)
					}
				case err != nil:
					return nil, nil, fmt.Errorf("%s over %s: %s: %w", p.Variant, p.Base, m.Name, err)
				default:
					made = append(made, c)
					byMetric[m.Name] = append(byMetric[m.Name], c)
				}
			}
		}
		for _, metric := range slices.Sorted(maps.Keys(byMetric)) {
			if err := settle(byMetric[metric], s.Plan.Margin); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", metric, err)
			}
		}
		for _, c := range made {
			list = append(list, *c)
		}
	}
	return list, notes, nil
}

// PairedRatio is a metric of a pair, with its interval: paired by rounds, because neighbours in a
// round ran close together, so that drift cancels.
func (s Comparer) PairedRatio(p Pair, m dataset.Metric) (rundir.Estimate, error) {
	e, err := s.effect(p, s.masked(p, m, s.Rounds), s.Rounds, s.confidence(p))
	if err != nil {
		return rundir.Estimate{}, err
	}
	return s.widen(p, m, e).ratio(), nil
}

// comparison compares a pair in one metric. The verdict is added later.
func (s Comparer) comparison(p Pair, m dataset.Metric, confidence float64) (*rundir.Comparison, error) {
	m = s.masked(p, m, s.Rounds)
	e, err := s.effect(p, m, s.Rounds, confidence)
	if err != nil {
		return nil, err
	}
	e = s.widen(p, m, e)
	n := len(e.logs)
	c := &rundir.Comparison{
		Base: p.Base, Variant: p.Variant, Metric: m.Name, Role: p.Role,
		Primary: m.Name == s.Plan.PrimaryMetric(), Good: "lower", Rounds: n, Ratio: e.ratio(),
	}
	if m.Direction() == stat.HigherIsBetter {
		c.Good = "higher"
	}
	if s.LeftOutRounds {
		all, err := s.effect(p, s.masked(p, m, s.AllRounds), s.AllRounds, confidence)
		if err != nil && !errors.As(err, new(*noRatio)) {
			return nil, err
		}
		if err == nil && len(all.logs) > n {
			r := all.ratio()
			c.AllRounds = &r
		}
	}
	if n < 2 {
		return c, nil
	}
	flip, err := stat.SignFlip(e.logs, s.Plan.Seed)
	if err != nil {
		return nil, err
	}
	// The level of the test for equivalence is 5 %, or that of the comparison
	// where it is stricter.
	alpha := min(0.05, 1-confidence)
	same, err := s.effect(p, m, s.Rounds, 1-2*alpha)
	if err != nil {
		return nil, err
	}
	c.P, c.SignFlipP = &e.p, &flip.P
	equivalence := s.widen(p, m, same).ratio()
	equivalence.Values = nil
	c.Equivalence = &equivalence
	if d := math.Expm1(stat.DetectableEffect(e.stdDev, n, confidence, 0.8) + e.width); !e.lost && !math.IsInf(e.interval.Low, 0) && !math.IsInf(d, 0) {
		c.Detectable = &d
	}
	return c, nil
}

// An effect is the result of the rounds for a pair in one metric, on the scale of
// logarithms, where a ratio and its inverse are equally far from no effect.
type effect struct {
	logs       []float64 // of each round's ratio
	estimate   float64
	stdDev     float64
	interval   stat.Interval // at the confidence; known from two rounds on
	confidence float64
	p          float64 // two-sided, for no effect
	method     string
	width      float64 // to either side: how far off each round's ratio may be by itself
	lost       bool    // one of the two lost some rounds
}

// A noRatio says why a pair has no ratio.
type noRatio struct {
	rundir.Message
	zero bool // there are figures, but not all above zero
}

func (e *noRatio) Error() string { return e.String() }

// Said returns the error as a message.
func (e *noRatio) Said() rundir.Message { return e.Message }

// effect returns the effect in the given rounds. Quantiles are compared by ranks, up to
// the number of rounds that ranks can handle; all other metrics by Student's t. If there
// is no effect, the error is a *noRatio.
func (s Comparer) effect(p Pair, m dataset.Metric, rounds dataset.ByRound, confidence float64) (effect, error) {
	e := effect{confidence: confidence, method: rundir.NoInterval}
	var widths float64
	lostByVariant := 0
	var second []bool // of a duet: the variant had the second seat
	for _, round := range s.facingRounds(p, rounds) {
		f, b := s.facing(p, rounds, round)
		if f == nil || b == nil {
			continue
		}
		if l, lost := lostLog(m, f, b); lost {
			e.lost = true
			e.logs = append(e.logs, l)
			if !lostBy(m, b) {
				lostByVariant++
			}
			continue
		}
		if m.Get(f) == nil || m.Get(b) == nil {
			continue
		}
		over, under := *m.Get(f), *m.Get(b)
		if over <= 0 || under <= 0 {
			return effect{}, &noRatio{texts.New("lacks.positive", "metric", m.Name, "variant", p.Variant, "base", p.Base,
				"over", units.FourDigits(over), "under", units.FourDigits(under), "round", strconv.Itoa(round)), true}
		}
		e.logs, second = append(e.logs, math.Log(over)-math.Log(under)), append(second, f.Seat == 1)
		widths += logWidth(m, f) + logWidth(m, b)
	}
	n := len(e.logs)
	if n == 0 {
		return effect{}, &noRatio{texts.New("lacks.round", "metric", m.Name, "variant", p.Variant, "base", p.Base), false}
	}
	if lostByVariant == n {
		return e.allLost(m)
	}
	if n == 1 {
		e.estimate = e.logs[0]
		return e, e.finite(p, m)
	}
	e.width = widths / float64(n) / 2
	mean, err := stat.PairedMean(e.logs, confidence)
	if err != nil {
		return effect{}, err
	}
	if s.Plan.Duet != nil && !e.lost {
		x, err := stat.Exchanged(e.logs, second, confidence)
		if err != nil {
			return effect{}, err
		}
		mean, e.logs = x.Mean, x.Values
	}
	e.estimate, e.stdDev, e.interval, e.p, e.method = mean.Estimate, mean.StdDev, mean.Interval, mean.P, rundir.ByPairedStudent
	if (m.IsRanked() || e.lost) && n <= stat.MaxSignedRank {
		at, err := stat.HodgesLehmann(e.logs, confidence)
		if err != nil {
			return effect{}, err
		}
		rank, err := stat.SignedRank(e.logs)
		if err != nil {
			return effect{}, err
		}
		e.estimate, e.interval, e.p, e.method = at.Estimate, at.Interval, rank.P, rundir.ByHodgesLehmann
	}
	// More rounds do not narrow the bracket around the edge.
	e.interval.Low = min(e.interval.Low, e.estimate-e.width)
	e.interval.High = max(e.interval.High, e.estimate+e.width)
	return e, e.finite(p, m)
}

// ratio returns the effect as a ratio.
func (e effect) ratio() rundir.Estimate {
	estimate := math.Exp(e.estimate)
	r := rundir.Estimate{Estimate: &estimate, Interval: e.method}
	for _, l := range e.logs {
		r.Values = append(r.Values, min(math.Exp(l), math.MaxFloat64))
	}
	if e.method != rundir.NoInterval {
		low, high := e.interval.Low, e.interval.High
		if !math.IsInf(low, 0) {
			low = math.Exp(low)
		}
		if !math.IsInf(high, 0) {
			high = math.Exp(high)
		}
		r.SetInterval(low, high, e.confidence, e.method)
	}
	return r
}

// logWidth is the width of the range in which the figure itself is known to lie, as the
// logarithm of its ends' ratio. It is 0 for a figure that is a single value.
func logWidth(m dataset.Metric, f *dataset.Stats) float64 {
	if m.Width == nil {
		return 0
	}
	low, high, ok := m.Width(f)
	if !ok {
		return 0
	}
	return math.Log(high / low)
}

// Stopping is the rule by which a plan ends.
func Stopping(plan rundir.Plan) stat.Stopping {
	s := stat.Stopping{Rule: stat.FixedRounds, Rounds: plan.Rounds, Margin: plan.Margin}
	switch plan.Stop {
	case "precision":
		s.Rule = stat.Precision
	case "looks":
		s.Rule = stat.ThreeLooks
	}
	return s
}

// Decision asks the stopping rule about a pair. It uses the primary metric in the rounds that
// the rule heard of when it ended the run.
func (s Comparer) Decision(p Pair) (stat.Decision, error) {
	m, ok := dataset.Lookup(s.Plan.PrimaryMetric())
	if !ok {
		return stat.Decision{}, fmt.Errorf("metric %q is not known", s.Plan.PrimaryMetric())
	}
	e, err := s.effect(p, m, s.StoppingRounds, dataset.Confidence)
	if err != nil && !errors.As(err, new(*noRatio)) {
		return stat.Decision{}, err
	}
	return Stopping(s.Plan).Decide(e.logs)
}

// confidence is the level at which a pair is compared, in any metric.
func (s Comparer) confidence(p Pair) float64 {
	d, err := s.Decision(p)
	if err != nil { // such as a plan of one round, to which no rule applies
		return dataset.Confidence
	}
	return d.Confidence
}

// settle gives the comparisons of one family and metric their verdicts.
func settle(family []*rundir.Comparison, margin float64) error {
	if err := holm(family); err != nil {
		return err
	}
	for _, c := range family {
		c.Verdict = outcome(c, margin).String()
		if c.Verdict != rundir.Inconclusive || c.Rounds < 2 || slices.ContainsFunc(c.Ratio.Values, isLost) || !(margin > 0) || c.Metric == rundir.MetricCapacity {
			continue
		}
		further, err := furtherRounds(c, margin, len(family))
		if err != nil {
			return err
		}
		c.FurtherRounds = &further
	}
	return nil
}

// holm adjusts the p-values of a family of several.
func holm(family []*rundir.Comparison) error {
	var tested []*rundir.Comparison
	var ps []float64
	for _, c := range family {
		if c.P != nil {
			tested, ps = append(tested, c), append(ps, *c.P)
		}
	}
	if len(ps) < 2 {
		return nil
	}
	adjusted, err := stat.Holm(ps)
	if err != nil {
		return err
	}
	for i, c := range tested {
		c.AdjustedP, c.Adjustment = &adjusted[i], fmt.Sprintf("Holm, of %d", len(ps))
	}
	return nil
}

// outcome is the verdict on a comparison. A difference needs the interval, and in a
// family the adjusted p-value too.
func outcome(c *rundir.Comparison, margin float64) stat.Outcome {
	if c.Ratio.Interval == rundir.ByLostRounds {
		return stat.Worse
	}
	if c.Equivalence == nil { // one round
		return stat.Inconclusive
	}
	good := stat.LowerIsBetter
	if c.Good == "higher" {
		good = stat.HigherIsBetter
	}
	wide := stat.Ends(c.Ratio.Low, c.Ratio.High)
	if c.AdjustedP != nil && *c.AdjustedP > 1-c.Ratio.Confidence {
		wide = stat.Interval{Low: math.Inf(-1), High: math.Inf(1)}
	}
	return stat.Judge(wide, stat.Ends(c.Equivalence.Low, c.Equivalence.High), margin, good)
}

// furtherRounds returns how many more rounds would settle a comparison in a family of
// this size, if the spread stays the same.
func furtherRounds(c *rundir.Comparison, margin float64, family int) (int, error) {
	alpha := (1 - c.Ratio.Confidence) / float64(family)
	m, err := stat.PairedMean(stat.Logs(c.Ratio.Values), 1-alpha)
	if err != nil {
		return 0, err
	}
	n, err := stat.FurtherRounds(m.Estimate, m.StdDev, m.N, margin, 1-alpha)
	if err != nil {
		return 0, err
	}
	if c.Ratio.Interval == rundir.ByHodgesLehmann {
		// With fewer rounds than this, all ranks may be on one side by chance.
		n = max(n, int(math.Ceil(1-math.Log2(alpha)))-m.N)
	}
	return max(n, 1), nil
}
