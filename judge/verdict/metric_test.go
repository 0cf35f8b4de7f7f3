package verdict

import (
	"slices"
	"strings"
	"testing"

	"dyno/results/rundir"
)

// The table of names has the metrics that there are, in their order, and no others; those of
// steps are among them.
func TestMetricsAreNamed(t *testing.T) {
	var got, want []string
	for _, m := range metrics() {
		got = append(got, m.name)
	}
	for _, m := range rundir.Metrics() {
		want = append(want, m.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("metrics %q, want those of rundir.Metrics: %q", got, want)
	}
	for _, m := range stepMetrics("login") {
		if !slices.Contains(want, m.kind()) {
			t.Errorf("%s is not in the table", m.name)
		}
	}
	for _, m := range append(metrics(), stepMetrics("login")...) {
		for _, name := range []string{m.name, strings.Replace(m.name, "p50", "p98", 1), strings.Replace(m.name, "p50", "p9z", 1), strings.TrimSuffix(m.name, "{step=login}") + "{step=login}"} {
			got, ok := lookup(name)
			want, found := rundir.FindMetric(name)
			if ok != found || ok && got.fact != want.IsFact() {
				t.Errorf("%s: found %v, a fact %v; in the table %v, %v", name, ok, got.fact, found, want.IsFact())
			}
		}
	}
}

// What is known of a step's metric is what is known of the metric of all requests.
func TestStepMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range stepMetrics("login") {
		if got, ok := lookup(m.name); !ok || got.name != m.name || got.step != "login" || seen[m.name] {
			t.Errorf("%s: found %v as %s of %q, twice %v", m.name, ok, got.name, got.step, seen[m.name])
		}
		seen[m.name] = true
		if of, known := lookup(m.kind()); !known || of.dim() != m.dim() || of.good() != m.good() || of.ranked() != m.ranked() {
			t.Errorf("%s is not as %s", m.name, m.kind())
		}
		if v := m.get(&figures{}); v != nil {
			t.Errorf("%s of nothing is %v", m.name, *v)
		}
	}
	f := &figures{Variant: rundir.Variant{Steps: []rundir.ScenarioStep{
		{Name: "list"}, {Name: "login", OK: 90, Dropped: 4, ByKind: map[string]int64{"status": 5, "timeout": 1, "generator": 30}},
	}}}
	for name, want := range map[string]float64{"errors.total{step=login}": 10, "errors.ratio{step=login}": 0.1, "errors.total{step=list}": 0} {
		if m, ok := lookup(name); !ok || m.get(f) == nil || *m.get(f) != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
	if m, _ := lookup("errors.ratio{step=list}"); m.get(f) != nil {
		t.Error("a share of no requests is known")
	}
}
