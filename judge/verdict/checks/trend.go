package checks

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/judge/stat"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

const (
	// trendRows is how many readings a trend needs.
	trendRows = 10
	// trendPoints is how many values a line is fitted to: neighbours of a longer series
	// are averaged. All pairs of 512 take some hundredths of a second. All pairs of
	// stat.MaxTrend take seconds, for an interval that is no narrower once neighbours
	// resemble each other.
	trendPoints = 512
	// A series wanders if its deviations from the line have an effective sample size
	// below wanderingSize. Its memory is then not short compared with the window. The
	// widening for dependence is too small, as simulation of stat.HamedRao shows.
	wanderingSize = 20
	// trendConfidence is that of a slope's interval.
	trendConfidence = 0.95
)

// Trends returns how the target's gauges changed within the window. Gauges that were not
// recorded are left out. A gauge with too few readings, or with a level of zero when the
// window began, has no slope. Its trend says why.
//
// Slopes are shares of the level at the window's beginning, per second. Their interval is
// widened for dependence, but not for the uncertainty of that level. P is of Mann and
// Kendall's test, widened as well. A gauge may wander without a level to return to, as a
// random walk does. Most windows then end higher or lower than they began. The interval
// then also covers, and P allows for, a walk without drift. In simulation 1 to 10 % of
// windows without growth have P below 0.05. That holds whether their values are
// independent, resemble their neighbours or walk.
func Trends(s recording.Recording) []rundir.Trend {
	if s.Series == nil {
		return nil
	}
	var ts []rundir.Trend
	times := s.Series.Column(series.TimeColumn)
	for _, g := range rundir.Gauges() {
		column := s.Series.Column(g.Column)
		if column == nil {
			continue
		}
		var at, values []float64
		for i, v := range column {
			after := len(at) == 0 || times[i] > at[len(at)-1]
			if after && s.InWindow(times[i]) && !math.IsNaN(v) {
				at, values = append(at, times[i]), append(values, v)
			}
		}
		t := rundir.Trend{Variant: s.Trial.Variant, Trial: s.Trial.Number, Metric: g.Name, Values: len(values)}
		if grown, err := measureGrowth(at, values, s.Trial.WarmupSeconds); err != nil {
			why := texts.Together(texts.Reasons(err)...)
			t.Slope.Interval, t.Detail = rundir.NoInterval, &why
		} else {
			growth := *grown.slope.Estimate * s.Trial.WindowSeconds
			t.Slope, t.P, t.Growth = grown.slope, &grown.p, &growth
			if grown.constant {
				t.Detail = new(texts.New("growth.none"))
			}
		}
		ts = append(ts, t)
	}
	return ts
}

// A growth is a straight line through a series.
type grown struct {
	slope    rundir.Estimate // per second, relative to the line's level at the beginning
	p        float64         // of there being no trend
	constant bool
}

// measureGrowth fits a line to values at increasing times. It fails with fewer than
// trendRows values, and if the line begins at zero or below.
func measureGrowth(at, values []float64, begin float64) (grown, error) {
	if len(values) < trendRows {
		return grown{}, texts.NewError("growth.readings", "n", strconv.Itoa(len(values)), "least", strconv.Itoa(trendRows))
	}
	if slices.Min(values) == slices.Max(values) {
		zero := func() *float64 { return new(float64) }
		return grown{slope: slopeEstimate(zero(), zero(), zero()), p: 1, constant: true}, nil
	}
	size := (len(values) + trendPoints - 1) / trendPoints
	rawAt, raw := at, values
	at, values = average(at, size), average(values, size)
	inflation, err := stat.HamedRao(values)
	if err != nil {
		return grown{}, err
	}
	line, err := stat.TheilSen(at, values, trendConfidence, inflation)
	if err != nil {
		return grown{}, err
	}
	test, err := stat.MannKendall(values, inflation)
	if err != nil {
		return grown{}, err
	}
	low, high, p := line.Interval.Low, line.Interval.High, test.P
	if wanders(at, values, line) {
		drift, err := walk(rawAt, raw, size)
		if err != nil {
			return grown{}, err
		}
		low, high, p = min(low, drift.Interval.Low), max(high, drift.Interval.High), max(p, drift.P)
	}
	level := line.At(begin)
	if level <= 0 {
		return grown{}, texts.NewError("growth.level", "level", fmt.Sprintf("%.3g", level))
	}
	relative := func(slope float64) *float64 {
		if math.IsInf(slope, 0) {
			return nil
		}
		slope /= level
		return &slope
	}
	return grown{slope: slopeEstimate(relative(line.Slope), relative(low), relative(high)), p: p}, nil
}

// wanders tells whether the deviations from a line last so long that the series may have
// no level.
func wanders(at, values []float64, line stat.TrendLine) bool {
	rest := make([]float64, len(values))
	for i := range rest {
		rest[i] = values[i] - line.At(at[i])
	}
	d, err := stat.MeasureDependence(rest)
	return err == nil && d.EffectiveSize < wanderingSize // err: all lie on the line
}

// walk is the drift per second of a random walk. It uses every size-th value, whose steps
// are independent; means of neighbours would not be.
func walk(at, values []float64, size int) (stat.Mean, error) {
	var steps []float64
	last := 0
	for i := size; i < len(values); i += size {
		steps = append(steps, values[i]-values[last])
		last = i
	}
	drift, err := stat.PairedMean(steps, trendConfidence)
	perStep := (at[last] - at[0]) / float64(len(steps))
	drift.Interval.Low /= perStep
	drift.Interval.High /= perStep
	return drift, err
}

func slopeEstimate(slope, low, high *float64) rundir.Estimate {
	return rundir.Estimate{Estimate: slope, Low: low, High: high, Confidence: trendConfidence, Interval: rundir.ByTheilSen}
}

// average returns the means of each size neighbours, the last of those left over.
func average(values []float64, size int) []float64 {
	if size <= 1 {
		return values
	}
	var means []float64
	for part := range slices.Chunk(values, size) {
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		means = append(means, sum/float64(len(part)))
	}
	return means
}
