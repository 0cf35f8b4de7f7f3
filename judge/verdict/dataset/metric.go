package dataset

import (
	"slices"
	"strings"
	"sync"

	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// Stats are the known figures of one variant, or of one trial alone.
type Stats struct {
	rundir.Variant
	connections connections
	measures    map[string]float64       // values that a program printed; over trials, their typical value
	observed    map[string]float64       // values of endpoints and commands of the plan; over trials, their typical value
	Search      *rundir.Bracket          // of one round's search for capacity
	Capacity    *float64                 // requests per second
	Histograms  recording.Times          // nil where only trial.json was read
	Disturbance *disturbance.Disturbance // of one trial; nil where only trial.json was read
	Flags       []rundir.Flag            // of one trial
	Lost        bool                     // of one trial: its target ended, or answered nothing
	Waited      float64                  // of one trial: the window, in seconds, as it was planned
	Seat        int                      // of one trial of a duet
}

// connections holds the typical values of a trial.
type connections struct {
	requested, opened, failed, peak, served, unanswered *float64
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
	if _, step := rundir.SplitStep(name); step != "" {
		if m, ok := find(stepMetrics(step), name); ok {
			return m, true
		}
		return quantileMetric(name)
	}
	if measure, ok := strings.CutPrefix(name, rundir.OfPrograms); ok && measure != "" {
		return programMetric(measure), true
	}
	if column, ok := strings.CutPrefix(name, rundir.OfObservers); ok && column != "" {
		return observedMetric(column), true
	}
	if m, ok := find(metrics(), name); ok {
		return m, true
	}
	return quantileMetric(name)
}

// quantileMetric is a quantile that no trial.json has, such as response.p98: the histograms
// have it.
func quantileMetric(name string) (Metric, bool) {
	of, step := rundir.SplitStep(name)
	_, quantile, _ := strings.Cut(of, ".")
	q, ok := rundir.QuantileOf(quantile)
	if !ok {
		return Metric{}, false
	}
	all := metrics()
	if step != "" {
		all = stepMetrics(step)
	}
	m, ok := find(all, strings.Replace(name, "."+quantile, ".p50", 1))
	if !ok {
		return Metric{}, false
	}
	m.Name, m.Quantile = name, &Quantile{m.Quantile.Tag, q}
	tag := m.Quantile.Tag
	m.Get = func(f *Stats) *float64 {
		h := f.Histograms[tag]
		if h == nil || rundir.Few(h.Count(), q) {
			return nil
		}
		return new(recording.Seconds(float64(h.Quantile(q))))
	}
	return m, true
}

func find(all []Metric, name string) (Metric, bool) {
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return Metric{}, false
}

// observedMetric is the value of an endpoint or a command of the plan: for a counter its
// growth per second, for a gauge its mean.
func observedMetric(column string) Metric {
	return Metric{Name: rundir.OfObservers + column, Get: func(f *Stats) *float64 {
		if v, ok := f.observed[column]; ok {
			return &v
		}
		return nil
	}}
}

// programMetric is a number that a program printed.
func programMetric(measure string) Metric {
	return Metric{Name: rundir.OfPrograms + measure, Get: func(f *Stats) *float64 {
		if v, ok := f.measures[measure]; ok {
			return &v
		}
		return nil
	}}
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
var metrics = sync.OnceValue(func() []Metric {
	all := []Metric{
		{Name: rundir.MetricThroughput, Get: func(f *Stats) *float64 { return f.Throughput.Estimate }},
		{Name: rundir.MetricTokenRate, Get: func(f *Stats) *float64 {
			if f.Tokens == nil {
				return nil
			}
			return f.Tokens.PerSecond
		}},
		{Name: rundir.MetricPromptRate, Get: func(f *Stats) *float64 {
			if f.Tokens == nil {
				return nil
			}
			return f.Tokens.PromptPerSecond
		}},
		{Name: rundir.MetricGoodput, Get: func(f *Stats) *float64 {
			if f.Tokens == nil {
				return nil
			}
			return f.Tokens.Goodput
		}},
		{Name: rundir.MetricCapacity, Get: func(f *Stats) *float64 { return f.Capacity }, Width: searched},
	}
	for _, c := range rundir.Clocks() {
		all = append(all, timesOf(c.Tag, c.Tag, func(f *Stats) *rundir.Quantiles { return f.Times(c.Tag) })...)
	}
	for _, c := range []struct {
		name string
		of   func(*rundir.Streams) int64
	}{
		{"lost", func(s *rundir.Streams) int64 { return s.Lost }},
		{"announced", func(s *rundir.Streams) int64 { return s.Announced }},
		{"repeated", func(s *rundir.Streams) int64 { return s.Repeated }},
		{"disordered", func(s *rundir.Streams) int64 { return s.Disordered }},
		{"gaps", func(s *rundir.Streams) int64 { return s.Gaps }},
		{"reconnects", func(s *rundir.Streams) int64 { return s.Reconnects }},
	} {
		all = append(all, Metric{Name: "streams." + c.name, Get: func(f *Stats) *float64 {
			if f.Streams == nil {
				return nil
			}
			return new(float64(c.of(f.Streams)))
		}})
	}
	of := func(name string, get func(*Stats) *float64) Metric {
		return Metric{Name: name, Get: get}
	}
	errorsOf := func(f *Stats) *float64 { return f.Errors.Ratio }
	return append(all,
		Metric{Name: rundir.MetricErrorRatio, Get: errorsOf,
			Share: func(f *Stats) (float64, float64) { return float64(f.Errors.Total), float64(f.Errors.Due) }, upTo: upToOmitted(errorsOf)},
		of("availability", func(f *Stats) *float64 { return f.Availability }),
		Metric{Name: rundir.MetricErrorTotal, Get: func(f *Stats) *float64 {
			if f.Trials == 0 {
				return nil
			}
			return new(float64(f.Errors.Total))
		}},
		of(rundir.MetricCPU, func(f *Stats) *float64 { return f.Target.CPUSecondsPerRequest }),
		of("target.cpu_share", func(f *Stats) *float64 { return f.Target.CPUShare }),
		of("target.user_share", func(f *Stats) *float64 { return f.Target.UserShare }),
		of(rundir.MetricMemory, func(f *Stats) *float64 { return whole(f.Target.RSSBytes) }),
		of("target.threads", func(f *Stats) *float64 { return whole(f.Target.Threads) }),
		of("target.descriptors", func(f *Stats) *float64 { return whole(f.Target.Descriptors) }),
		of("target.connection_reuse_ratio", func(f *Stats) *float64 { return f.Target.ConnectionReuseRatio }),
		of("target.syscalls_per_second", func(f *Stats) *float64 { return f.Target.SyscallsPerSecond }),
		of("target.syscalls_per_request", func(f *Stats) *float64 { return f.Target.SyscallsPerRequest }),
		of("target.run_queue_wait_per_request", func(f *Stats) *float64 { return f.Target.RunQueueWaitSecondsPerRequest }),
		of("target.gc_pause_per_request", func(f *Stats) *float64 { return f.Target.GCPauseSecondsPerRequest }),
		of("target.allocated_per_request", func(f *Stats) *float64 { return f.Target.AllocatedBytesPerRequest }),
		of("target.allocations_per_request", func(f *Stats) *float64 { return f.Target.AllocationsPerRequest }),
		of("target.goroutines", func(f *Stats) *float64 { return whole(f.Target.Goroutines) }),
		of("target.voluntary_switches_per_request", func(f *Stats) *float64 { return f.Target.VoluntarySwitchesPerRequest }),
		of("target.involuntary_switches_per_request", func(f *Stats) *float64 { return f.Target.InvoluntarySwitchesPerRequest }),
		of("generator.cpu_per_request", func(f *Stats) *float64 { return f.Generator.CPUSecondsPerRequest }),
		of("generator.cpu_share", func(f *Stats) *float64 { return f.Generator.CPUShare }),
		of("connections.requested", func(f *Stats) *float64 { return f.connections.requested }),
		of("connections.opened", func(f *Stats) *float64 { return f.connections.opened }),
		of("connections.failed", func(f *Stats) *float64 { return f.connections.failed }),
		of("connections.peak", func(f *Stats) *float64 { return f.connections.peak }),
		of("connections.served", func(f *Stats) *float64 { return f.connections.served }),
		of("connections.unanswered", func(f *Stats) *float64 { return f.connections.unanswered }),
	)
})

// timesOf lists the metrics of a clock, whose times stand in the log under a tag.
func timesOf(clock, tag string, times func(*Stats) *rundir.Quantiles) (all []Metric) {
	for _, of := range rundir.Summaries() {
		m := Metric{Name: clock + "." + of.Name, Get: func(f *Stats) *float64 {
			if q := times(f); !rundir.Few(q.Count, of.Quantile) {
				return of.Of(q)
			}
			return nil
		}}
		switch {
		case of.Quantile > 0:
			m.Quantile = &Quantile{tag, of.Quantile}
		case !m.IsMaximum():
			m.Share = func(f *Stats) (float64, float64) { return summed(times(f)) }
		}
		all = append(all, m)
	}
	return all
}

// summed returns the sum of all values of a histogram, and how many they are.
func summed(q *rundir.Quantiles) (sum, count float64) {
	if q.Mean == nil {
		return 0, 0
	}
	return *q.Mean * float64(q.Count), float64(q.Count)
}

// searched returns the two rates between which a round's search found the edge.
func searched(f *Stats) (low, high float64, ok bool) {
	if f.Search == nil || f.Search.Low == nil || f.Search.High == nil {
		return 0, 0, false
	}
	return *f.Search.Low, *f.Search.High, true
}

func whole(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
