package scrape

import (
	"errors"
	"expvar"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dyno/internal/contentcoding/codingtest"
	"dyno/observe"
)

// A real registry: counters, gauges, histograms and summaries, with labels.
func TestRegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total"}, []string{"code", "method"})
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "connections_open"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "http_request_duration_seconds", Buckets: []float64{0.1, 0.2, 0.4}})
	size := prometheus.NewSummary(prometheus.SummaryOpts{Name: "body_bytes", Objectives: map[float64]float64{0.5: 0.01}})
	registry.MustRegister(requests, open, took, size, collectors.NewGoCollector())
	requests.WithLabelValues("200", "GET").Add(5)
	requests.WithLabelValues("500", "GET").Add(1)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()

	e := endpoint(t, Config{Name: "app", URL: server.URL, Metrics: []string{
		`http_requests_total{code!="500"}`, "connections_open", "http_request_duration_.*", "body_bytes", "go_goroutines",
	}})
	want := map[string]observe.Kind{
		"http_requests_code_200_method_get_total": observe.Counter,
		"connections_open":                        observe.Gauge,
		"http_request_duration_seconds_sum":       observe.Counter,
		"http_request_duration_seconds_count":     observe.Counter,
		"body_bytes_sum":                          observe.Counter,
		"body_bytes_count":                        observe.Counter,
		"go_goroutines":                           observe.Gauge,
		"read_at_seconds":                         observe.Counter,
	}
	if got := kinds(e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("columns\n%v, want\n%v", got, want)
	}
	v := values(t, e)
	if v["http_requests_code_200_method_get_total"] != 5 || v["connections_open"] != 0 || !(v["go_goroutines"] >= 1) {
		t.Errorf("%v", v)
	}
	before, ok := e.Histogram("http_request_duration_seconds")
	if !ok || !math.IsNaN(before.Quantile(0.5)) {
		t.Errorf("an empty histogram: %v, %v", before, ok)
	}
	requests.WithLabelValues("200", "GET").Inc()
	requests.WithLabelValues("404", "PUT").Inc() // has no column
	open.Set(-2.5)
	size.Observe(100)
	for range 10 {
		took.Observe(0.15)
		took.Observe(0.3)
	}
	v = values(t, e)
	if v["http_requests_code_200_method_get_total"] != 6 || v["connections_open"] != -2.5 || v["body_bytes_sum"] != 100 || v["body_bytes_count"] != 1 || v["http_request_duration_seconds_count"] != 20 {
		t.Errorf("%v", v)
	}
	after, _ := e.Histogram("http_request_duration_seconds")
	d, ok := after.Since(before)
	if p50, p75 := d.Quantile(0.5), d.Quantile(0.75); !ok || math.Abs(p50-0.2) > 1e-9 || math.Abs(p75-0.3) > 1e-9 {
		t.Errorf("%v: p50 %v, p75 %v", d, p50, p75)
	}
	if _, ok := e.Histogram("nothing"); ok {
		t.Error("a histogram of nothing")
	}
	requests.Reset()
	if v := values(t, e); !math.IsNaN(v["http_requests_code_200_method_get_total"]) {
		t.Errorf("what disappeared is %v", v["http_requests_code_200_method_get_total"])
	}
}

// A real expvar page.
func TestExpvar(t *testing.T) {
	var vars expvar.Map
	vars.Init()
	inner := new(expvar.Map).Init()
	inner.AddFloat("queue", 2.5)
	inner.Add("jobs_total", 7)
	vars.Set("worker", inner)
	vars.Set("memstats", expvar.Func(func() any { return map[string]any{"NumGC": 3, "HeapAlloc": 4096, "PauseNs": []int{1, 2}} }))
	vars.Set("cmdline", expvar.Func(func() any { return []string{"x"} }))
	server := serve(t, vars.String)
	e := endpoint(t, Config{Name: "app", URL: server.URL, Format: Expvar})
	want := map[string]observe.Kind{
		"worker_queue": observe.Gauge, "worker_jobs_total": observe.Counter,
		"memstats_numgc": observe.Counter, "memstats_heapalloc": observe.Gauge, "read_at_seconds": observe.Counter,
	}
	if got := kinds(e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("columns %v, want %v", got, want)
	}
	if v := values(t, e); v["worker_queue"] != 2.5 || v["worker_jobs_total"] != 7 || v["memstats_numgc"] != 3 || v["memstats_heapalloc"] != 4096 {
		t.Errorf("%v", v)
	}
	one := endpoint(t, Config{Name: "app", URL: server.URL, Format: Expvar, Metrics: []string{"worker.queue"}})
	if v := values(t, one); len(v) != 2 || v["worker_queue"] != 2.5 {
		t.Errorf("%v", v)
	}
}

// An endpoint that fails leaves nothing known until it answers again.
func TestFailure(t *testing.T) {
	var broken atomic.Bool
	server := serve(t, func() string {
		if broken.Load() {
			return "a 1\nb\n"
		}
		return "a 1\n"
	})
	e := endpoint(t, Config{Name: "app", URL: server.URL})
	for _, b := range []bool{false, true, false} {
		broken.Store(b)
		refreshed := e.Refresh(t.Context())
		v, err := observed(e)
		if (err != nil) != b || (refreshed != nil) != b || math.IsNaN(v["a"]) != b || v["read_at_seconds"] < 0 {
			t.Errorf("broken %v: %v, %v", b, v, err)
		}
		if b {
			wantError(t, err, server.URL, "line 2")
		}
	}
}

