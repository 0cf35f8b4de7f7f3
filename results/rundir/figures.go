package rundir

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"dyno/internal/units"
)

// A figure of a trial is declared once: as a field of Trial, or of a struct in it, with these tags.
//
//	metric   its name in expressions
//	unit     what it is kept in; without one it is a count
//	better   "more", where more of it is better
//	over     "sum", where it is a count of what the trials saw, which estimates nothing; else several trials have a typical value
//	about    what it is
//	en, zh   what pages call it, for requests; for events they put "event" for "request"
//	shown    the tables that every report shows it in: "figures" of each variant, "dimensions" of servers that are compared
//	from     the column of series.csv that it is made of, and how: per request, per second, or the largest value in the
//	         window; of what programs publish about themselves, published per request, or the largest level
//
// Metrics, run.json, reports, pages and the reference are made of that. Times are in Clocks.

// Target holds the cost of the load for the target.
type Target struct {
	CPUSeconds           *float64 `json:"cpu_seconds,omitempty"`
	CPUSecondsPerRequest *float64 `json:"cpu_seconds_per_request,omitempty" metric:"target.cpu_per_request" unit:"s" about:"the target's CPU time for each request" en:"CPU time per request" zh:"单请求 CPU 时间" shown:"figures"`
	CPUShare             *float64 `json:"cpu_share,omitempty" metric:"target.cpu_share" unit:"ratio" about:"how much of its CPUs the target used" en:"use of its CPUs" zh:"CPU 使用率"`
	BusiestThreadShare   *float64 `json:"busiest_thread_share,omitempty" from:"target_busiest_thread_seconds per second"` // of one CPU's time, which its busiest thread used
	ConnectionReuseRatio *float64 `json:"connection_reuse_ratio,omitempty" metric:"target.connection_reuse_ratio" unit:"ratio" better:"more" about:"requests on a connection that had carried one before, as a share; of events, the publications" en:"connection reuse" zh:"连接复用率" shown:"dimensions"`
	UserShare            *float64 `json:"user_share,omitempty" metric:"target.user_share" unit:"ratio" about:"the part of the target's CPU time outside of the kernel" en:"CPU in user mode" zh:"用户态 CPU 占比" shown:"dimensions"`
	RSSBytes             *int64   `json:"rss_bytes,omitempty" metric:"target.rss" unit:"B" about:"the target's resident memory, the most seen in the window" en:"resident memory" zh:"常驻内存" from:"target_rss_bytes largest" shown:"dimensions"`
	Threads              *int64   `json:"threads,omitempty" metric:"target.threads" about:"the target's threads" from:"target_threads largest"`
	Descriptors          *int64   `json:"descriptors,omitempty" metric:"target.descriptors" about:"the target's open file descriptors" from:"target_descriptors largest"`
	// System calls are counted in the window, or in a stretch of the same load after it;
	// then the rate is that of the window's requests.
	SyscallsPerSecond             *float64           `json:"syscalls_per_second,omitempty" metric:"target.syscalls_per_second" unit:"/s" about:"the target's system calls a second" en:"system calls" zh:"系统调用" shown:"dimensions"`
	SyscallsPerRequest            *float64           `json:"syscalls_per_request,omitempty" metric:"target.syscalls_per_request" about:"the target's system calls for each request" en:"system calls per request" zh:"单请求系统调用数" shown:"dimensions"`
	Syscalls                      map[string]float64 `json:"syscalls_by_name_per_request,omitempty"`
	RunQueueWaitSecondsPerRequest *float64           `json:"run_queue_wait_seconds_per_request,omitempty" metric:"target.run_queue_wait_per_request" unit:"s" about:"how long the target's threads were ready to run without a CPU, for each request" en:"waiting for a CPU per request" zh:"单请求等待 CPU 的时间" from:"target_run_queue_wait_seconds per request"`
	RunQueueWaitP99               *float64           `json:"run_queue_wait_p99_seconds,omitempty"` // of single waits, where system calls are counted
	GCPauseSeconds                *float64           `json:"gc_pause_seconds,omitempty"`
	GCPauseSecondsPerRequest      *float64           `json:"gc_pause_seconds_per_request,omitempty" metric:"target.gc_pause_per_request" unit:"s" about:"the pauses of the target's garbage collector, for each request" en:"GC pauses per request" zh:"单请求 GC 暂停时间" from:"target_gc_pause_seconds published"`
	AllocatedBytesPerRequest      *float64           `json:"allocated_bytes_per_request,omitempty" metric:"target.allocated_per_request" unit:"B" about:"bytes that the target allocated for each request" en:"memory allocated per request" zh:"单请求内存分配量" from:"target_allocated_bytes_total published"`
	AllocationsPerRequest         *float64           `json:"allocations_per_request,omitempty" metric:"target.allocations_per_request" about:"allocations of the target for each request" en:"allocations per request" zh:"单请求内存分配次数" from:"target_mallocs_total published"`
	Goroutines                    *int64             `json:"goroutines,omitempty" metric:"target.goroutines" about:"the target's goroutines, the most seen in the window" from:"target_goroutines level"`
	VoluntarySwitchesPerRequest   *float64           `json:"voluntary_switches_per_request,omitempty" metric:"target.voluntary_switches_per_request" about:"how often the target gave up a CPU, for each request" en:"voluntary context switches per request" zh:"单请求主动上下文切换数" from:"target_voluntary_switches per request"`
	InvoluntarySwitchesPerRequest *float64           `json:"involuntary_switches_per_request,omitempty" metric:"target.involuntary_switches_per_request" about:"how often a CPU was taken from the target, for each request" en:"involuntary context switches per request" zh:"单请求被动上下文切换数" from:"target_involuntary_switches per request"`
	MinorFaultsPerRequest         *float64           `json:"minor_faults_per_request,omitempty" metric:"target.minor_faults_per_request" about:"page faults of the target that needed no input, for each request" en:"minor page faults per request" zh:"单请求次缺页数" from:"target_minor_faults_total per request"`
	MajorFaultsPerRequest         *float64           `json:"major_faults_per_request,omitempty" metric:"target.major_faults_per_request" about:"page faults of the target that waited for input, for each request" en:"major page faults per request" zh:"单请求主缺页数" from:"target_major_faults_total per request"`
	ConnectionsAccepted           *int64             `json:"connections_accepted,omitempty"`
	Retransmits                   *int64             `json:"retransmits,omitempty"`      // segments, on the target's connections
	ListenOverflows               *int64             `json:"listen_overflows,omitempty"` // connections that found a full accept queue, in its network namespace
	ThrottledSeconds              *float64           `json:"throttled_seconds,omitempty"`
	StealShare                    *float64           `json:"steal_share,omitempty" metric:"target.steal_share" unit:"ratio" about:"how much of its CPUs' time, where they are the target's own, the hypervisor took"`
	// ForeignShare is the CPU time of other programs, as a share of the time of the
	// target's CPUs. It assumes that they ran only there, so the target lost at most this
	// much to them.
	ForeignShare *float64 `json:"foreign_share,omitempty"`
	// DescriptorsLeft is how many more descriptors were open two seconds after the load
	// than before it, at most. It is known for profiled trials.
	DescriptorsLeft *int64 `json:"descriptors_left,omitempty"`
}

