package expr

import "testing"

func TestRequestsNeeded(t *testing.T) {
	for text, want := range map[string]int{
		"response.p99 < 10ms":                                 1000,
		"response.p50 < 10ms":                                 20,
		"service.p999 < 10ms and response.p90 < 5ms":          10_000,
		"response.max < 10ms and response.mean < 1ms":         0,
		"errors.ratio < 0.1%":                                 0,
		"response.p99{step=login} < 10ms":                     0, // not every request is of that step
		"connect.p99 < 10ms":                                  0, // connections are fewer
		"value(b, response.p99) < 2 * value(b, response.p90)": 1000,
		"response.p99 <":                                      0,
		"ratio(b, a, response.p90) < 2":                       100,
	} {
		if got := Checks.RequestsNeeded(text, []string{"a", "b"}, []string{"login"}); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
