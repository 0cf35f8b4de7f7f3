package push

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A Run names what the figures are of.
type Run struct {
	Name       string // of the run folder
	Experiment string
}

// A Trial names one trial of a run.
type Trial struct {
	Variant string
	Number  int // from 1
	Round   int // from 1; 0 for a pilot
}

// A Flag is a finding about a trial.
type Flag struct {
	Kind     string
	Disturbs bool // it is beyond a limit fixed beforehand
}

// clocks are the times of which quantiles are sent.
func clocks() []record.Tag {
	return []record.Tag{record.Response, record.Service, record.SendLag, record.Delivery}
}

// A quantile is one that is sent, with its label.
type quantile struct {
	label string
	q     float64
}

func quantiles() []quantile {
	return []quantile{{"0.5", 0.5}, {"0.9", 0.9}, {"0.95", 0.95}, {"0.99", 0.99}, {"0.999", 0.999}, {"1", 1}}
}

// A Meter makes a sample of each second of a run from the engine's intervals. Its methods
// may be called by any goroutine. They return at once if put does.
type Meter struct {
	run     Run
	put     func(Sample)
	now     func() time.Time
	metrics *metrics

	mu      sync.Mutex // guards what follows
	labels  []Label    // of the trial; nil between trials
	start   time.Time
	latest  time.Time // of the last sample
	length  time.Duration
	good    uint64 // responses of the second that comes together
	total   struct{ good, failed, delivered int64 }
	sampled bool // the trial has had a second
	streams bool // events have arrived
	latency [record.Tags]*hist.Histogram
	slowest *Exemplar // of the response times of the second that comes together
	cpu     float64
	rss     float64
	open    int     // connections
	series  []Point // those that are not ended yet
}

// NewMeter returns a meter that gives its samples to put, which must not block.
func NewMeter(run Run, put func(Sample)) *Meter {
	m := &Meter{run: run, put: put, now: time.Now, metrics: allMetrics()}
	for _, c := range clocks() {
		m.latency[c] = hist.New()
	}
	return m
}

// Begin begins a trial. Its counters are zero then, so that receivers see even those of a short trial grow.
func (m *Meter) Begin(t Trial) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finish()
	m.labels = []Label{
		{"experiment", m.run.Experiment}, {"round", strconv.Itoa(t.Round)}, {"run", m.run.Name},
		{"trial", strconv.Itoa(t.Number)}, {"variant", t.Variant},
	}
	m.start = m.now()
	m.total.good, m.total.failed, m.total.delivered, m.streams, m.sampled = 0, 0, 0, false, false
	m.cpu, m.rss = math.NaN(), math.NaN()
	m.reset()
	m.send(m.counters())
}

// Reading records the target's use so far: CPU time in seconds and resident memory in
// bytes, NaN where that is not known.
func (m *Meter) Reading(cpuSeconds, rssBytes float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cpu, m.rss = cpuSeconds, rssBytes
}

// Interval adds an interval, of which c counts the measured requests. It makes a sample when a second is complete. It
// keeps no reference to either.
func (m *Meter) Interval(i record.Interval, c rundir.Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.labels == nil {
		return
	}
	m.length += i.Length
	m.good += i.Completed()
	m.total.good += c.Answered()
	m.total.failed += c.Unanswered()
	m.total.delivered += int64(i.Delivered) //nolint:gosec // a count
	m.streams = m.streams || i.Delivered > 0
	for _, c := range clocks() {
		if h := i.Latency[c]; h != nil {
			m.latency[c].Merge(h)
		}
	}
	if x := &i.Slowest; x.Response > 0 && (m.slowest == nil || x.Response.Seconds() > m.slowest.Value) {
		// The interval has just ended.
		m.slowest = &Exemplar{Time: m.now().Add(time.Duration(x.Written) - i.Start - i.Length), TraceID: x.Trace, Value: x.Response.Seconds()}
	}
	m.open = i.Connections
	if m.length >= time.Second {
		m.send(append(m.counters(), m.second()...))
		m.sampled = true
		m.reset()
	}
}