// Generator holds the cost of the load for dyno.
type Generator struct {
	CPUSeconds           *float64 `json:"cpu_seconds,omitempty" metric:"generator.cpu_seconds" unit:"s" about:"dyno's own CPU time"`
	CPUSecondsPerRequest *float64 `json:"cpu_seconds_per_request,omitempty" metric:"generator.cpu_per_request" unit:"s" about:"dyno's own CPU time for each request" en:"generator CPU time per request" zh:"发生器单请求 CPU 时间"`
	CPUShare             *float64 `json:"cpu_share,omitempty" metric:"generator.cpu_share" unit:"ratio" about:"how much of its workers' CPUs dyno used" en:"generator CPU" zh:"发生器 CPU 使用率"`
	UserShare            *float64 `json:"user_share,omitempty"`
	RSSBytes             *int64   `json:"rss_bytes,omitempty" metric:"generator.rss" unit:"B" about:"dyno's own resident memory, the most seen in the window"`
	RunQueueWaitShare    *float64 `json:"run_queue_wait_share,omitempty"` // of the window: the worst worker of all machines was ready to run and had no CPU
	// TimeslicesPerSecond is how often that worker was given a CPU.
	TimeslicesPerSecond *float64 `json:"timeslices_per_second,omitempty"`
	StealShare          *float64 `json:"steal_share,omitempty"` // of its CPUs' time, where it has CPUs of its own, or of the worst agent's: taken by the hypervisor
	Workers             int      `json:"workers,omitempty"`
}

// assessed are figures that judging makes of several fields, or of several trials.
type assessed struct {
	Capacity     float64 `metric:"capacity" unit:"/s" better:"more" about:"the highest rate at which all thresholds hold" en:"capacity" zh:"容量" shown:"figures"`
	ErrorRatio   float64 `metric:"errors.ratio" unit:"ratio" about:"failed requests, as a share of all" en:"share of errors" zh:"错误率" shown:"figures"`
	Availability float64 `metric:"availability" unit:"ratio" better:"more" about:"good responses, as a share of all requests"`
	ErrorTotal   int64   `metric:"errors.total" over:"sum" about:"failed requests"`
}

