package rundir

import (
	"slices"
	"strings"
	"sync"

	"dyno/internal/units"
)

// This file and columns.go are the only places that know the names of figures and their
// units. A new metric, tag, column or check needs a line in them; tests hold the tables to what
// judge/verdict knows and to what is recorded. web/src/names.ts is made of them.

// The tags of the times in latency.hlog. Those of a step end in its name: see StepTag.
const (
	TagResponse     = "response"
	TagService      = "service"
	TagSendLag      = "send_lag"
	TagGeneratorLag = "generator_lag"
	TagConnect      = "connect"
	TagFirstByte    = "first_byte"
	TagFailed       = "failed"
	TagReadDelay    = "read_delay"
	TagServiceRead  = "service_read"
	TagHandshake    = "handshake"
	TagSharedStamp  = "shared_stamp"
	TagGivenUp      = "given_up"
	TagGivenService = "given_up_service"
	TagFirstMessage = "first_message"
	TagMessageGap   = "message_gap"
	TagMessage      = "message"
	TagFirstToken   = "first_token"
	TagTokenTime    = "token_time"
	TagOpening      = "opening"
	TagFirstEvent   = "first_event"
	TagEventGap     = "event_gap"
	TagDelivery     = "delivery"
)

// A Clock is a tag whose times are metrics, such as response.p99.
type Clock struct {
	Tag    string
	Target bool // the target is judged by these times
	Curve  bool // reports draw their percentiles
	About  string
}

// Clocks lists the clocks in the order of a report.
func Clocks() []Clock {
	return []Clock{
		{TagResponse, true, true, "from when a request was due until the last byte of its response"},
		{TagService, true, true, "from the write of a request until the last byte of its response"},
		{TagSendLag, false, true, "from when a request was due until its write"}, // the generator's own
		{TagConnect, true, false, "opening a connection, without TLS"},
		{TagFirstByte, true, false, "from the write until the first byte of the response"},
		{TagReadDelay, false, false, "from the arrival of the last byte until dyno read it"},
		{TagServiceRead, false, false, "from the write until dyno read the last byte"},
		{TagHandshake, true, false, "the TLS handshake of a connection"},
		{TagFirstMessage, true, true, "from the write until the first message of a stream"},
		{TagMessageGap, true, true, "between two messages or pieces of a response"},
		{TagMessage, true, true, "from when a message was due until its answer"},
		{TagFirstToken, true, true, "from when a request was due until the first token of its answer (TTFT)"},
		{TagTokenTime, true, true, "time for each token after the first (TPOT)"},
		{TagOpening, true, false, "from the beginning of a subscriber's connecting until its stream is open"},
		{TagFirstEvent, true, false, "from the write of a subscription until its first event"},
		{TagEventGap, true, true, "between two events of a subscriber"},
		{TagDelivery, true, true, "from when the publication of an event was due until its arrival"},
	}
}

// Tags lists all tags.
func Tags() []string {
	var list []string
	for _, c := range Clocks() {
		list = append(list, c.Tag)
	}
	return append(list, TagGeneratorLag, TagFailed, TagSharedStamp, TagGivenUp, TagGivenService)
}

// ClockOf returns the clock of a metric. It returns false for a metric that is no time of one.
func ClockOf(metric string) (Clock, bool) {
	tag, _, _ := strings.Cut(metric, ".")
	all := Clocks()
	if i := slices.IndexFunc(all, func(c Clock) bool { return c.Tag == tag }); i >= 0 {
		return all[i], true
	}
	return Clock{}, false
}

// The names of metrics that dyno itself refers to.
const (
	MetricThroughput = "throughput"
	MetricCapacity   = "capacity"
	MetricTokenRate  = "tokens_per_second"
	MetricPromptRate = "prompt_tokens_per_second"
	MetricGoodput    = "goodput"
	MetricCPU        = "target.cpu_per_request"
	MetricMemory     = "target.rss"
	MetricErrorRatio = "errors.ratio"
	MetricErrorTotal = "errors.total"
)

// A Metric is what a figure is by its name in expressions.
type Metric struct {
	Name   string
	Unit   Unit
	Higher bool // more of it is better; for all others, less is
	About  string
}

