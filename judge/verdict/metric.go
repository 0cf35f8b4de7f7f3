package verdict

import (
	"slices"
	"strings"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// figures are the known figures of one variant, or of one trial alone.
type figures struct {
	rundir.Variant
	connections connections
	measures    map[string]float64 // values that a program printed; over trials, their typical value
	observed    map[string]float64 // values of endpoints and commands of the plan, likewise
	search      *bracket           // of one round's search for capacity
	capacity    *float64           // requests per second
	times       times              // nil where only trial.json was read
	disturbed   *disturbance       // of one trial; nil where only trial.json was read
	flags       []rundir.Flag      // of one trial
	lost        bool               // of one trial: its target ended, or answered nothing
	waited      float64            // of one trial: the window, in seconds, as it was planned
	seat        int                // of one trial of a duet
}

// connections holds the typical values of a trial.
type connections struct {
	requested, opened, failed, peak, served, unanswered *float64
}

// A metric is a figure that expressions name. get returns nil for a figure that
// is not known, or that too few values support.
type metric struct {
	name string
	dim  dimension
	get  func(*figures) *float64
	step string // of a scenario, if it is that step's alone
	// The good direction, where it does not follow from the dimension: see good.
	higher, lower bool

	// How the figure of several trials is made; at most one of these is set. With none it
	// is the typical value of the trials.
	quantile *quantileOf                                 // of the merged histogram
	share    func(*figures) (part, whole float64)        // the sum of the parts over that of the wholes
	fact     bool                                        // a count or an extreme of this run: nothing is estimated
	width    func(*figures) (low, high float64, ok bool) // each value is itself known only to lie between these
	upTo     func(*figures) (high float64, ok bool)      // the figure is known only to lie between itself and this
}

// A quantileOf is the q-quantile of what a log has under a tag.
type quantileOf struct {
	tag string
	q   float64
}

// ranked tells whether the metric is compared by ranks: a trial with one stall can move
// its tail by any amount.
func (m metric) ranked() bool { return m.quantile != nil || strings.HasSuffix(m.kind(), ".max") }

// kind is the metric's name without the step that it is of.
func (m metric) kind() string {
	of, _ := rundir.SplitStep(m.name)
	return of
}

// good is the direction in which the metric is better: more, for requests in the same
// time and for a program's counts; less, for everything else, such as time, memory and
// errors.
func (m metric) good() stat.Direction {
	if m.lower {
		return stat.LowerIsBetter
	}
	if m.higher || m.dim == rate || m.isProgram() && m.dim == plain {
		return stat.HigherIsBetter
	}
	return stat.LowerIsBetter
}

// The names of metrics that this package itself refers to.
const (
	throughputMetric = "throughput"
	capacityMetric   = "capacity"
	cpuMetric        = "target.cpu_per_request"
	programPrefix    = "program."
	observedPrefix   = "observed."
	errorRatio       = "errors.ratio"
	errorTotal       = "errors.total"
)

// lookup returns the metric of a name. Any program.NAME and observed.NAME is one, and any
// step's.
func lookup(name string) (metric, bool) {
	if _, step := rundir.SplitStep(name); step != "" {
		return find(stepMetrics(step), name)
	}
	if measure, ok := strings.CutPrefix(name, programPrefix); ok && measure != "" {
		return programMetric(measure), true
	}
	if column, ok := strings.CutPrefix(name, observedPrefix); ok && column != "" {
		return observedMetric(column), true
	}
	return find(metrics(), name)
}

func find(all []metric, name string) (metric, bool) {
	if i := slices.IndexFunc(all, func(m metric) bool { return m.name == name }); i >= 0 {
		return all[i], true
	}
	return metric{}, false
}

// observedMetric is the value of an endpoint or a command of the plan: for a counter its
// growth per second, for a gauge its mean. Its unit is not known.
func observedMetric(column string) metric {
	return metric{name: observedPrefix + column, dim: plain, get: func(f *figures) *float64 {
		if v, ok := f.observed[column]; ok {
			return &v
		}
		return nil
	}}
}

// programMetric is a number that a program printed. The end of its name gives its unit.
func programMetric(measure string) metric {
	m := metric{name: programPrefix + measure, get: func(f *figures) *float64 {
		if v, ok := f.measures[measure]; ok {
			return &v
		}
		return nil
	}}
	switch {
	case strings.HasSuffix(measure, "_per_second"):
		m.dim = rate
	case strings.HasSuffix(measure, "_seconds"):
		m.dim = duration
	case strings.HasSuffix(measure, "_bytes"):
		m.dim = size
	}
	return m
}

// isProgram tells whether a program printed the metric.
func (m metric) isProgram() bool { return strings.HasPrefix(m.name, programPrefix) }

// metrics lists every metric but those of programs, observers and steps, in the order of a report.
func metrics() []metric {
	all := []metric{
		{name: throughputMetric, dim: rate, get: func(f *figures) *float64 { return f.Throughput.Estimate }},
		{name: capacityMetric, dim: rate, get: func(f *figures) *float64 { return f.capacity }, width: searched},
	}
	for _, group := range []struct {
		tag string
		of  func(*figures) *rundir.Quantiles
	}{
		{tagResponse, func(f *figures) *rundir.Quantiles { return &f.Response }},
		{tagService, func(f *figures) *rundir.Quantiles { return &f.Service }},
		{tagSendLag, func(f *figures) *rundir.Quantiles { return &f.SendLag }},
		{tagConnect, func(f *figures) *rundir.Quantiles { return &f.Connect }},
		{tagFirstByte, func(f *figures) *rundir.Quantiles { return &f.FirstByte }},
		{tagReadDelay, func(f *figures) *rundir.Quantiles { return &f.ReadDelay }},
		{tagServiceRead, func(f *figures) *rundir.Quantiles { return &f.ServiceRead }},
		{tagHandshake, func(f *figures) *rundir.Quantiles { return &f.Handshake }},
		{tagFirstMessage, func(f *figures) *rundir.Quantiles { return &f.FirstMessage }},
		{tagMessageGap, func(f *figures) *rundir.Quantiles { return &f.MessageGap }},
		{tagMessage, func(f *figures) *rundir.Quantiles { return &f.Message }},
		{tagOpening, streamed(func(s *rundir.Streams) *rundir.Quantiles { return &s.Opening })},
		{tagFirstEvent, streamed(func(s *rundir.Streams) *rundir.Quantiles { return &s.FirstEvent })},
		{tagEventGap, streamed(func(s *rundir.Streams) *rundir.Quantiles { return &s.EventGap })},
		{tagDelivery, streamed(func(s *rundir.Streams) *rundir.Quantiles { return &s.Delivery })},
	} {
		all = append(all, timesOf(group.tag, group.tag, group.of)...)
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
		all = append(all, metric{name: "streams." + c.name, dim: plain, fact: true, get: func(f *figures) *float64 {
			if f.Streams == nil {
				return nil
			}
			n := float64(c.of(f.Streams))
			return &n
		}})
	}
	plainly := func(name string, get func(*figures) *float64) metric {
		return metric{name: name, dim: plain, get: get}
	}
	return append(all,
		metric{name: errorRatio, dim: plain, get: func(f *figures) *float64 { return f.Errors.Ratio },
			share: func(f *figures) (float64, float64) { return float64(f.Errors.Total), float64(f.Errors.Due) }, upTo: upToOmitted},
		metric{name: "availability", dim: plain, higher: true, get: func(f *figures) *float64 { return f.Availability }},
		metric{name: errorTotal, dim: plain, fact: true, get: func(f *figures) *float64 {
			if f.Trials == 0 {
				return nil
			}
			n := float64(f.Errors.Total)
			return &n
		}},
		metric{name: cpuMetric, dim: duration, get: func(f *figures) *float64 { return f.Target.CPUSecondsPerRequest }},
		plainly("target.cpu_share", func(f *figures) *float64 { return f.Target.CPUShare }),
		plainly("target.user_share", func(f *figures) *float64 { return f.Target.UserShare }),
		metric{name: "target.rss", dim: size, get: func(f *figures) *float64 { return whole(f.Target.RSSBytes) }},
		plainly("target.threads", func(f *figures) *float64 { return whole(f.Target.Threads) }),
		plainly("target.descriptors", func(f *figures) *float64 { return whole(f.Target.Descriptors) }),
		metric{name: "target.connection_reuse_ratio", dim: plain, higher: true, get: func(f *figures) *float64 { return f.Target.ConnectionReuseRatio }},
		metric{name: "target.syscalls_per_second", dim: rate, lower: true, get: func(f *figures) *float64 { return f.Target.SyscallsPerSecond }},
		plainly("target.syscalls_per_request", func(f *figures) *float64 { return f.Target.SyscallsPerRequest }),
		metric{name: "target.run_queue_wait_per_request", dim: duration, get: func(f *figures) *float64 { return f.Target.RunQueueWaitSecondsPerRequest }},
		metric{name: "target.gc_pause_per_request", dim: duration, get: func(f *figures) *float64 { return f.Target.GCPauseSecondsPerRequest }},
		metric{name: "target.allocated_per_request", dim: size, get: func(f *figures) *float64 { return f.Target.AllocatedBytesPerRequest }},
		plainly("target.allocations_per_request", func(f *figures) *float64 { return f.Target.AllocationsPerRequest }),
		plainly("target.goroutines", func(f *figures) *float64 { return whole(f.Target.Goroutines) }),
		plainly("target.voluntary_switches_per_request", func(f *figures) *float64 { return f.Target.VoluntarySwitchesPerRequest }),
		plainly("target.involuntary_switches_per_request", func(f *figures) *float64 { return f.Target.InvoluntarySwitchesPerRequest }),
		metric{name: "generator.cpu_per_request", dim: duration, get: func(f *figures) *float64 { return f.Generator.CPUSecondsPerRequest }},
		plainly("generator.cpu_share", func(f *figures) *float64 { return f.Generator.CPUShare }),
		plainly("connections.requested", func(f *figures) *float64 { return f.connections.requested }),
		plainly("connections.opened", func(f *figures) *float64 { return f.connections.opened }),
		plainly("connections.failed", func(f *figures) *float64 { return f.connections.failed }),
		plainly("connections.peak", func(f *figures) *float64 { return f.connections.peak }),
		plainly("connections.served", func(f *figures) *float64 { return f.connections.served }),
		plainly("connections.unanswered", func(f *figures) *float64 { return f.connections.unanswered }),
	)
}

// timesOf lists the metrics of a clock, whose times stand in the log under a tag.
func timesOf(clock, tag string, of func(*figures) *rundir.Quantiles) (all []metric) {
	for _, q := range []struct {
		name string
		q    float64
		of   func(*rundir.Quantiles) *float64
	}{
		{"p50", 0.5, func(q *rundir.Quantiles) *float64 { return q.P50 }},
		{"p90", 0.9, func(q *rundir.Quantiles) *float64 { return q.P90 }},
		{"p99", 0.99, func(q *rundir.Quantiles) *float64 { return q.P99 }},
		{"p999", 0.999, func(q *rundir.Quantiles) *float64 { return q.P999 }},
	} {
		all = append(all, metric{
			name: clock + "." + q.name, dim: duration,
			get:      func(f *figures) *float64 { return q.of(of(f)) },
			quantile: &quantileOf{tag, q.q},
		})
	}
	return append(all,
		metric{name: clock + ".max", dim: duration, fact: true, get: func(f *figures) *float64 { return of(f).Max }},
		metric{name: clock + ".mean", dim: duration, get: func(f *figures) *float64 { return of(f).Mean },
			share: func(f *figures) (float64, float64) { return summed(of(f)) }},
	)
}

// streamed finds a figure of subscribers where there are some.
func streamed(of func(*rundir.Streams) *rundir.Quantiles) func(*figures) *rundir.Quantiles {
	none := rundir.QuantilesOf(nil)
	return func(f *figures) *rundir.Quantiles {
		if f.Streams == nil {
			return &none
		}
		return of(f.Streams)
	}
}

// summed returns the sum of all values of a histogram, and how many they are.
func summed(q *rundir.Quantiles) (sum, count float64) {
	if q.Mean == nil {
		return 0, 0
	}
	return *q.Mean * float64(q.Count), float64(q.Count)
}

// searched returns the two rates between which a round's search found the edge.
func searched(f *figures) (low, high float64, ok bool) {
	if f.search == nil || !f.search.closed() {
		return 0, 0, false
	}
	return *f.search.Low, *f.search.High, true
}

func whole(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}