// The names of metrics that dyno itself refers to.
const (
	MetricThroughput   = "throughput"
	MetricCapacity     = "capacity"
	MetricTokenRate    = "tokens_per_second"
	MetricPromptRate   = "prompt_tokens_per_second"
	MetricGoodput      = "goodput"
	MetricMessageRate  = "messages_per_second"
	MetricCPU          = "target.cpu_per_request"
	MetricCPUShare     = "target.cpu_share"
	MetricMemory       = "target.rss"
	MetricStealShare   = "target.steal_share"
	MetricGenerator    = "generator.cpu_share"
	MetricErrorRatio   = "errors.ratio"
	MetricErrorTotal   = "errors.total"
	MetricAvailability = "availability"
)

// A Metric is what a figure is by its name in expressions.
type Metric struct {
	Name             string
	Unit             Unit
	Higher           bool // more of it is better; for all others, less is
	Counted          bool // it is the sum of what trials counted
	About            string
	English, Chinese string   // what pages call it
	Shown            []string // in which tables
}

// Metrics lists every metric but those of steps, programs and observers, in the order of a report.
func Metrics() []Metric {
	all := declared(reflect.TypeFor[assessed]())
	for _, c := range Clocks() {
		for _, of := range Summaries() {
			all = append(all, Metric{Name: c.Tag + "." + of.Name, Unit: Seconds, About: c.About})
		}
	}
	fields := declared(reflect.TypeFor[Trial]())
	rates := 0
	for fields[rates].Unit == PerSecond {
		rates++
	}
	return append(append(fields[:rates:rates], all...), fields[rates:]...)
}

// declared lists the metrics of a struct's fields, and of those of structs in it.
func declared(t reflect.Type) (all []Metric) {
	for f := range t.Fields() {
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		tag := f.Tag.Get
		switch {
		case tag("metric") != "":
			m := Metric{
				Name: tag("metric"), Unit: Unit(tag("unit")), Higher: tag("better") == "more", Counted: tag("over") == "sum",
				About: tag("about"), English: tag("en"), Chinese: tag("zh"), Shown: strings.Fields(tag("shown")),
			}
			if m.Unit == "" {
				m.Unit = Count
			}
			all = append(all, m)
		case of.Kind() == reflect.Struct:
			all = append(all, declared(of)...)
		}
	}
	return all
}

// Shown lists the metrics that a table shows in every report.
func Shown(table string) []Metric {
	return slices.DeleteFunc(Metrics(), func(m Metric) bool { return !slices.Contains(m.Shown, table) })
}

var metricsByName = sync.OnceValue(func() map[string]Metric {
	byName := map[string]Metric{}
	for _, m := range Metrics() {
		byName[m.Name] = m
	}
	return byName
})

// Figures returns the known figures of a trial by the names of their metrics. It leaves out times, and the figures
// that judging makes.
func (t *Trial) Figures() map[string]float64 {
	known := map[string]float64{}
	figures(reflect.ValueOf(t).Elem(), func(metric string, v float64) { known[metric] = v })
	for i := range t.Steps {
		figures(reflect.ValueOf(&t.Steps[i]).Elem(), func(metric string, v float64) { known[StepMetric(metric, t.Steps[i].Name)] = v })
	}
	for name, v := range t.Measures {
		known[OfPrograms+name] = v
	}
	for name, v := range t.Observed {
		known[OfObservers+name] = v
	}
	return known
}

func figures(s reflect.Value, visit func(metric string, v float64)) {
	for i := range s.NumField() {
		v := s.Field(i)
		if v.Kind() == reflect.Pointer {
			v = v.Elem() // of nil: nothing
		}
		switch metric := s.Type().Field(i).Tag.Get("metric"); {
		case metric != "" && v.CanInt():
			visit(metric, float64(v.Int()))
		case metric != "" && v.CanFloat():
			visit(metric, v.Float())
		case v.Kind() == reflect.Struct:
			figures(v, visit)
		}
	}
}

// The beginnings of the names of figures that others have named.
const (
	OfPrograms  = "program."  // a program printed the figure
	OfObservers = "observed." // an endpoint or a command of the plan gave it
)

// FindMetric returns the metric of a name, which may be that of a step, as in
// response.p99{step=login}. Any program.NAME and observed.NAME is one, and any quantile of a
// clock. A name is not found if it is unknown, or if its metric is not known of steps.
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

// MetricOf returns the metric of a name, which may be that of a step. An unknown name is that
// of a count.
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
	_, isClock := ClockOf(of)
	return m.Counted || isClock && strings.HasSuffix(of, ".max")
}

// OfSteps tells whether the metric is known of each step of a scenario.
func (m Metric) OfSteps() bool {
	of, _ := SplitStep(m.Name)
	if c, ok := ClockOf(of); ok {
		return c.Steps
	}
	for _, s := range declared(reflect.TypeFor[ScenarioStep]()) {
		if s.Name == of {
			return true
		}
	}
	return of == MetricErrorRatio || of == MetricErrorTotal
}