func TestUnavailable(t *testing.T) {
	many := serve(t, func() string {
		return "a_total 1\nb 1\n" + lines("c{i=\"%d\"} 1\n", 70)
	})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hanging.Close()
	redirect := httptest.NewServer(http.RedirectHandler(many.URL, http.StatusFound))
	defer redirect.Close()
	html := serve(t, func() string { return "<html>" })
	empty := serve(t, func() string { return "" })
	for _, c := range []struct {
		cfg  Config
		want []string
	}{
		{Config{URL: many.URL}, []string{"72 numbers", "at most 64"}},
		{Config{URL: many.URL, Metrics: []string{"c", "a_total"}}, []string{"71 numbers match", "c matches 70", "a_total matches 1"}},
		{Config{URL: many.URL, Metrics: []string{"c"}, MaxColumns: 8}, []string{"70 numbers match, and at most 8"}},
		{Config{URL: many.URL, Metrics: []string{"d", "e"}}, []string{"d matches nothing, e matches nothing"}},
		{Config{URL: hanging.URL}, []string{"deadline"}},
		{Config{URL: redirect.URL}, []string{"status 302"}},
		{Config{URL: html.URL}, []string{"prometheus text format"}},
		{Config{URL: html.URL, Format: Expvar}, []string{"json object"}},
		{Config{URL: "http://192.0.2.1:1/metrics"}, []string{"192.0.2.1:1 is not a loopback address"}},
		{Config{URL: "http://127.0.0.1:1/metrics"}, []string{"refused"}},
	} {
		c.cfg.Name = "app"
		e, err := NewEndpoint(t.Context(), c.cfg)
		var u *observe.Unavailable
		if !errors.As(err, &u) || u.Observer != "app" {
			t.Errorf("%+v: %v, %v", c.cfg, e, err)
		}
		wantError(t, err, c.want...)
	}
	e := endpoint(t, Config{Name: "app", URL: empty.URL}) // an empty page has no numbers, which is no fault
	if v := values(t, e); len(v) != 1 {
		t.Errorf("%v", v)
	}
}

func lines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A page is read whole or not at all, except where its beginning is enough.
func TestBounds(t *testing.T) {
	server := serve(t, func() string { return strings.Repeat("x", 1000) })
	s, err := NewSource(server.URL, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		limit int
		cut   bool
		want  int // bytes; none with an error
	}{{1000, false, 1000}, {999, false, 0}, {999, true, 999}, {1000, true, 1000}} {
		text, err := s.get(t.Context(), c.limit, c.cut)
		if len(text) != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %d bytes, %v", c, len(text), err)
		}
		if err != nil {
			wantError(t, err, "more than 999 bytes")
		}
	}
}

// A page is decoded that a server encodes without being asked.
func TestEncodedPages(t *testing.T) {
	page := strings.Repeat("a 1\n", 100)
	gzip := codingtest.Encode("gzip", []byte(page))
	bombField, bomb := codingtest.Bomb(MaxBytes + 1)
	for _, c := range []struct {
		field string
		body  []byte
		want  string // in the error
	}{
		{"identity", []byte(page), ""},
		{"GZIP", gzip, ""},
		{"deflate", codingtest.Encode("deflate", []byte(page)), ""},
		{"br", codingtest.Encode("br", []byte(page)), ""},
		{"zstd", codingtest.Encode("zstd", []byte(page)), ""},
		{"br, gzip", codingtest.Encode("br, gzip", []byte(page)), ""},
		{"gzip", gzip[:len(gzip)-1], "unexpected EOF"},
		{"br", gzip, "br: "},
		{"compress", gzip, `unknown Content-Encoding "compress"`},
		{bombField, bomb, "more than 16777216 bytes"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", c.field)
			_, _ = w.Write(c.body) // the client may have enough
		}))
		s, err := NewSource(server.URL, false)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.Get(t.Context())
		if c.want == "" && (err != nil || string(text) != page) {
			t.Errorf("%s: %d bytes, %v", c.field, len(text), err)
		}
		if c.want != "" {
			wantError(t, err, c.want)
		}
		s.Close()
		server.Close()
	}
}

func TestValidate(t *testing.T) {
	err := Config{URL: "ftp://x/", Format: 9, Every: 1, MaxColumns: -1, Metrics: []string{"a", "(", `b{c=1}`, ""}}.Validate()
	wantError(t, err, "name: empty", `url: "ftp://x/"`, "format: 9", "every: 1ns", "max_columns: -1", "metrics[1]", "metrics[3]")
	if _, err := NewEndpoint(t.Context(), Config{}); err == nil {
		t.Error("an empty config was accepted")
	}
	for _, bad := range []string{"", "127.0.0.1:9090", "http://", "://", "http://:80/"} {
		if (Config{Name: "a", URL: bad}).Validate() == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}
