package rundir

import (
	"path"
	"slices"
	"strings"
	"sync"

	"dyno/results/rundir/series"
)

// A Column is a column of series.csv. The unit of a counter is that of its growth.
type Column struct {
	Name    string // a * stands for any text
	Unit    Unit
	Counter bool
}

func gauge(name string, u Unit) Column   { return Column{name, u, false} }
func counter(name string, u Unit) Column { return Column{name, u, true} }

// columnsOf returns the columns of each of several observers.
func columnsOf(observers string, columns ...Column) (all []Column) {
	for o := range strings.FieldsSeq(observers) {
		for _, c := range columns {
			c.Name = o + "_" + c.Name
			all = append(all, c)
		}
	}
	return all
}

// Columns lists the columns of dyno's own observers.
func Columns() []Column {
	return slices.Concat(
		[]Column{gauge(series.TimeColumn, Seconds), counter("recorder_cpu_seconds", CPUs)},
		processColumns(),
		machineColumns(),
		kernelColumns(),
	)
}

// processColumns lists what is recorded of processes.
func processColumns() []Column {
	return slices.Concat(
		columnsOf("target service_* neighbour* generator",
			counter("cpu_seconds", CPUs),
			counter("cpu_user_seconds", CPUs),
			counter("cpu_system_seconds", CPUs),
			gauge("rss_bytes", Bytes),
			gauge("processes", Count),
			gauge("threads", Count),
			gauge("descriptors", Count),
			counter("voluntary_switches", PerSecond),
			counter("involuntary_switches", PerSecond),
			counter("run_queue_wait_seconds", Share),
			counter("busiest_thread_seconds", Share),
			counter("minor_faults_total", PerSecond),
			counter("major_faults_total", PerSecond),
		),
		columnsOf("upstreams", counter("cpu_seconds", CPUs)),
		columnsOf("generator",
			counter("worker*_cpu_seconds", CPUs),
			counter("worker*_run_queue_wait_seconds", Share),
			counter("worker*_timeslices_total", PerSecond),
		),
		columnsOf("target", // what a Go program reports about itself
			gauge("goroutines", Count),
			gauge("heap_bytes", Bytes),
			gauge("heap_live_bytes", Bytes),
			gauge("heap_objects", Count),
			counter("gc_cycles_total", PerSecond),
			counter("gc_pause_seconds", Share),
			counter("gc_cpu_seconds", CPUs),
			counter("allocated_bytes_total", BytesPerSecond),
			counter("mallocs_total", PerSecond),
			gauge("runtime_threads", Count),
			gauge("scheduler_latency_p50_seconds", Seconds),
			gauge("scheduler_latency_p99_seconds", Seconds),
			counter("runtime_read_at_seconds", Number),
		),
	)
}

// machineColumns lists what is recorded of CPUs, of memory and of control groups.
func machineColumns() []Column {
	return slices.Concat(
		columnsOf("machine target_machine",
			counter("cpu_user_seconds", CPUs),
			counter("cpu_system_seconds", CPUs),
			counter("cpu_interrupt_seconds", CPUs),
			counter("cpu_idle_seconds", CPUs),
			gauge("steal_ratio", Share),
			counter("cpu_foreign_seconds", CPUs),
		),
		columnsOf("machine target_machine target_cpus generator_cpus",
			counter("cpu_seconds", CPUs),
			counter("cpu_busy_seconds", CPUs),
			counter("cpu_steal_seconds", CPUs),
		),
		columnsOf("machine target_machine cgroup pod_*",
			counter("cpu_pressure_seconds", Share),
			counter("memory_stall_seconds", Share),
			counter("io_stall_seconds", Share),
		),
		columnsOf("cgroup pod_*",
			counter("cpu_seconds", CPUs),
			counter("cpu_periods_total", PerSecond),
			counter("cpu_throttled_periods_total", PerSecond),
			counter("cpu_throttled_seconds", CPUs),
			gauge("memory_bytes", Bytes),
			gauge("memory_peak_bytes", Bytes),
			counter("oom_kills_total", PerSecond),
		),
		columnsOf("wakeup target_wakeup",
			counter("sleeps_total", PerSecond),
			counter("late_total", PerSecond),
			gauge("overshoot_max_seconds", Seconds),
			gauge("overshoot_p999_seconds", Seconds),
			counter("cpu_seconds", CPUs),
		),
		columnsOf("target_agent", // which reads what is recorded of a target on another machine
			counter("time_seconds", Seconds),
			gauge("lag_seconds", Seconds),
		),
	)
}

// kernelColumns lists what is recorded of the kernel and of its connections.
func kernelColumns() []Column {
	return slices.Concat(
		columnsOf("kernel",
			counter("syscalls_total", PerSecond),
			counter("syscall_*_total", PerSecond),
			counter("accepts_total", PerSecond),
			counter("connections_established_total", PerSecond),
			counter("connections_closed_total", PerSecond),
			counter("retransmits_total", PerSecond),
			counter("run_queue_waits_total", PerSecond),
			counter("run_queue_wait_seconds", Share),
			gauge("run_queue_wait_p*_seconds", Seconds),
			counter("missed_events_total", PerSecond),
		),
		columnsOf("network",
			counter("listen_overflows_total", PerSecond),
			counter("listen_drops_total", PerSecond),
			counter("timeouts_total", PerSecond),
			counter("segments_sent_total", PerSecond),
			counter("segments_retransmitted_total", PerSecond),
			counter("opened_total", PerSecond),
			counter("accepted_total", PerSecond),
			counter("reset_total", PerSecond),
			counter("resets_sent_total", PerSecond),
		),
		columnsOf("tcp_target tcp_generator",
			gauge("connections", Count),
			gauge("rtt_mean_seconds", Seconds),
			gauge("rtt_max_seconds", Seconds),
			gauge("rtt_min_seconds", Seconds),
			counter("retransmits_total", PerSecond),
			gauge("unsent_bytes", Bytes),
			gauge("unacked_segments", Count),
			gauge("receive_queue_bytes", Bytes),
			gauge("send_queue_bytes", Bytes),
			gauge("congestion_window_segments", Count),
			gauge("delivery_rate_bytes_per_second", BytesPerSecond),
			counter("busy_seconds", Share),
			counter("receive_window_limited_seconds", Share),
			counter("send_buffer_limited_seconds", Share),
		),
		columnsOf("tcp",
			counter("read_at_seconds", Number),
			gauge("accept_queue", Count),
			gauge("accept_queue_limit", Count),
			gauge("accept_queue_peak", Count),
		),
	)
}

var columns = sync.OnceValue(Columns)

// ColumnOf returns the column of a name, and whether it is of dyno's own observers. The
// unit of any other follows from its name's end.
func ColumnOf(name string) (c Column, own bool) {
	for _, c := range columns() {
		if matched, err := path.Match(c.Name, name); matched && err == nil {
			return Column{name, c.Unit, c.Counter}, true
		}
	}
	e := named(name, EndingsOfObservers())
	return Column{name, e.Unit, e.Counter}, false
}
