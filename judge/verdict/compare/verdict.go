package compare

import (
	"fmt"
	"math"
	"slices"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// judgeFamily gives the comparisons of one family and metric their verdicts.
func judgeFamily(family []*rundir.Comparison, margin float64) error {
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

// furtherRounds returns how many more rounds would settle a comparison in a family of this
// size. It assumes that the spread does not change.
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
