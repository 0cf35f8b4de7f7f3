package expr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

func TestThresholds(t *testing.T) {
	const p99 = "response.p99 < 80ms"
	for _, c := range []struct {
		name string
		text string
		of   facts
		want []rundir.Threshold
	}{
		{"each variant", p99, facts{
			"a response.p99": between(0.070, 0.075, 0.079),
			"b response.p99": between(0.078, 0.079, 0.085),
			"c response.p99": between(0.080, 0.090, inf),
			"d response.p99": single(0.079),
			"e response.p99": single(0.081),
		}, []rundir.Threshold{
			{Text: p99, Variant: "a", OK: true, Outcome: rundir.Kept, Measured: new(0.075), Low: new(0.070), High: new(0.079)},
			{Text: p99, Variant: "b", OK: true, Outcome: rundir.KeptAsMeasured, Measured: new(0.079), Low: new(0.078), High: new(0.085), Detail: new(texts.Verbatim("78ms to 85ms straddles 80ms"))},
			{Text: p99, Variant: "c", Outcome: rundir.Broken, Measured: new(0.090), Low: new(0.080)},
			{Text: p99, Variant: "d", OK: true, Outcome: rundir.Kept, Measured: new(0.079), Detail: new(texts.Verbatim("decided by the estimate, which has no interval"))},
			{Text: p99, Variant: "e", Outcome: rundir.Broken, Measured: new(0.081), Detail: new(texts.Verbatim("decided by the estimate, which has no interval"))},
			{Text: p99, Variant: "f", Outcome: rundir.Undecided, Detail: new(texts.Verbatim("f response.p99 is missing"))},
		}},
		{"named variants", `value(a, response.p99) < value(b, response.p99)`, facts{
			"a response.p99": between(1, 2, 3), "b response.p99": between(2, 3, 4),
		}, []rundir.Threshold{
			{Text: `value(a, response.p99) < value(b, response.p99)`, OK: true, Outcome: rundir.KeptAsMeasured, Measured: new(2.), Low: new(1.), High: new(3.), Detail: new(texts.Verbatim("1s to 3s overlaps 2s to 4s"))},
		}},
		{"the limit on the left", `1.4 <= ratio(a, b, throughput)`, facts{"a/b throughput": between(1.2, 1.3, 1.5)}, []rundir.Threshold{
			{Text: `1.4 <= ratio(a, b, throughput)`, Outcome: rundir.Broken, Measured: new(1.3), Low: new(1.2), High: new(1.5), Detail: new(texts.Verbatim("as measured: 1.2 to 1.5 straddles 1.4"))},
		}},
		{"a settled side", `value(a, throughput) > 10/s or value(b, throughput) > 10/s`, facts{
			"a throughput": single(11), "b throughput": between(11, 12, 13),
		}, []rundir.Threshold{
			{Text: `value(a, throughput) > 10/s or value(b, throughput) > 10/s`, OK: true, Outcome: rundir.Kept},
		}},
		{"two reasons", `value(a, throughput) > 10/s and value(b, throughput) > 10/s`, facts{
			"a throughput": between(9, 11, 12),
		}, []rundir.Threshold{
			{Text: `value(a, throughput) > 10/s and value(b, throughput) > 10/s`, Outcome: rundir.Undecided, Detail: new(texts.Verbatim("9/s to 12/s straddles 10/s; b throughput is missing"))},
		}},
		{"no expression", "respnse.p99 < 80ms and 1", nil, []rundir.Threshold{
			{Text: "respnse.p99 < 80ms and 1", Outcome: rundir.Undecided, Detail: new(texts.Verbatim("column 1: unknown metric \"respnse.p99\"; did you mean response.p99?; column 24: a number is not a condition; want a comparison such as response.p99 < 80ms"))},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := DecideThreshold(c.text, Names{Variants: []string{"a", "b", "c", "d", "e", "f"}}, c.of)
			for i := range got {
				got[i].Detail = inEnglish(got[i].Detail)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// inEnglish is a sentence as a reader of English has it.
func inEnglish(m *rundir.Message) *rundir.Message {
	if m == nil {
		return nil
	}
	return new(texts.Verbatim(m.English()))
}

// A condition alone decides a claim without a size.
func TestClaimsByConditions(t *testing.T) {
	const holds = "ratio(b, a, throughput) >= 1.36"
	for _, c := range []struct {
		ratio           Quantity
		outcome, detail string
	}{
		{between(1.36, 1.5, 1.6), rundir.Holds, ""},
		{between(1.1, 1.2, 1.3), rundir.Refuted, ""},
		{between(1.2, 1.4, 1.6), rundir.NotSettled, "1.2 to 1.6 straddles 1.36"},
	} {
		want := rundir.Claim{ID: "X.1", Says: "more", Holds: holds, Outcome: c.outcome, Measured: &c.ratio.Estimate, Low: &c.ratio.Low, High: &c.ratio.High}
		if c.detail != "" {
			want.Detail = new(texts.Verbatim(c.detail))
		}
		got := DecideClaim(rundir.PlanClaim{ID: "X.1", Says: "more", Holds: holds}, Names{Variants: []string{"a", "b"}}, facts{"b/a throughput": c.ratio})
		got.Detail = inEnglish(got.Detail)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// What a condition measured is the figure in it: that of the first comparison, on whatever side.
func TestMeasuredByConditions(t *testing.T) {
	of := facts{"a throughput": between(9, 10, 11), "b throughput": between(3, 4, 5)}
	for text, want := range map[string]*float64{
		"value(a, throughput) > 5/s":                                new(10.),
		"5/s < value(a, throughput)":                                new(10.),
		"5/s < value(a, throughput) < 20/s":                         new(10.),
		"value(a, throughput) > 5/s and value(b, throughput) > 1/s": new(10.),
		"value(a, throughput) > 5/s, value(b, throughput) > 1/s":    new(10.),
		"value(a, throughput) > 5/s or value(b, throughput) > 1/s":  nil,
	} {
		got := DecideClaim(rundir.PlanClaim{Holds: text}, Names{Variants: []string{"a", "b"}}, of)
		if diff := cmp.Diff(want, got.Measured); diff != "" || got.Outcome != rundir.Holds {
			t.Errorf("%s: %s: %s", text, got.Outcome, diff)
		}
	}
}

func TestClaimsThatCannotBeDecided(t *testing.T) {
	for _, c := range []struct {
		name            string
		plan            rundir.PlanClaim
		of              facts
		outcome, detail string
	}{
		{"not testable", rundir.PlanClaim{NotTestable: "no such machine", Holds: "1 < 2"}, nil, rundir.NotTestable, "no such machine"},
		{"a single trial", rundir.PlanClaim{Holds: "ratio(b, a, throughput) > 1"}, facts{"b/a throughput": single(2)},
			rundir.NotSettled, "the estimate has no interval: it takes more rounds"},
		{"a size of a single trial", rundir.PlanClaim{Published: "2", Measured: "ratio(b, a, throughput)"}, facts{"b/a throughput": single(2)},
			rundir.NotSettled, "the estimate has no interval: it takes more rounds"},
		{"a single trial of one side", rundir.PlanClaim{Holds: "value(b, throughput) > value(a, throughput)"}, facts{"a throughput": single(2), "b throughput": between(3, 4, 5)},
			rundir.NotSettled, "the estimate has no interval: it takes more rounds"},
		{"a single trial that does not matter", rundir.PlanClaim{Holds: "value(b, throughput) > 1/s or value(a, throughput) > 1/s"}, facts{"a throughput": single(2), "b throughput": between(3, 4, 5)},
			rundir.Holds, ""},
		{"no interval", rundir.PlanClaim{Holds: "ratio(b, a, throughput) > 1"}, facts{"b/a throughput": between(-inf, 2, inf)},
			rundir.NotSettled, "an interval without ends straddles 1"},
		{"missing", rundir.PlanClaim{Holds: "ratio(b, a, throughput) > 1"}, nil,
			rundir.NotSettled, "b/a throughput is missing"},
		{"a size that is missing", rundir.PlanClaim{Published: "2", Measured: "ratio(b, a, throughput)"}, nil,
			rundir.NotSettled, "b/a throughput is missing"},
		{"no expression", rundir.PlanClaim{Holds: "throughput"}, nil,
			rundir.NotSettled, "column 1: \"throughput\" is not a condition"},
		{"few rounds refute nothing", rundir.PlanClaim{Holds: "ratio(b, a, throughput) > 3"}, facts{"b/a throughput": between(1, 2, 2.5), "few rounds throughput": {}},
			rundir.NotSettled, "throughput is few rounds"},
		{"few rounds agree with nothing", rundir.PlanClaim{Published: "2", Measured: "ratio(b, a, throughput)"}, facts{"b/a throughput": between(1.9, 2, 2.1), "few rounds throughput": {}},
			rundir.NotSettled, "throughput is few rounds"},
		{"few rounds keep a bound", rundir.PlanClaim{Holds: "ratio(b, a, throughput) > 1"}, facts{"b/a throughput": between(1.9, 2, 2.1), "few rounds throughput": {}},
			rundir.Holds, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := DecideClaim(c.plan, Names{Variants: []string{"a", "b"}}, c.of)
			if got.Outcome != c.outcome || !strings.HasPrefix(got.Detail.English(), c.detail) || (c.detail == "") != (got.Detail == nil) {
				t.Errorf("%s: %q, want %s: %q", got.Outcome, got.Detail, c.outcome, c.detail)
			}
		})
	}
}

// A probe is judged by its estimates, whatever their intervals.
func TestKeeps(t *testing.T) {
	of := facts{"v response.p99": single(0.079), "v errors.ratio": between(0, 0.001, 1), "slope v rss": between(-inf, 0, inf)}
	for _, c := range []struct {
		name   string
		texts  []string
		ok     bool
		broken string
		why    string
	}{
		{"none", nil, true, "", ""},
		{"all kept", []string{"response.p99 < 80ms", "errors.ratio < 1%", "slope(rss) <= 0%/h"}, true, "", ""},
		{"the first broken", []string{"response.p99 < 80ms", "errors.ratio < 0.1%", "response.p99 < 1ms"}, false, "errors.ratio < 0.1%", ""},
		{"broken, and a missing figure", []string{"response.p999 < 80ms", "response.p99 < 1ms"}, false, "response.p99 < 1ms", ""},
		{"missing figures", []string{"response.p999 < 80ms", "response.p99 < 80ms", "service.p50 < 1s"}, false, "", "v response.p999 is missing; v service.p50 is missing"},
		{"about another variant", []string{"value(w, response.p99) < 80ms"}, false, "", `column 7: unknown variant "w"; want one of v`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok, broken, why := Keeps(c.texts, Names{Variants: []string{"v"}}, of, func(Ref) bool { return false })
			if ok != c.ok || broken != c.broken || why.English() != c.why {
				t.Errorf("%v, %q, %v; want %v, %q, %s", ok, broken, why, c.ok, c.broken, c.why)
			}
		})
	}
}

// A figure that evidence gives as no number decides nothing.
func TestNoNumber(t *testing.T) {
	for _, v := range []float64{inf, -inf, inf - inf} {
		of := facts{"v throughput": exactly(v)}
		if got := DecideThreshold("throughput > 1/s", Names{Variants: []string{"v"}}, of); got[0].Outcome != rundir.Undecided || got[0].Measured != nil {
			t.Errorf("%v: %+v", v, got)
		}
		if ok, _, why := Keeps([]string{"throughput > 1/s"}, Names{Variants: []string{"v"}}, of, func(Ref) bool { return false }); ok || why == nil {
			t.Errorf("%v: %v, %v", v, ok, why)
		}
	}
}

// A claim about a variant that could not be built is neither refuted nor open.
func TestClaimOfLeftOut(t *testing.T) {
	names := NamesOf(rundir.Plan{
		Variants: []rundir.PlanVariant{{Name: "go"}, {Name: "java"}},
		LeftOut:  []rundir.LeftOut{{Variant: "rust", Why: "there is no cargo"}, {Variant: "zig"}},
	})
	of := facts{"java/go throughput": {Estimate: 2, Low: 1.9, High: 2.1, Bounded: true}}
	got := DecideClaim(rundir.PlanClaim{ID: "C", Holds: "ratio(rust, go, throughput) > 1"}, names, of)
	if want := "variant rust is left out, because it cannot be built here: there is no cargo"; got.Outcome != rundir.NotTestable || got.Detail.English() != want {
		t.Errorf("%s: %s; want not testable: %s", got.Outcome, got.Detail, want)
	}
	got = DecideClaim(rundir.PlanClaim{ID: "C", Published: "2", Measured: "ratio(zig, rust, throughput)"}, names, of)
	if got.Outcome != rundir.NotSettled || !strings.Contains(got.Detail.English(), "variant zig is left out of this run") {
		t.Errorf("a variant that the run leaves out: %s: %s", got.Outcome, got.Detail)
	}
	if got := DecideClaim(rundir.PlanClaim{ID: "C", Holds: "ratio(java, go, throughput) > 1"}, names, of); got.Outcome != rundir.Holds {
		t.Errorf("the other claim: %s: %s", got.Outcome, got.Detail)
	}
	for _, threshold := range DecideThreshold("value(rust, throughput) > 1/s", names, facts{}) {
		if threshold.OK || threshold.Outcome != rundir.Undecided {
			t.Errorf("a threshold on it: %+v", threshold)
		}
	}
}
