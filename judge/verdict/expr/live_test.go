package expr

import (
	"strings"
	"testing"
)

func TestBreaks(t *testing.T) {
	figures := map[string]float64{"errors.ratio": 0.1, "throughput": 50, "response.p99": 0.2}
	figure := func(metric string) (float64, bool) {
		v, known := figures[metric]
		return v, known
	}
	names := Names{Variants: []string{"a", "b"}, Steps: []string{"login"}}
	for text, want := range map[string]bool{
		"errors.ratio < 5%":                             true,
		"errors.ratio < 20%":                            false,
		"throughput > 100/s":                            true,
		"response.p99 < 100ms":                          true,
		"service.p99 < 100ms":                           false, // not known yet
		"service.p99 < 100ms and errors.ratio < 5%":     true,
		"service.p99 < 100ms or errors.ratio < 5%":      false,
		"value(a, throughput) > 100/s":                  true,
		"errors.ratio * 2 < 5% or response.p99 < 300ms": false,
	} {
		if got, err := Breaks(text, "a", names, figure); err != nil || got != want {
			t.Errorf("%s: %t, %v, want %t", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"target.cpu_per_request < 1ms":           "target.cpu_per_request is not known while a load runs",
		"response.p99{step=login} < 1s":          "response.p99{step=login} is not known while",
		"ratio(a, b, throughput) > 1":            "a ratio of throughput is not known",
		"slope(rss) < 5%/h":                      "the slope of rss is not known",
		"spread(throughput) < 5%":                "the spread of throughput is not known",
		"value(b, throughput) > 1/s":             "throughput is not known",
		"errors.ratio < 1% and connect.p99 < 1s": "connect.p99 is not known",
		"errors.ratio <":                         "column",
	} {
		if _, err := Breaks(text, "a", names, figure); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if err := Checks.CheckAbort(text, names.Variants, names.Steps); err == nil {
			t.Errorf("%s: it may end a run", text)
		}
	}
	if err := Checks.CheckAbort("errors.ratio < 1%", names.Variants, nil); err != nil {
		t.Error(err)
	}
}
