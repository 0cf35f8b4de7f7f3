package kernel

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"dyno/internal/texts"
	"dyno/observe"
)

// An Observer observes all processes below one. Its methods, Syscalls included, are
// called by one goroutine at a time, except for Waits, which any may call.
type Observer struct {
	name    string
	method  string
	missing []error
	source  source
	has     facility
	columns []column
	names   [slots]string

	mu   sync.Mutex // guards now
	now  reading
	wave [buckets]uint64 // waits between the last two readings
}

var _ observe.Observer = (*Observer)(nil)

// A source counts.
type source interface {
	read(*reading) error
	close() error
}

// errCrowded is the error of a reading without waits.
var errCrowded = errors.New("run-queue waits: more threads at a time than there is room for")

// A reading holds a source's counts since it was made.
type reading struct {
	tracerCounters        // of all CPUs
	missed         uint64 // events that programs could not be run for
}

// sum adds the counts of one CPU.
func (r *reading) sum(c *tracerCounters) {
	for i, n := range c.Calls {
		r.Calls[i] += n
	}
	for i, n := range c.Buckets {
		r.Buckets[i] += n
	}
	r.Accepts += c.Accepts
	r.Established += c.Established
	r.Closed += c.Closed
	r.Retransmits += c.Retransmits
	r.Waits += c.Waits
	r.WaitNanoseconds += c.WaitNanoseconds
	r.Crowded += c.Crowded
}

// A facility is a set of things that a source can count.
type facility uint8

const (
	callTotals facility = 1 << iota
	callNumbers
	acceptCalls
	connections
	retransmits
	waitTimes
	missedEvents
)

func (f facility) String() string {
	var s []string
	for i, name := range []string{"system calls", "system calls by name", "accepts", "connections", "retransmits", "run-queue waits", "missed events"} {
		if f&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	return strings.Join(s, ", ")
}

func newObserver(cfg Config, method string, s source, has facility, missing []error) *Observer {
	o := &Observer{name: cfg.Name, method: method, source: s, has: has, names: callNames()}
	asked := cfg.asks()
	o.columns = slices.DeleteFunc(columns(&o.names), func(c column) bool { return c.of&asked == 0 })
	for _, err := range missing {
		o.missing = append(o.missing, located(cfg.Name, err))
	}
	return o
}

// located says which observer an error is about.
func located(name string, err error) *observe.Unavailable {
	u := observe.Unavailable{Reason: texts.Together(texts.Reasons(err)...), Err: err}
	if inner := (*observe.Unavailable)(nil); errors.As(err, &inner) {
		u = *inner
	}
	u.Observer = name
	return &u
}

// Name returns the name given.
func (o *Observer) Name() string { return o.name }

// Method returns the way of counting: "ebpf" or "perf".
func (o *Observer) Method() string { return o.method }

// Missing says which columns are not available here, and why. Columns that the Config
// leaves out are not among them.
func (o *Observer) Missing() []error { return o.missing }

// Columns returns the columns.
func (o *Observer) Columns() []observe.Column {
	all := make([]observe.Column, len(o.columns))
	for i, c := range o.columns {
		all[i] = c.Column
	}
	return all
}

// Observe reads the counts.
func (o *Observer) Observe(row []float64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.now.Buckets
	if err := o.source.read(&o.now); err != nil {
		o.now.Buckets = before
		for i := range row {
			row[i] = math.NaN()
		}
		return err
	}
	for i, n := range o.now.Buckets {
		o.wave[i] = n - before[i]
	}
	has, err := o.has, error(nil)
	if o.now.Crowded > 0 {
		has, err = has&^waitTimes, errCrowded
	}
	for i, c := range o.columns {
		row[i] = math.NaN()
		if has&c.of != 0 {
			row[i] = c.value(o)
		}
	}
	return err
}

// Waits returns the waits of threads for a CPU that had ended at the newest reading; nil if that
// is not known.
func (o *Observer) Waits() *Waits {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.has&waitTimes == 0 || o.now.Crowded > 0 {
		return nil
	}
	return &Waits{o.now.Buckets}
}

// Syscalls returns how many system calls there were since the observer was made, by
// name. Numbers without a name are syscall_NNN. By perf events only those with a column are
// distinguished; all others are "other". It is nil when system calls are not counted or
// cannot be read.
func (o *Observer) Syscalls() map[string]uint64 {
	var r reading
	if o.has&callTotals == 0 || o.source.read(&r) != nil {
		return nil
	}
	all := make(map[string]uint64)
	for slot, n := range r.Calls {
		if n > 0 {
			all[callName(&o.names, slot)] += n
		}
	}
	return all
}

// Close detaches from the kernel.
func (o *Observer) Close() error { return o.source.close() }

// A column is known when the source has its counts.
type column struct {
	observe.Column
	of    facility
	value func(*Observer) float64
}

func columns(names *[slots]string) []column {
	var all []column
	count := func(name string, of facility, help string, value func(*reading) uint64) {
		all = append(all, column{observe.Column{Name: name, Kind: observe.Counter, Help: help}, of,
			func(o *Observer) float64 { return float64(value(&o.now)) }})
	}
	count("syscalls_total", callTotals, "system calls begun", func(r *reading) uint64 { return calls(r, nil) })
	rest := make([]bool, slots) // numbers without a column
	for i := range rest {
		rest[i] = true
	}
	for _, g := range callGroups() {
		mine := make([]bool, slots)
		for _, n := range numbersOf(names, g.calls) {
			mine[n], rest[n] = true, false
		}
		count("syscall_"+g.column+"_total", callNumbers, "system calls begun: "+strings.Join(g.calls, ", "),
			func(r *reading) uint64 { return calls(r, mine) })
	}
	count("syscall_other_total", callNumbers, "system calls begun that have no column of their own",
		func(r *reading) uint64 { return calls(r, rest) })
	count("accepts_total", acceptCalls, "accept and accept4 that returned a descriptor, on any socket",
		func(r *reading) uint64 { return r.Accepts })
	count("connections_established_total", connections, "TCP connections to the ports that were established",
		func(r *reading) uint64 { return r.Established })
	count("connections_closed_total", connections, "TCP connections to the ports that ended, whichever end closed",
		func(r *reading) uint64 { return r.Closed })
	count("retransmits_total", retransmits, "TCP segments sent again, by either end of connections to the ports",
		func(r *reading) uint64 { return r.Retransmits })
	count("run_queue_waits_total", waitTimes, "waits of threads for a CPU that have ended",
		func(r *reading) uint64 { return r.Waits })
	all = append(all, column{observe.Column{Name: "run_queue_wait_seconds", Kind: observe.Counter,
		Help: "time in these waits; counted when the thread next leaves the CPU"}, waitTimes,
		func(o *Observer) float64 { return float64(o.now.WaitNanoseconds) / 1e9 }})
	for _, q := range []struct {
		percent string
		q       float64
	}{{"50", 0.50}, {"99", 0.99}} {
		all = append(all, column{observe.Column{Name: "run_queue_wait_p" + q.percent + "_seconds", Kind: observe.Gauge,
			Help: "percentile " + q.percent + " of these waits since the previous reading, within 6.25 %"}, waitTimes,
			func(o *Observer) float64 { return quantile(&o.wave, q.q) }})
	}
	count("missed_events_total", missedEvents, "events not counted because one interrupted the other; should be 0",
		func(r *reading) uint64 { return r.missed })
	return all
}

// calls sums up slots: the chosen ones, or all.
func calls(r *reading, chosen []bool) (sum uint64) {
	for i, n := range r.Calls {
		if chosen == nil || chosen[i] {
			sum += n
		}
	}
	return sum
}
