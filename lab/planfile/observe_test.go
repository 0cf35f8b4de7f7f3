package planfile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
)

func TestObserveAndProfile(t *testing.T) {
	e := mustParse(t, "testdata/good/observe.yaml", Options{})
	want := plan.Observe{
		Kernel: plan.KernelWindow, Server: true,

		Runtime: "http://127.0.0.1:{{admin}}/metrics",
		Endpoints: []plan.Endpoint{
			{Name: "app", URL: "http://127.0.0.1:{{admin}}/metrics", Format: plan.FormatPrometheus, Metrics: []string{"down", "app_.*"}, Every: 2 * time.Second},
			{Name: "vars", URL: "http://127.0.0.1:{{admin}}/debug/vars", Format: plan.FormatExpvar, Metrics: []string{"memstats.NumGC"}, Every: time.Second},
		},
		Commands: []plan.Command{{Name: "queue", Run: []string{"redis-cli", "-p", "{{admin}}", "llen", "jobs"}, Every: time.Second}},
	}
	if diff := cmp.Diff(want, e.Variants[2].Observe); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&plan.Profile{Kinds: []string{"cpu", "off_cpu", "allocs"}, By: plan.BySampling, Rounds: 4, Window: 3 * time.Second}, e.Profile); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"allocs"}, e.Profile.NeedsPprof()); diff != "" {
		t.Error(diff)
	}

	e = mustParse(t, "testdata/good/observe.yaml", Options{Set: map[string]string{"profile": "heap,mutex"}})
	if diff := cmp.Diff([]string{"heap", "mutex"}, e.Profile.Kinds); diff != "" {
		t.Error(diff)
	}
	e = mustParse(t, "testdata/good/relay-models.yaml", Options{Set: map[string]string{"profile": "cpu"}})
	if diff := cmp.Diff(&plan.Profile{Kinds: []string{"cpu"}, By: plan.BySampling, Rounds: e.Design.Rounds}, e.Profile); diff != "" {
		t.Error(diff)
	}
}
