package verdict

import (
	"testing"

	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/evidence"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// A figure of which more is better, and which is known from below, is an answer: no other one-sided
// figure is.
func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		at   expr.Ref
		low  *float64
		want bool
	}{
		{expr.Ref{Metric: "throughput", Variant: "v"}, new(1.), true},
		{expr.Ref{Metric: "throughput", Variant: "v"}, nil, false},
		{expr.Ref{Metric: "throughput", Variant: "v", Base: "b"}, new(1.), false}, // a ratio
		{expr.Ref{Metric: "response.p99", Variant: "v"}, new(1.), false},
		{expr.Ref{Metric: "unknown", Variant: "v"}, new(1.), false},
	} {
		ev := evidence.New(compare.Comparer{}, []rundir.Validity{{Figure: c.at.Metric, Variant: c.at.Variant, Base: c.at.Base, Low: c.low}})
		if got := atLeast(ev, c.at); got != c.want {
			t.Errorf("%+v, known from below %v: %v", c.at, c.low != nil, got)
		}
	}
}
