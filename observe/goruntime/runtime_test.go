package goruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dyno/internal/leak"
	"dyno/observe"
)

var (
	_ observe.Observer = (*Runtime)(nil)
	_ observe.CPUUser  = (*Runtime)(nil)
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

func TestMain(m *testing.M) { leak.Main(m) }

// program serves some pages of this process: a Go program like any other.
func program(t testing.TB, pages ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, p := range pages {
		switch p {
		case "metrics", "metrics/advanced":
			registry := prometheus.NewRegistry()
			var rules []collectors.GoRuntimeMetricsRule
			if p == "metrics/advanced" {
				rules = append(rules, collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(sched/latencies:seconds|cpu/classes/gc/total:cpu-seconds|gc/heap/live:bytes)$`)})
			}
			registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(rules...)))
			mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		case "index":
			mux.HandleFunc("/debug/pprof/", pprof.Index)
		case "goroutine":
			mux.Handle("/debug/pprof/goroutine", pprof.Handler(p))
		}
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func values(t *testing.T, r *Runtime) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	if err := r.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	columns := r.Columns()
	row := make([]float64, len(columns))
	if err := r.Observe(row); err != nil {
		t.Fatal(err)
	}
	m := make(map[string]float64)
	for i, c := range columns {
		m[c.Name] = row[i]
	}
	return m
}

func newRuntime(t *testing.T, cfg Config) *Runtime {
	t.Helper()
	cfg.Every = time.Hour // readings are asked for
	r, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// sink keeps what is allocated from being optimised away.
type sink struct{ kept []*[1 << 10]byte }

// The numbers of every source are this program's own: they grow by what it does.
func TestSources(t *testing.T) {
	for _, c := range []struct {
		pages   []string
		asked   string // the page that is asked, in the end
		columns string
	}{
		{[]string{"metrics", "index"}, "/metrics",
			"goroutines heap_bytes heap_objects gc_cycles_total gc_pause_seconds allocated_bytes_total mallocs_total runtime_threads runtime_read_at_seconds"},
		{[]string{"metrics/advanced"}, "/metrics",
			"goroutines heap_bytes heap_live_bytes heap_objects gc_cycles_total gc_pause_seconds gc_cpu_seconds allocated_bytes_total mallocs_total" +
				" runtime_threads scheduler_latency_p50_seconds scheduler_latency_p99_seconds runtime_read_at_seconds"},
		{[]string{"index", "goroutine"}, "/debug/pprof/", "goroutines runtime_read_at_seconds"},
		{[]string{"goroutine"}, "/debug/pprof/goroutine?debug=1", "goroutines runtime_read_at_seconds"},
	} {
		t.Run(strings.Join(c.pages, " and "), func(t *testing.T) {
			at := program(t, c.pages...)
			r := newRuntime(t, Config{Pprof: at + "/debug/pprof"})
			var columns []string
			for _, column := range r.Columns() {
				columns = append(columns, column.Name)
			}
			if asked := strings.TrimPrefix(r.source.URL(), at); asked != c.asked || strings.Join(columns, " ") != c.columns || r.Name() != "target" {
				t.Errorf("asks %v, has\n%v, want\n%v", asked, columns, c.columns)
			}
			before := values(t, r)
			const more, objects = 50, 1000
			end := make(chan struct{})
			defer close(end)
			for range more {
				go func() { <-end }()
			}
			keep := &sink{}
			for range objects {
				keep.kept = append(keep.kept, new([1 << 10]byte))
			}
			runtime.GC()
			after := values(t, r)
			runtime.KeepAlive(keep)
			for column, least := range map[string]float64{
				"goroutines": more - 10, // others, of the server's, may have ended meanwhile
				"heap_bytes": math.Inf(-1), "heap_live_bytes": math.Inf(-1), "heap_objects": math.Inf(-1),
				"gc_cycles_total": 1, "gc_pause_seconds": 1e-9, "gc_cpu_seconds": 1e-9,
				"allocated_bytes_total": objects << 10, "mallocs_total": objects,
				"runtime_read_at_seconds": 1e-9,
			} {
				if !slices.Contains(columns, column) {
					continue
				}
				if !(after[column] > 0) || !(after[column]-before[column] >= least) {
					t.Errorf("%s went from %v to %v, by at least %v", column, before[column], after[column], least)
				}
			}
			if slices.Contains(columns, "scheduler_latency_p99_seconds") {
				if p50, p99 := after["scheduler_latency_p50_seconds"], after["scheduler_latency_p99_seconds"]; !(p50 >= 0) || !(p99 >= p50) {
					t.Errorf("scheduler latency %v and %v", p50, p99)
				}
			}
			if !(r.CPUSeconds() > 0) {
				t.Errorf("cost %v", r.CPUSeconds())
			}
		})
	}
}

// Pages may be anywhere.
func TestExplicitPages(t *testing.T) {
	at := program(t, "metrics")
	if got := newRuntime(t, Config{Name: "app", Pprof: at + "/profiles", Metrics: at + "/metrics"}); got.Name() != "app" || got.source.URL() != at+"/metrics" {
		t.Errorf("%s asks %s", got.Name(), got.source.URL())
	}
	for pprof, want := range map[string]string{
		"http://h:1/debug/pprof":         "http://h:1/metrics",
		"http://h:1/debug/pprof/":        "http://h:1/metrics",
		"http://h:1/x/debug/pprof":       "http://h:1/x/metrics",
		"http://h:1/profiles":            "",
		"http://u:p@h:1/debug/pprof?a=b": "http://u:p@h:1/metrics",
	} {
		if got := (Config{Pprof: pprof}).withDefaults().Metrics; got != want {
			t.Errorf("%s: %s, want %s", pprof, got, want)
		}
	}
}

// The program of a soak that answers something else on every page.
func TestUnavailable(t *testing.T) {
	for _, answer := range []string{"hello", "", "{}", "a 1\n"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		defer s.Close()
		r, err := New(t.Context(), Config{Pprof: s.URL + "/debug/pprof"})
		var u *observe.Unavailable
		if !errors.As(err, &u) || u.Remedy.Kind == "" {
			t.Errorf("%q: %v, %v", answer, r, err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "goroutine profile: total 4711\n%s", strings.Repeat("1 @ 0x1\n", 1<<17))
	}))
	defer s.Close()
	if v := values(t, newRuntime(t, Config{Pprof: s.URL + "/debug/pprof"})); v["goroutines"] != 4711 || len(v) != 2 {
		t.Errorf("%v", v)
	}
	for pprof, want := range map[string]string{
		"http://192.0.2.1:1/": "192.0.2.1:1 is not a loopback address", "http://127.0.0.1:1/debug/pprof": "refused",
	} {
		if _, err := New(t.Context(), Config{Pprof: pprof}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pprof, err)
		}
	}
}

func TestValidate(t *testing.T) {
	err := Config{Pprof: "x", Metrics: "ftp://x/", Every: 1}.Validate()
	for _, want := range []string{`pprof: "x"`, `metrics: "ftp://x/"`, "every: 1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	if _, err := New(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "both empty") {
		t.Errorf("nothing to ask: %v", err)
	}
}

func TestParse(t *testing.T) {
	index := "<html>\n<table>\n<tr><td>3</td><td><a href='goroutineleak?debug=1'>goroutineleak</a></td></tr>\n<tr><td>12</td><td><a href='goroutine?debug=1'>goroutine</a></td></tr>\n"
	if n, err := parseIndex([]byte(index)); err != nil || n != 12 {
		t.Errorf("index: %v, %v", n, err)
	}
	for _, bad := range []string{"", "<a href='goroutine?", "<td>x</td><a href='goroutine?", "<tr><td>-1</td><a href='goroutine?"} {
		if n, err := parseIndex([]byte(bad)); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
	if n, err := parseGoroutines([]byte("goroutine profile: total 12\n1 @")); err != nil || n != 12 {
		t.Errorf("goroutines: %v, %v", n, err)
	}
	for _, bad := range []string{"", "goroutine profile: total 12", "goroutine profile: total \n", "goroutine profile: total 12 x\n", "<html>\n", "heap profile: total 12\n"} {
		if n, err := parseGoroutines([]byte(bad)); err == nil {
			t.Errorf("%q is %d goroutines", bad, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("<tr><td>12</td><td><a href='goroutine?debug=1'>"))
	f.Add([]byte("goroutine profile: total 12\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parseIndex(b)
		_, _ = parseGoroutines(b)
	})
}
