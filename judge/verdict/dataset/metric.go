package dataset

import (
	"slices"
	"strings"
	"sync"

	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// Stats are the known figures of one variant, or of one trial alone.
type Stats struct {
	rundir.Variant
	Values      map[string]float64       // the figures that are no times, by the metric's name
	Times       rundir.Times             // by the tags of Histograms
	Search      *rundir.Bracket          // of one round's search for capacity
	Histograms  recording.Times          // nil where only trial.json was read
	StageLogs   []recording.StageLog     // of one trial, whose window has stages
	Disturbance *disturbance.Disturbance // of one trial; nil where only trial.json was read
	Flags       []rundir.Flag            // of one trial
	Lost        bool                     // of one trial: its target ended, or answered nothing
	Waited      float64                  // of one trial: the window, in seconds, as it was planned
	CPUSet      int                      // of one trial of a duet
}

// IsDisturbed tells of one trial whether the machine or the generator disturbed it beyond a limit.
func (s *Stats) IsDisturbed() bool { return disturb(s.Flags) }

func disturb(flags []rundir.Flag) bool {
	return slices.ContainsFunc(flags, func(f rundir.Flag) bool { return f.Disturbs && checks.DisturbsRound(f.Kind) })
}

// A Metric is a figure that expressions name. Get returns nil for a figure that
// is not known, or that too few values support.
type Metric struct {
	Name string
	Get  func(*Stats) *float64
	Step string // of a scenario, if it is that step's alone

	// How the figure of several trials is made; at most one of these is set. With none it
	// is the typical value of the trials, or for a fact (rundir.Metric.IsFact) their sum or extreme.
	Quantile *Quantile                                 // of the merged histogram
	Share    func(*Stats) (part, whole float64)        // the sum of the parts over that of the wholes
	Width    func(*Stats) (low, high float64, ok bool) // each value is itself known only to lie between these
	upTo     func(*Stats) (high float64, ok bool)      // the figure is known only to lie between itself and this
	few      func(*Stats) (value *float64, few bool)   // a figure of times, and whether too few values support it
}

// A Quantile is the q-quantile of what a log has under a tag.
type Quantile struct {
	Tag string
	Q   float64
}

// IsRanked tells whether the metric is compared by ranks: a trial with one stall can move
// its tail by any amount.
func (m Metric) IsRanked() bool { return m.Quantile != nil || m.IsMaximum() }

// IsMaximum tells whether the metric is the longest of a clock's times.
func (m Metric) IsMaximum() bool { return strings.HasSuffix(m.Kind(), ".max") }

// Kind is the metric's name without the step that it is of.
func (m Metric) Kind() string {
	of, _ := rundir.SplitStep(m.Name)
	return of
}

// Dimension is what the metric measures.
func (m Metric) Dimension() units.Dimension { return rundir.MetricOf(m.Name).Dimension() }

// Direction is the direction in which the metric is better.
func (m Metric) Direction() stat.Direction {
	if rundir.MetricOf(m.Name).Higher {
		return stat.HigherIsBetter
	}
	return stat.LowerIsBetter
}

// Lookup returns the metric of a name. Any program.NAME and observed.NAME is one, and any
// step's.
func Lookup(name string) (Metric, bool) {
	if _, found := rundir.FindMetric(name); !found {
		return Metric{}, false
	}
	kind, step := rundir.SplitStep(name)
	m := Metric{Name: name, Step: step}
	tag, of, _ := strings.Cut(kind, ".")
	if _, isTime := rundir.ClockOf(kind); isTime {
		if step != "" {
			tag = rundir.StepTag(tag, step)
		}
		m.ofTimes(tag, of)
		return m, true
	}
	m.Get = func(f *Stats) *float64 {
		if v, ok := f.Values[name]; ok {
			return &v
		}
		return nil
	}
	switch kind {
	case rundir.MetricCapacity:
		m.Width = searched
	case rundir.MetricErrorRatio:
		m.upTo = m.upToOmitted
		m.Share = func(f *Stats) (failed, due float64) {
			ratio, total := m.Get(f), f.Values[strings.Replace(name, rundir.MetricErrorRatio, rundir.MetricErrorTotal, 1)]
			switch {
			case ratio == nil:
				return 0, 0
			case step == "":
				return total, float64(f.Counts.Due())
			}
			i := slices.IndexFunc(f.Steps, func(s rundir.ScenarioStep) bool { return s.Name == step })
			return total, total + float64(f.Steps[i].OK)
		}
	}
	return m, true
}

// ofTimes makes the metric a figure of the times under a tag.
func (m *Metric) ofTimes(tag, of string) {
	if i := slices.IndexFunc(rundir.Summaries(), func(s rundir.Summary) bool { return s.Name == of }); i >= 0 {
		s := rundir.Summaries()[i]
		m.few = func(f *Stats) (*float64, bool) {
			q := f.Times[tag]
			return s.Of(&q), rundir.Few(q.Count, s.Quantile)
		}
	}
	if q, ok := rundir.QuantileOf(of); ok {
		m.Quantile = &Quantile{tag, q}
		if m.few == nil { // no trial.json has it, but the histograms do
			m.few = func(f *Stats) (*float64, bool) {
				h := f.Histograms[tag]
				if h == nil {
					return nil, false
				}
				return new(recording.Seconds(float64(h.Quantile(q)))), rundir.Few(h.Count(), q)
			}
		}
	} else if !m.IsMaximum() {
		m.Share = func(f *Stats) (sum, count float64) {
			q := f.Times[tag]
			if q.Mean == nil {
				return 0, 0
			}
			return *q.Mean * float64(q.Count), float64(q.Count)
		}
	}
	few := m.few
	m.Get = func(f *Stats) *float64 {
		if v, isFew := few(f); !isFew {
			return v
		}
		return nil
	}
}

// IsThroughput tells whether the metric counts what a target did in the window's time.
func (m Metric) IsThroughput() bool {
	kind := m.Kind()
	return kind == rundir.MetricThroughput || kind == rundir.MetricTokenRate || kind == rundir.MetricPromptRate || kind == rundir.MetricGoodput
}

// IsProgram tells whether a program printed the metric.
func (m Metric) IsProgram() bool { return strings.HasPrefix(m.Name, rundir.OfPrograms) }

// metrics lists every metric but those of programs, observers, steps and further quantiles, in the
// order of a report.
var metrics = sync.OnceValue(func() (all []Metric) {
	for _, declared := range rundir.Metrics() {
		m, _ := Lookup(declared.Name)
		all = append(all, m)
	}
	return all
})

// searched returns the two rates between which a round's search found the edge.
func searched(f *Stats) (low, high float64, ok bool) {
	if f.Search == nil || f.Search.Low == nil || f.Search.High == nil {
		return 0, 0, false
	}
	return *f.Search.Low, *f.Search.High, true
}
