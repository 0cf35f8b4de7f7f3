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
		if want.Name, got.About = name, ""; got != want {
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
		if name := strings.ReplaceAll(c.Name, "*", "1"); !columnName().MatchString(name) {
			t.Errorf("%s cannot be a column's name", c.Name)
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

// A variant and a trial have the times of every clock, and every summary of Quantiles.
func TestTimes(t *testing.T) {
	h := hist.New()
	for v := range int64(20_000) {
		h.Record(v * 1000)
	}
	all := QuantilesOf(h)
	v := Variant{Streams: &Streams{}, Tokens: &Tokens{}}
	trial := Trial{Streams: &Streams{}, Tokens: &Tokens{}}
	seen := map[*Quantiles]bool{}
	for _, c := range Clocks() {
		for _, q := range []*Quantiles{v.Times(c.Tag), trial.Times(c.Tag)} {
			*q = all
			seen[q] = true
		}
		if v.Times(c.Tag).P99 == nil || trial.Times(c.Tag).P99 == nil {
			t.Errorf("%s is not kept", c.Tag)
		}
	}
	if len(seen) != 2*len(Clocks()) {
		t.Errorf("%d places for the times of %d clocks", len(seen), len(Clocks()))
	}
	if q := (&Variant{}).Times(TagDelivery); *q != (Quantiles{}) {
		t.Errorf("without streams: %+v", q)
	}
	text, err := json.Marshal(all)
	if err != nil || len(Summaries()) != strings.Count(string(text), "_seconds") {
		t.Errorf("%d summaries of %s, %v", len(Summaries()), text, err)
	}
	for _, s := range Summaries() {
		if got := all.Summary(s.Name); got == nil || s.Of(&all) != got {
			t.Errorf("%s: %v", s.Name, got)
		}
	}
	if all.Summary("p96") != nil {
		t.Error("there is a p96")
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
