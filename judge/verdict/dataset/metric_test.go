package dataset

import (
	"math"
	"testing"

	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A step's metric has the properties of the metric of all requests.
func TestStepMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range stepMetrics("login") {
		if got, ok := Lookup(m.Name); !ok || got.Name != m.Name || got.Step != "login" || seen[m.Name] {
			t.Errorf("%s: found %v as %s of %q, twice %v", m.Name, ok, got.Name, got.Step, seen[m.Name])
		}
		seen[m.Name] = true
		if of, known := Lookup(m.Kind()); !known || of.Dimension() != m.Dimension() || of.Direction() != m.Direction() || of.IsRanked() != m.IsRanked() {
			t.Errorf("%s is not as %s", m.Name, m.Kind())
		}
		if v := m.Get(&Stats{}); v != nil {
			t.Errorf("%s of nothing is %v", m.Name, *v)
		}
	}
	f := summarize("v", []*rundir.Trial{{Steps: []rundir.ScenarioStep{
		{Name: "list"}, {Name: "login", OK: 90, Dropped: 4, ByKind: map[string]int64{"status": 5, "timeout": 1, "generator": 30}},
	}}}, nil)
	for name, want := range map[string]float64{"errors.total{step=login}": 10, "errors.ratio{step=login}": 0.1, "errors.total{step=list}": 0} {
		if m, ok := Lookup(name); !ok || m.Get(f) == nil || *m.Get(f) != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
	if m, _ := Lookup("errors.ratio{step=list}"); m.Get(f) != nil {
		t.Error("a share of no requests is known")
	}
}

func TestLookup(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics() {
		if got, ok := Lookup(m.Name); !ok || got.Name != m.Name || seen[m.Name] {
			t.Errorf("%s: found %v, twice %v", m.Name, ok, seen[m.Name])
		}
		seen[m.Name] = true
		if m.Get(&Stats{}) != nil {
			t.Errorf("%s of nothing is known", m.Name)
		}
	}
	for name, want := range map[string]units.Dimension{
		"program.switch_seconds": units.Duration, "program.stack_bytes": units.Size, "program.exchanges_per_second": units.Rate, "program.units": units.Plain,
	} {
		m, ok := Lookup(name)
		v := m.Get(&Stats{Values: map[string]float64{name: 3}})
		if !ok || m.Dimension() != want || m.Name != name || v == nil || *v != 3 {
			t.Errorf("%s: %v, %v", name, m.Dimension(), v)
		}
		if higher := m.Direction() == stat.HigherIsBetter; higher != (want == units.Rate || want == units.Plain) {
			t.Errorf("%s: higher is better: %v", name, higher)
		}
	}
	h := hist.New()
	for v := range int64(500) { // ten of which are beyond the 98th percentile
		h.Record(v * 1e6)
	}
	for name, tag := range map[string]string{"response.p98": "response", "response.p98{step=a}": "response/a"} {
		m, ok := Lookup(name)
		if !ok || m.Dimension() != units.Duration || m.Name != name || !m.IsRanked() {
			t.Fatalf("%s: %v", name, ok)
		}
		if v := m.Get(&Stats{Histograms: recording.Times{tag: h}}); v == nil || math.Abs(*v-0.49) > 0.005 {
			t.Errorf("%s of %d values: %v", name, h.Count(), v)
		}
	}
	if m, _ := Lookup("response.p985"); m.Get(&Stats{Histograms: recording.Times{"response": h}}) != nil {
		t.Error("fewer than ten values are beyond the p98.5")
	}
	if m, ok := Lookup("observed.hub_hits"); !ok || m.Dimension() != units.Plain || *m.Get(&Stats{Values: map[string]float64{"observed.hub_hits": 3}}) != 3 {
		t.Error("observed.hub_hits is no metric")
	}
	for _, name := range []string{"", "program.", "observed.", "response", "response.p0", "response.p990", "response.p9a", "nothing.p98", "connect.p98{step=a}", "p99"} {
		if _, ok := Lookup(name); ok {
			t.Errorf("%q is a metric", name)
		}
	}
}