// counters are the points of what grows during the trial.
func (m *Meter) counters() []Point {
	of := m.metrics
	points := []Point{{Metric: &of.good, Value: float64(m.total.good)}, {Metric: &of.failed, Value: float64(m.total.failed)}}
	if m.streams {
		points = append(points, Point{Metric: &of.delivered, Value: float64(m.total.delivered)})
	}
	return points
}

// second are the points of the collected second.
func (m *Meter) second() []Point {
	of := m.metrics
	return append([]Point{
		{Metric: &of.throughput, Value: float64(m.good) / m.length.Seconds()},
		{Metric: &of.connections, Value: float64(m.open)},
		{Metric: &of.targetCPU, Value: m.cpu},
		{Metric: &of.targetRSS, Value: m.rss},
	}, m.latencies()...)
}

// latencies are the points of the times that were recorded in it.
func (m *Meter) latencies() (points []Point) {
	of := m.metrics
	for _, c := range clocks() {
		h := m.latency[c]
		if h.Count() == 0 {
			continue
		}
		for _, q := range quantiles() {
			p := Point{Metric: &of.latency, Value: float64(h.Quantile(q.q)) / 1e9, Labels: []Label{{LabelClock, c.String()}, {LabelQuantile, q.label}}}
			if q.q == 1 {
				p.Value = float64(h.Max()) / 1e9
				if c == record.Response {
					p.Exemplar = m.slowest
				}
			}
			points = append(points, p)
		}
	}
	return points
}

// End ends the trial with its findings and its totals. c counts the trial's requests. The last second is not whole
// and is mostly the drain, so only its latencies are sent. Of a trial without a whole second, everything is sent.
func (m *Meter) End(c rundir.Counts, flags []Flag) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.labels == nil {
		return
	}
	// A void trial has no counts.
	m.total.good, m.total.failed = max(m.total.good, c.Answered()), max(m.total.failed, c.Unanswered())
	points := m.counters()
	if m.length > 0 && !m.sampled {
		points = append(points, m.second()...)
	} else {
		points = append(points, m.latencies()...)
	}
	seen := map[Flag]bool{}
	for _, f := range flags {
		if seen[f] {
			continue
		}
		seen[f] = true
		severity := "warning"
		if f.Disturbs {
			severity = "disturbed"
		}
		points = append(points, Point{Metric: &m.metrics.flag, Value: 1, Labels: []Label{{LabelKind, f.Kind}, {LabelSeverity, severity}}})
	}
	m.send(points)
	m.finish()
}

// Close ends a trial that has not ended.
func (m *Meter) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finish()
}

// finish marks all the trial's series as ended.
func (m *Meter) finish() {
	if len(m.series) > 0 {
		ended := m.series
		m.series = nil
		for i := range ended {
			ended[i].Value, ended[i].Ended = 0, true
		}
		m.put(Sample{Time: m.tick(), Start: m.start, Labels: m.labels, Points: ended})
	}
	m.labels = nil
}

// send gives points to the sender, and remembers their series.
func (m *Meter) send(points []Point) {
	var finite []Point
	for _, p := range points {
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			continue
		}
		finite = append(finite, p)
		if !m.knows(p) {
			p.Exemplar = nil
			m.series = append(m.series, p)
		}
	}
	m.put(Sample{Time: m.tick(), Start: m.start, Labels: m.labels, Points: finite})
}

// knows tells whether a point's series has had a value. There are a few dozen series.
func (m *Meter) knows(p Point) bool {
	return slices.ContainsFunc(m.series, func(s Point) bool { return s.Metric == p.Metric && slices.Equal(s.Labels, p.Labels) })
}

// tick returns the time of the next sample. Receivers keep milliseconds, and refuse a
// second value for the same millisecond.
func (m *Meter) tick() time.Time {
	now := m.now()
	if least := m.latest.Add(time.Millisecond); now.Before(least) {
		now = least
	}
	m.latest = now
	return now
}

func (m *Meter) reset() {
	m.length, m.good, m.slowest = 0, 0, nil
	for _, c := range clocks() {
		m.latency[c].Reset()
	}
}