// Metrics lists every metric but those of steps, programs and observers, in the order of a
// report.
func Metrics() []Metric {
	all := []Metric{
		{MetricThroughput, PerSecond, true, "good responses a second; with subscribers, events"},
		{MetricTokenRate, PerSecond, true, "tokens of good answers a second"},
		{MetricPromptRate, PerSecond, true, "tokens of the prompts of good answers a second"},
		{MetricGoodput, PerSecond, true, "answers a second that keep within both bounds of an SLO"},
		{MetricCapacity, PerSecond, true, "the highest rate at which all thresholds hold"},
	}
	for _, c := range Clocks() {
		for _, of := range Summaries() {
			all = append(all, Metric{Name: c.Tag + "." + of.Name, Unit: Seconds, About: c.About})
		}
	}
	return append(all, []Metric{
		{"streams.lost", Count, false, "events that never arrived, without a word of the target"},
		{"streams.announced", Count, false, "events that never arrived, as the target said"},
		{"streams.repeated", Count, false, "events that arrived more than once"},
		{"streams.disordered", Count, false, "events that arrived after a later one of their publisher"},
		{"streams.gaps", Count, false, "events by which the target said that others are missing"},
		{"streams.reconnects", Count, false, "streams that were opened again"},
		{MetricErrorRatio, Share, false, "failed requests, as a share of all"},
		{"availability", Share, true, "good responses, as a share of all requests"},
		{MetricErrorTotal, Count, false, "failed requests"},
		{MetricCPU, Seconds, false, "the target's CPU time for each request"},
		{"target.cpu_share", Share, false, "how much of its CPUs the target used"},
		{"target.user_share", Share, false, "the part of the target's CPU time outside of the kernel"},
		{MetricMemory, Bytes, false, "the target's resident memory"},
		{"target.threads", Count, false, "the target's threads"},
		{"target.descriptors", Count, false, "the target's open file descriptors"},
		{"target.connection_reuse_ratio", Share, true, "requests on a connection that had carried one before, as a share"},
		{"target.syscalls_per_second", PerSecond, false, "the target's system calls a second"},
		{"target.syscalls_per_request", Count, false, "the target's system calls for each request"},
		{"target.run_queue_wait_per_request", Seconds, false, "how long the target waited for a CPU, for each request"},
		{"target.gc_pause_per_request", Seconds, false, "the pauses of the target's garbage collector, for each request"},
		{"target.allocated_per_request", Bytes, false, "bytes that the target allocated for each request"},
		{"target.allocations_per_request", Count, false, "allocations of the target for each request"},
		{"target.goroutines", Count, false, "the target's goroutines"},
		{"target.voluntary_switches_per_request", Count, false, "how often the target gave up a CPU, for each request"},
		{"target.involuntary_switches_per_request", Count, false, "how often a CPU was taken from the target, for each request"},
		{"generator.cpu_per_request", Seconds, false, "dyno's own CPU time for each request"},
		{"generator.cpu_share", Share, false, "how much of its CPUs dyno used"},
		{"connections.requested", Count, false, "connections that the load asked for"},
		{"connections.opened", Count, false, "connections that were opened"},
		{"connections.failed", Count, false, "connections that could not be opened"},
		{"connections.peak", Count, false, "the most connections at once"},
		{"connections.served", Count, false, "connections with a good answer"},
		{"connections.unanswered", Count, false, "connections on which no answer came"},
	}...)
}

var metricsByName = sync.OnceValue(func() map[string]Metric {
	byName := map[string]Metric{}
	for _, m := range Metrics() {
		byName[m.Name] = m
	}
	return byName
})

// The beginnings of the names of figures that others have named: of those that a program
// printed, and of those that the plan's endpoints and commands gave.
const (
	OfPrograms  = "program."
	OfObservers = "observed."
)

// FindMetric returns the metric of a name, which may be that of a step, as in
// response.p99{step=login}. Any program.NAME and observed.NAME is one, and any quantile of a
// clock. It is not found if nobody knows it, or nobody knows it of a step.
func FindMetric(name string) (m Metric, found bool) {
	of, step := SplitStep(name)
	m, found = metricsByName()[of]
	c, isClock := ClockOf(of)
	switch {
	case found:
	case isClock:
		if _, found = QuantileOf(strings.TrimPrefix(of, c.Tag+".")); found {
			m.Unit = Seconds
		}
	default:
		m, found = othersMetric(of)
	}
	if m.Name = name; !found {
		m.Unit = Count
	}
	return m, found && (step == "" || m.OfSteps())
}

// othersMetric returns the metric of a figure that others have named.
func othersMetric(name string) (m Metric, found bool) {
	if printed, ok := strings.CutPrefix(name, OfPrograms); ok {
		_, unit := ProgramUnit(printed)
		return Metric{Unit: unit, Higher: unit == PerSecond || unit == Count}, printed != ""
	}
	if column, ok := strings.CutPrefix(name, OfObservers); ok {
		return Metric{Unit: named(column, EndingsOfObservers()).Unit}, column != ""
	}
	return Metric{}, false
}

