package checks

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

const (
	// steadyBins is how many bins the window's halves must have together.
	steadyBins = 4
	// dependenceBins is how many a dependence needs, to be measured at all.
	dependenceBins = 10
	// judgedBins is how many bins are needed to judge a trial by its dependence. In
	// simulation 0.2 % of series of 40 independent values have an effective sample size
	// below DependentSize; of 20 values it is 5 %, of 12 it is 30 %.
	judgedBins = 40
)

// A bin is a stretch of the window with the number of responses in it. Times are in
// seconds, since the warm-up began.
type bin struct {
	start, length, count float64
}

func (b bin) rate() float64 { return b.count / b.length }

// bins returns the log's intervals of responses that lie within the window. It leaves out
// the first, and those that begin before a p99 of response times has passed: they have no
// responses to requests that were due before the window. Loads with stages have none,
// because their rate, or the number of users, is meant to change.
func (x *examination) bins() []bin {
	if x.Open() && x.Rate() == nil || len(x.Stages) > 0 {
		return nil
	}
	begin := x.Trial.WarmupSeconds
	end := begin + x.Trial.WindowSeconds
	counted := recording.CountedTag(x.Plan)
	var within []bin
	for _, i := range x.Log {
		b := bin{start: i.Start.Seconds(), length: i.Length.Seconds(), count: float64(i.Hist.Count())}
		slack := b.length / 20 // an interval ends when a worker gets to it
		if i.Tag == counted && b.length > 0 && b.start >= begin-slack && b.start+b.length <= end+slack {
			within = append(within, b)
		}
	}
	slices.SortFunc(within, func(a, b bin) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	settled := begin
	if p99 := x.Times.Quantile(rundir.TagResponse, 100); p99 != nil {
		settled += *p99
	}
	first := min(1, len(within))
	for first < len(within) && within[first].start < settled {
		first++
	}
	return within[first:]
}

// steady compares the throughputs of the window's halves. They may differ by
// SteadyTolerance, or by what chance explains, if that is more. Take an even load whose
// bins vary by 5 %, in a window of 20 bins. Its halves differ by more than 1 % in two of
// three trials. A flag on most trials would be of no use.
func (x *examination) steady(bins []bin) {
	if len(bins) < steadyBins {
		x.unknown(FlagNotSteady, new(texts.New("unchecked.stretches", "n", strconv.Itoa(steadyBins))))
		return
	}
	half := len(bins) / 2
	early, late := bins[:half], bins[len(bins)-half:]
	n1, s1 := total(early)
	n2, s2 := total(late)
	if n1+n2 == 0 {
		x.unknown(FlagNotSteady, new(texts.New("unchecked.no_responses")))
		return
	}
	mean := (n1 + n2) / (s1 + s2)
	off := math.Abs(n1/s1-n2/s2) / mean
	limit := SteadyTolerance
	if x.Open() {
		// Arrivals are random: the deviation of n1 − n2 is √(n1+n2).
		limit = max(limit, 2*chance/math.Sqrt(n1+n2))
	} else {
		limit = max(limit, chance*math.Sqrt(2/float64(half))*roughness(bins)/mean)
	}
	c := rundir.Check{Kind: FlagNotSteady, Measured: &off, Limit: &limit, Outcome: rundir.CheckOK}
	said := new(texts.New("found.not_steady", "share", units.Percent(off), "early", units.FourDigits(n1/s1), "late", units.FourDigits(n2/s2)))
	switch {
	case off > limit:
		c.Outcome, c.Detail = rundir.CheckWarning, said
	case off > SteadyTolerance:
		said.Kind, said.Values["most"] = "found.not_steady.chance", units.Percent(limit)
		c.Detail = said
	}
	x.add(c)
}

func total(bins []bin) (count, seconds float64) {
	for _, b := range bins {
		count += b.count
		seconds += b.length
	}
	return count, seconds
}

// roughness is the standard deviation of the bins' rates around a mean that may change
// slowly. It comes from the differences of neighbours, δ²/2 (von Neumann, Kent, Bellinson
// and Hart: The mean square successive difference, Annals of Mathematical Statistics 12,
// 1941). The plain deviation, or one widened for dependence, would take a drift for noise
// and excuse it.
func roughness(bins []bin) float64 {
	sum := 0.0
	for i := range bins[1:] {
		d := bins[i+1].rate() - bins[i].rate()
		sum += d * d
	}
	return math.Sqrt(sum / float64(2*(len(bins)-1)))
}

// measureDependence returns the dependence of throughput by bins, in a window that begins
// at the given time. It returns nil for fewer than dependenceBins bins, and for a
// constant.
func measureDependence(bins []bin, begin float64) *rundir.Dependence {
	if len(bins) < dependenceBins {
		return nil
	}
	at, rates := make([]float64, len(bins)), make([]float64, len(bins))
	for i, b := range bins {
		at[i], rates[i] = b.start+b.length/2, b.rate()
	}
	m, err := stat.MeasureDependence(rates)
	if err != nil {
		return nil // a constant
	}
	_, seconds := total(bins)
	d := rundir.Dependence{
		BinSeconds:    seconds / float64(len(bins)),
		Bins:          len(bins),
		Lag1:          m.Lag1,
		EffectiveSize: m.EffectiveSize,
	}
	if g, err := measureGrowth(at, rates, begin); err == nil {
		d.Trend, d.TrendP = g.slope.Estimate, &g.p
	}
	return &d
}

// dependent judges whether the window was long compared with the target's memory. That
// needs judgedBins bins: with fewer, independent bins look dependent by chance.
func (x *examination) dependent(d *rundir.Dependence, bins int) {
	limit := float64(DependentSize)
	switch {
	case bins < judgedBins:
		x.unknown(FlagDependent, new(texts.New("unchecked.bins", "n", strconv.Itoa(judgedBins))))
	case d == nil: // all bins are equal
		x.add(rundir.Check{Kind: FlagDependent, Limit: &limit, Outcome: rundir.CheckOK, Detail: new(texts.New("found.dependent.even"))})
	default:
		c := rundir.Check{Kind: FlagDependent, Measured: &d.EffectiveSize, Limit: &limit, Outcome: rundir.CheckOK}
		if d.EffectiveSize < limit {
			c.Outcome = rundir.CheckWarning
			c.Detail = new(texts.New("found.dependent", "bins", strconv.Itoa(d.Bins), "worth", fmt.Sprintf("%.2g", d.EffectiveSize), "least", strconv.Itoa(DependentSize)))
		}
		x.add(c)
	}
}
