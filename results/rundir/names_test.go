package rundir

import (
	"encoding/json"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"dyno/internal/units"
	"dyno/load/hist"
	"dyno/results/rundir/series"
)

func TestMetricOf(t *testing.T) {
	for name, want := range map[string]Metric{
		"throughput":                       {Unit: PerSecond, Higher: true},
		"throughput{step=a.p99}":           {Unit: PerSecond, Higher: true},
		"response.p99{step=errors.ratio}":  {Unit: Seconds},
		"handshake.p99":                    {Unit: Seconds},
		"message_gap.max":                  {Unit: Seconds},
		"errors.ratio{step=login}":         {Unit: Share},
		"availability":                     {Unit: Share, Higher: true},
		"target.rss":                       {Unit: Bytes},
		"target.syscalls_per_second":       {Unit: PerSecond},
		"program.switch_seconds":           {Unit: Seconds},
		"program.stack_bytes":              {Unit: Bytes},
		"program.exchanges_per_second":     {Unit: PerSecond, Higher: true},
		"program.units":                    {Unit: Count, Higher: true},
		"program.response.p99":             {Unit: Count, Higher: true},
		"program._seconds":                 {Unit: Count, Higher: true},
		"observed.app_heap_bytes":          {Unit: Bytes},
		"observed.app_sent_bytes_total":    {Unit: BytesPerSecond},
		"observed.app_requests_total":      {Unit: PerSecond},
		"observed.app_cpu_seconds_total":   {Unit: CPUs},
		"observed.app_depth":               {Unit: Count},
		"target.what_nobody_knows_seconds": {Unit: Count},
		"response.p985":                    {Unit: Seconds},
		"response.p980":                    {Unit: Count},
		"":                                 {Unit: Count},
	} {
		got := MetricOf(name)
		if got.Name != name || got.Unit != want.Unit || got.Higher != want.Higher {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestColumnOf(t *testing.T) {
	for name, want := range map[string]struct {
		Column
		own bool
	}{
		"target_cpu_seconds":                {Column{Unit: CPUs, Counter: true}, true},
		"service_hub_2_rss_bytes":           {Column{Unit: Bytes}, true},
		"neighbour1_threads":                {Column{Unit: Count}, true},
		"generator_worker12_cpu_seconds":    {Column{Unit: CPUs, Counter: true}, true},
		"target_gc_pause_seconds":           {Column{Unit: Share, Counter: true}, true},
		"kernel_syscall_epoll_wait_total":   {Column{Unit: PerSecond, Counter: true}, true},
		"kernel_run_queue_wait_p99_seconds": {Column{Unit: Seconds}, true},
		"tcp_target_rtt_mean_seconds":       {Column{Unit: Seconds}, true},
		"app_sent_bytes_total":              {Column{Unit: BytesPerSecond, Counter: true}, false},
		"app_wait_seconds":                  {Column{Unit: Seconds}, false},
		"app_queue":                         {Column{Unit: Count}, false},
		"app_latency_count":                 {Column{Unit: PerSecond, Counter: true}, false},
	} {
		want.Name = name
		if got, own := ColumnOf(name); got != want.Column || own != want.own {
			t.Errorf("%+v, %v, want %+v", got, own, want)
		}
	}
}

// No name stands in a table twice, and each is one that its files may have.
func TestNamesAreDistinct(t *testing.T) {
	distinct := func(what string, names []string) {
		t.Helper()
		slices.Sort(names)
		if n := len(names); n == 0 || len(slices.Compact(names)) != n {
			t.Errorf("%s: %q", what, names)
		}
	}
	distinct("tags", Tags())
	var metrics, columns []string
	for _, m := range Metrics() {
		metrics = append(metrics, m.Name)
	}
	distinct("metrics", metrics)
	for _, c := range Columns() {
		columns = append(columns, c.Name)
		if name := strings.ReplaceAll(c.Name, "*", "1"); name != series.TimeColumn {
			if _, err := series.Read(strings.NewReader(series.TimeColumn + "," + name + "\n")); err != nil {
				t.Error(err)
			}
		}
		if _, err := path.Match(c.Name, ""); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if of, own := ColumnOf(c.Name); !own || of.Unit != c.Unit || of.Counter != c.Counter {
			t.Errorf("%s is taken for %+v", c.Name, of)
		}
	}
	distinct("columns", columns)
	for _, g := range Gauges() {
		if !slices.Contains(columns, g.Column) {
			t.Errorf("%s is no column", g.Column)
		}
	}
}

// Every unit has a scale that writes its name, and the dimensions have one unit each.
func TestUnits(t *testing.T) {
	for u, want := range map[Unit]string{
		Number: "1500", Count: "1.50k", Seconds: "1500 s", Bytes: "1.46 KiB", PerSecond: "1.50k/s", BytesPerSecond: "1.46 KiB/s", CPUs: "1500 CPU", Share: "150000%", SharePerSecond: "1500",
	} {
		if got := u.Scale().Write(1500); got != want || !slices.Contains(Units(), u) {
			t.Errorf("%q writes %q, want %q", u, got, want)
		}
	}
	for _, d := range []units.Dimension{units.Plain, units.Duration, units.Size, units.Rate, units.Growth} {
		if got := UnitOf(d).Dimension(); got != d {
			t.Errorf("the unit of %s is of %s", d, got)
		}
	}
}

// The times of a trial have every summary, and none of times that were not recorded.
func TestTimes(t *testing.T) {
	h := hist.New()
	for v := range int64(20_000) {
		h.Record(v * 1000)
	}
	times := TimesOf(map[string]*hist.Histogram{TagService: h, TagResponse: hist.New(), TagConnect: nil})
	if len(times) != 1 || times[TagDelivery] != (Quantiles{}) {
		t.Errorf("%+v", times)
	}
	text, err := json.Marshal(times[TagService])
	if err != nil || len(Summaries()) != strings.Count(string(text), "_seconds") {
		t.Errorf("%d summaries of %s, %v", len(Summaries()), text, err)
	}
	for _, s := range Summaries() {
		if s.Of(new(times[TagService])) == nil {
			t.Errorf("%s is not known", s.Name)
		}
	}
}

// A trial's figures are its known fields that declare a metric, those of its steps, and those that others named.
func TestFiguresOfTrial(t *testing.T) {
	trial := Trial{
		Throughput: new(3.), Target: Target{RSSBytes: new(int64(4)), CPUSeconds: new(9.)}, Tokens: &Tokens{Goodput: new(5.)}, Streams: &Streams{Lost: 6},
		Steps: []ScenarioStep{{Name: "a", Throughput: new(7.), Tokens: &Tokens{PerSecond: new(8.)}}}, Measures: map[string]float64{"x": 1}, Observed: map[string]float64{"y": 2},
	}
	got := trial.Figures()
	for name, want := range map[string]float64{
		"throughput": 3, "target.rss": 4, "goodput": 5, "streams.lost": 6, "streams.gaps": 0, "connections.opened": 0,
		"throughput{step=a}": 7, "tokens_per_second{step=a}": 8, "program.x": 1, "observed.y": 2,
	} {
		if v, known := got[name]; !known || v != want {
			t.Errorf("%s is %v, known %v", name, v, known)
		}
		if _, found := FindMetric(name); !found {
			t.Errorf("%s is no metric", name)
		}
	}
	for _, name := range []string{"target.threads", "tokens_per_second", "goodput{step=a}"} {
		if v, known := got[name]; known {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func TestQuantileNames(t *testing.T) {
	for name, want := range map[string]float64{"p5": 0.05, "p05": 0.05, "p50": 0.5, "p99": 0.99, "p999": 0.999, "p9999": 0.9999, "p985": 0.985} {
		if got, ok := QuantileOf(name); !ok || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "p", "p0", "p00", "p990", "p99.9", "p99999999", "p-1", "max", "99"} {
		if got, ok := QuantileOf(name); ok {
			t.Errorf("%q is the quantile %v", name, got)
		}
	}
	for name, want := range map[string]string{"p50": "p50", "p999": "p99.9", "p9999": "p99.99", "max": "max", "mean": "mean"} {
		if got := QuantileName(name); got != want {
			t.Errorf("%s is written %s, want %s", name, got, want)
		}
	}
}

// Pages have words for every clock, in both languages.
func TestClocksHaveNames(t *testing.T) {
	for _, c := range Clocks() {
		if c.English == "" || c.Chinese == "" || c.About == "" {
			t.Errorf("%+v", c)
		}
	}
}