// MetricOf returns the metric of a name, which may be that of a step. A name that nobody
// knows is that of a count.
func MetricOf(name string) Metric {
	m, _ := FindMetric(name)
	return m
}

// Dimension is what the metric measures. A plain number stands for what the plan's endpoints
// and commands gave.
func (m Metric) Dimension() units.Dimension {
	if strings.HasPrefix(m.Name, OfObservers) {
		return units.Plain
	}
	return m.Unit.Dimension()
}

// IsFact tells whether the metric is a count or an extreme of what the run saw, which
// estimates nothing.
func (m Metric) IsFact() bool {
	of, _ := SplitStep(m.Name)
	if _, isClock := ClockOf(of); isClock {
		return strings.HasSuffix(of, ".max")
	}
	return of == MetricErrorTotal || strings.HasPrefix(of, "streams.")
}

// OfSteps tells whether the metric is known of each step of a scenario.
func (m Metric) OfSteps() bool {
	of, _ := SplitStep(m.Name)
	if c, ok := ClockOf(of); ok {
		return slices.Contains([]string{TagResponse, TagService, TagFirstToken, TagTokenTime}, c.Tag)
	}
	return slices.Contains([]string{MetricThroughput, MetricTokenRate, MetricPromptRate, MetricGoodput, MetricErrorRatio, MetricErrorTotal}, of)
}

// An Ending is the end of a name by which others tell the unit. That of a counter is the
// unit of its growth.
type Ending struct {
	End     string
	Unit    Unit
	Counter bool
}

// EndingsOfPrograms says how a program tells the units of the figures that it prints. A
// figure with no such end is a count.
func EndingsOfPrograms() []Ending {
	return []Ending{{"_per_second", PerSecond, false}, {"_seconds", Seconds, false}, {"_bytes", Bytes, false}}
}

// EndingsOfObservers are those by which the metrics of endpoints and commands tell their
// units (https://prometheus.io/docs/practices/naming).
func EndingsOfObservers() []Ending {
	return []Ending{
		{"_bytes_total", BytesPerSecond, true}, {"_seconds_total", CPUs, true}, {"_total", PerSecond, true}, {"_count", PerSecond, true},
		{"_bytes", Bytes, false}, {"_seconds", Seconds, false}, {"_ratio", Share, false},
	}
}

// named returns what the first ending says that a name has. With none of them, it is a count.
func named(name string, endings []Ending) Ending {
	for _, e := range endings {
		if strings.HasSuffix(name, e.End) && name != e.End {
			return e
		}
	}
	return Ending{Unit: Count}
}

// ProgramUnit cuts the unit off the name of a figure that a program printed.
func ProgramUnit(name string) (base string, unit Unit) {
	e := named(name, EndingsOfPrograms())
	return strings.TrimSuffix(name, e.End), e.Unit
}

// A Gauge is a level of the target that may grow during a soak. Expressions name it.
type Gauge struct{ Name, Column string }

// Gauges lists them in the order of a report.
func Gauges() []Gauge {
	return []Gauge{
		{"rss", "target_rss_bytes"},
		{"threads", "target_threads"},
		{"descriptors", "target_descriptors"},
		{"goroutines", "target_goroutines"},
	}
}

// CheckUnits returns the unit of what each kind of check of a trial measures. A kind that
// measures nothing is not among them.
func CheckUnits() map[string]Unit {
	return map[string]Unit{
		"generator_resources": Count,
		"generator_starved":   Share,
		"own_limit":           Count,
		"no_answers":          Count,
		"stalled":             Seconds,
		"connections":         Count,
		"unopened":            Count,
		"redirects":           Count,
		"deviations":          Count,
		"generator_lag":       Seconds,
		"connection_limit":    Seconds,
		"few_connections":     PerSecond,
		"generator_lag_tail":  Seconds,
		"drops":               Count,
		"achieved_rate":       Share,
		"unfinished":          Share,
		"subscribers":         Count,
		"generator_cpu":       Share,
		"run_queue_wait":      Share,
		"generator_limit":     Share,
		"start_skew":          Seconds,
		"steal":               Share,
		"foreign_cpu":         Share,
		"late_wakeups":        Share,
		"memory_pressure":     Share,
		"io_pressure":         Share,
		"disturbed":           Share,
		"not_steady":          Share,
		"dependent":           Count,
	}
}
