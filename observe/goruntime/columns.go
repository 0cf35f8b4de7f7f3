package goruntime

import (
	"context"
	"fmt"
	"math"

	"dyno/observe"
	"dyno/observe/scrape"
)

// A column is a possible column of a Runtime.
type column struct {
	observe.Column
	later bool // it has a value from the second reading on
}

// A measure is a column, and where its value is on the page.
type measure struct {
	column
	value func(page) float64
}

func gauge(name, help string) column {
	return column{Column: observe.Column{Name: name, Kind: observe.Gauge, Help: help}}
}

func total(name, help string) column {
	return column{Column: observe.Column{Name: name, Kind: observe.Counter, Help: help}}
}

func goroutineCount() column {
	return gauge("goroutines", "goroutines of a Go program, by its own answer")
}

// page is an answer in Prometheus' format.
type page struct {
	values    map[string]float64 // of series without labels
	latencies scrape.Histogram   // of the scheduler, since the page before
}

// first returns the value of the first name that the page has.
func first(names ...string) func(page) float64 {
	return func(p page) float64 {
		for _, n := range names {
			if v, ok := p.values[n]; ok {
				return v
			}
		}
		return math.NaN()
	}
}

// schedulerLatency is runtime/metrics' /sched/latencies:seconds.
const schedulerLatency = "go_sched_latencies_seconds"

// measures are those of client_golang's Go collector. The names in the second places are those that it
// gives runtime/metrics.
func measures() []measure {
	latency := func(q float64) func(page) float64 {
		return func(p page) float64 { return p.latencies.Quantile(q) }
	}
	return []measure{
		{goroutineCount(), first("go_goroutines", "go_sched_goroutines_goroutines")},
		{gauge("heap_bytes", "heap objects, reachable or not yet swept"), first("go_memstats_heap_alloc_bytes", "go_memory_classes_heap_objects_bytes")},
		{gauge("heap_live_bytes", "heap that the latest garbage collection found reachable"), first("go_gc_heap_live_bytes")},
		{gauge("heap_objects", "number of heap objects, reachable or not yet swept"), first("go_memstats_heap_objects", "go_gc_heap_objects_objects")},
		{total("gc_cycles_total", "garbage collections that have ended"), first("go_gc_cycles_total_gc_cycles_total", "go_gc_duration_seconds_count")},
		{total("gc_pause_seconds", "time in which the garbage collector stopped all goroutines"), first("go_gc_duration_seconds_sum")},
		{total("gc_cpu_seconds", "CPU time of the garbage collector, as estimated at the end of each collection"), first("go_cpu_classes_gc_total_cpu_seconds_total")},
		{total("allocated_bytes_total", "bytes allocated on the heap, freed ones included"), first("go_memstats_alloc_bytes_total", "go_gc_heap_allocs_bytes_total")},
		{total("mallocs_total", "heap objects allocated, freed ones included"), first("go_memstats_mallocs_total")},
		{gauge("runtime_threads", "operating-system threads that the runtime has made and not ended"), first("go_threads", "go_sched_threads_total_threads")},
		{gauge("scheduler_latency_p50_seconds", "median time that goroutines were runnable before they ran, since the previous reading"), latency(0.5)},
		{gauge("scheduler_latency_p99_seconds", "99th percentile of the time that goroutines were runnable before they ran, since the previous reading"), latency(0.99)},
	}
}

// fromMetrics begins to read Prometheus' page.
func fromMetrics(ctx context.Context, cfg Config) (*Runtime, error) {
	source, err := scrape.NewSource(cfg.Metrics, cfg.Remote)
	if err != nil {
		return nil, err
	}
	measures := measures()
	var (
		before    scrape.Histogram
		latencies bool
	)
	get := func(ctx context.Context) ([]float64, error) {
		text, err := source.Get(ctx)
		if err != nil {
			return nil, err
		}
		r, err := scrape.Prometheus(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source.URL(), err)
		}
		p := page{values: make(map[string]float64, len(r.Samples))}
		for _, s := range r.Samples {
			if len(s.Labels) == 0 {
				p.values[s.Name] = s.Value
			}
		}
		if h, ok := r.Histograms[schedulerLatency]; ok {
			latencies = true
			p.latencies, _ = h.Since(before) // empty where that is not known
			before = h
		}
		values := make([]float64, len(measures))
		for i, m := range measures {
			values[i] = m.value(p)
		}
		return values, nil
	}
	// The first reading shows whether there are latencies. Only a second one gives their
	// values.
	look, cancel := context.WithTimeout(ctx, scrape.Timeout)
	defer cancel()
	if _, err := get(look); err != nil {
		source.Close()
		return nil, err
	}
	var columns []column
	for _, m := range measures {
		columns = append(columns, m.column)
	}
	for i := range columns[len(columns)-2:] {
		columns[len(columns)-2+i].later = latencies
	}
	return begin(ctx, cfg, source, columns, get)
}
