package verdict

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dyno/rundir"
)

func ptr[T any](v T) *T { return &v }

// twoVariants is a scene with a slow and a fast variant in two rounds.
func twoVariants() *scene {
	of := func(throughput, p99 float64) *figures {
		f := &figures{Variant: rundir.Variant{
			Trials:     1,
			Throughput: rundir.Estimate{Estimate: &throughput},
			Response:   rundir.Quantiles{P99: &p99},
			Errors:     rundir.Errors{Total: 3, Ratio: ptr(0.002)},
			Target:     rundir.Target{RSSBytes: ptr(int64(10 << 20)), CPUSecondsPerRequest: ptr(20e-6)},
		}}
		f.connections.opened = ptr(100.)
		return f
	}
	return &scene{
		variant: "pool",
		whole:   map[string]*figures{"pool": of(1000, 0.080), "pool-100": of(1500, 0.040), "idle": {}},
		rounds: map[string]map[int]*figures{
			"pool":     {1: of(900, 0.080), 2: of(1100, 0.080), 3: of(1000, 0)},
			"pool-100": {1: of(1350, 0.040), 2: of(1760, 0.020), 3: of(1500, 0.040)},
		},
	}
}

func names() []string { return []string{"pool", "pool-100", "idle"} }

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		text     string
		want     bool
		measured float64 // NaN: none
	}{
		{"response.p99 < 80ms", false, 0.080},
		{"response.p99 <= 80ms", true, 0.080},
		{"response.p99 <= 80_000us", true, 0.080},
		{"response.p99 == 0.08s", true, 0.080},
		{"response.p99 < 81000µs", true, 0.080},
		{"response.p99 < 8.1e7ns", true, 0.080},
		{"response.p99 < 0.0014m", true, 0.080},
		{"response . p99 < 1s", true, 0.080},
		{"errors.ratio < 0.1%", false, 0.002},
		{"errors.ratio < .3%", true, 0.002},
		{"errors.total == 3", true, 3},
		{"throughput >= 1000/s", true, 1000},
		{"throughput >= 1000", true, 1000},
		{"throughput > 1000/s", false, 1000},
		{"target.rss <= 10MiB", true, 10 << 20},
		{"target.rss < 10MB", false, 10 << 20},
		{"target.rss < 10240KiB + 1B", true, 10 << 20},
		{"target.rss > 10000000", true, 10 << 20},
		{"target.cpu_per_request < 21us", true, 20e-6},
		{"connections.opened == 100", true, 100},
		{`ratio("pool-100", pool, throughput) >= 1.5`, true, 1.5},
		{`ratio('pool-100', "pool", throughput) > 1.55`, false, 1.5},
		{`ratio("pool-100", pool, response.p99) <= 0.375`, true, 0.375}, // round 3 has no ratio: its base is 0
		{`value("pool-100", response.p99) < 41ms`, true, 0.040},
		{`value("pool-100", response.p99) * 2 <= response.p99`, true, 0.080},
		{`response.p99 / value("pool-100", response.p99) == 2`, true, 2},
		{`min(1s, 2s) == 1s`, true, 1},
		{`max(1, 2, 3) == 3`, true, 3},
		{`abs(throughput - 1500/s) == 500/s`, true, 500},
		{`-throughput < +1/s`, true, -1000},
		{`1ms < response.p99 < 1s`, true, math.NaN()},
		{`not (throughput > 1/s)`, false, math.NaN()},
		{`!(throughput < 1/s)`, true, math.NaN()},
		{`throughput > 1/s and errors.ratio < 1%`, true, math.NaN()},
		{`throughput < 1/s && errors.ratio < 1%`, false, math.NaN()},
		{`throughput < 1/s or errors.ratio < 1%`, true, math.NaN()},
		{`throughput < 1/s || errors.ratio > 1%`, false, math.NaN()},
		{`throughput != 1/s`, true, 1000},
		{`throughput /* of all */ > 1/s // really`, true, 1000},
		// What is not known need not matter.
		{`errors.total > 5 and response.p999 < 1s`, false, math.NaN()},
		{`response.p999 < 1s or errors.total < 5`, true, math.NaN()},
	} {
		t.Run(c.text, func(t *testing.T) {
			e, err := Compile(c.text, ForThreshold, names())
			if err != nil {
				t.Fatal(err)
			}
			s := twoVariants()
			got, err := e.holds(s)
			if err != nil || got != c.want {
				t.Errorf("holds: %v, %v; want %v", got, err, c.want)
			}
			switch m := e.measured(s); {
			case m == nil && !math.IsNaN(c.measured):
				t.Errorf("nothing measured, want %v", c.measured)
			case m != nil && math.Abs(*m-c.measured) > 1e-12*math.Abs(c.measured):
				t.Errorf("measured %v, want %v", *m, c.measured)
			case m != nil && math.IsNaN(c.measured):
				t.Errorf("measured %v, want nothing", *m)
			}
		})
	}
}

func TestMissingFigures(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"response.p999 < 1s", "response.p999 of pool is not known"},
		{"value(idle, throughput) < 1/s", "no complete trial of idle"},
		{"ratio(idle, pool, throughput) > 1", "in no round"},
		{"ratio(pool, idle, throughput) > 1", "in no round"},
		{"throughput / (errors.total - 3) > 1/s", "has no value"},
		{"response.p999 < 1s or errors.total > 5", "response.p999"},
		{"response.p999 < 1s and errors.total < 5", "response.p999"},
		{"not (response.p999 < 1s)", "response.p999"},
		{"max(response.p99, response.p999) < 1s", "response.p999"},
	} {
		e, err := Compile(c.text, ForThreshold, names())
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if _, err := e.holds(twoVariants()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.text, err, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		text   string
		kind   Kind
		column int
		want   string
	}{
		{"", ForThreshold, 1, "empty"},
		{"response.p98 < 80ms", ForThreshold, 1, "did you mean response.p9"},
		{"errors.ratio < 1% and respnse.p99 < 80ms", ForThreshold, 23, "did you mean response.p99?"},
		{"p99 < 80ms", ForThreshold, 1, "response.p99"},
		{"response < 80ms", ForThreshold, 1, "response.p50"},
		{"bananas < 80ms", ForThreshold, 1, "want one of throughput"},
		{"response.p99 < 80", ForThreshold, 16, "needs a unit"},
		{"80 > response.p99", ForThreshold, 1, "needs a unit"},
		{"response.p99 < 80msec", ForThreshold, 18, `unknown unit "msec"`},
		{"response.p99 < 80MS", ForThreshold, 18, "did you mean ms?"},
		{"response.p99 < 80/s", ForThreshold, 14, "a time and a rate"},
		{"target.rss < 80ms", ForThreshold, 12, "a size and a time"},
		{"response.p99 * response.p50 < 1s", ForThreshold, 14, "makes no figure"},
		{"1 / response.p50 < 1/s", ForThreshold, 3, "makes no figure"},
		{"min(1s, 2) < 3s", ForThreshold, 9, "needs a unit"},
		{"min(1s) < 3s", ForThreshold, 1, "min of 1 arguments"},
		{"abs() < 3s", ForThreshold, 1, "abs of 0 arguments"},
		{"response.p99", ForThreshold, 1, "not a condition"},
		{"1 + 2", ForThreshold, 1, "not a condition"},
		{"true", ForThreshold, 1, "not a condition"},
		{"1 < 'a'", ForThreshold, 5, "a string is not a number"},
		{"1 < (2 > 1)", ForThreshold, 6, "is not a number"},
		{"5 % 2 == 1", ForThreshold, 1, "is not a number"},
		{"5% 2 == 1", ForThreshold, 4, "unexpected token"},
		{"response.p99 <", ForThreshold, 14, "ends too early"},
		{"response.p99 < 80 ms", ForThreshold, 19, "unexpected token"},
		{"response.p99 = 80ms", ForThreshold, 14, "unexpected token"},
		{"(response.p99 < 80ms", ForThreshold, 20, "ends too early"},
		{"response.p99 < 8\u00b5s µ", ForThreshold, 20, "unexpected token"},
		{"response?.p99 < 1s", ForThreshold, 11, "is not a number"},
		{"response[0] < 1s", ForThreshold, 1, "name of a metric"},
		{"let x = 1; x < 2", ForThreshold, 5, "not a condition"},
		{"len('x') < 2", ForThreshold, 1, "unknown function"},
		{"ratoi(pool, idle, throughput) < 2", ForThreshold, 1, "did you mean ratio?"},
		{"response.p99() < 2", ForThreshold, 1, "is not a function"},
		{"ratio(pool, idle) > 1", ForClaim, 1, "want ratio(variant, base, metric)"},
		{"value(pool) > 1", ForClaim, 1, "want value(variant, metric)"},
		{"ratio(pol, idle, throughput) > 1", ForClaim, 7, "did you mean pool?"},
		{"ratio(pool-100, pool, throughput) > 1", ForClaim, 7, "in quotes"},
		{`ratio("pool-100", pool, 3) > 1`, ForClaim, 25, "name of a metric"},
		{"throughput > 1/s", ForClaim, 1, `write value("pool", throughput)`},
		{"pool > 1/s", ForClaim, 1, `write value("pool", metric)`},
		{"\xff", ForThreshold, 1, "UTF-8"},
		{strings.Repeat("(", MaxExpression+1), ForThreshold, 1, "at most 4096"},
		{"1 < 'a", ForThreshold, 6, "literal not terminated"},
		{"1 < 99999999999999999999", ForThreshold, 0, "integer"},
	} {
		_, err := Compile(c.text, c.kind, names())
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%s: %v, want an *Error", c.text, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || c.column != 0 && fault.Column != c.column {
			t.Errorf("%s:\n got %v\nwant column %d: …%s…", c.text, err, c.column, c.want)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := Compile("value(pol, throughput) > 1/s and 1ms < respnse.p99 < 80", ForThreshold, names())
	want := "column 7: unknown variant \"pol\"; did you mean pool?\n" +
		"column 40: unknown metric \"respnse.p99\"; did you mean response.p99?"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestClaimOfTheOnlyVariant(t *testing.T) {
	e, err := Compile("throughput > 1/s", ForClaim, []string{"pool"})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := e.holds(twoVariants()); !ok || err != nil {
		t.Errorf("%v, %v; want true", ok, err)
	}
}

// Every metric that a message may propose can be used.
func TestMetricNames(t *testing.T) {
	literal := map[dimension]string{plain: "1", duration: "1ms", size: "1KiB", rate: "1/s"}
	for _, m := range metrics() {
		if _, err := Compile(m.name+" < "+literal[m.dim], ForThreshold, names()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestUnit(t *testing.T) {
	for text, want := range map[string]string{
		"response.p99 < 1s": "s", "target.rss < 1MiB": "B", "throughput > 1/s": "/s", "errors.ratio < 1%": "", "not (throughput > 1/s)": "",
	} {
		if e, err := Compile(text, ForThreshold, nil); err != nil || e.Unit() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A measured time is compared with the very number that its unit stands for.
func TestUnitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1e9).Draw(t, "n")
		for unit, ns := range map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9} {
			e, err := Compile(fmt.Sprintf("response.max == %d%s", n, unit), ForThreshold, nil)
			if err != nil {
				t.Fatal(err)
			}
			f := &figures{Variant: rundir.Variant{Trials: 1, Response: rundir.Quantiles{Max: ptr(seconds(float64(n * ns)))}}}
			if ok, err := e.holds(&scene{whole: map[string]*figures{"": f}}); !ok || err != nil {
				t.Errorf("%d%s is not %d ns: %v", n, unit, n*ns, err)
			}
		}
	})
}

func TestEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, 12, -1)
		a, b, c := s.Draw(t, "a"), s.Draw(t, "b"), s.Draw(t, "c")
		if (edits(a, b) == 0) != (string([]rune(a)) == string([]rune(b))) {
			t.Errorf("distance 0 is not equality")
		}
		if edits(a, b) != edits(b, a) {
			t.Errorf("not symmetric")
		}
		if edits(a, c) > edits(a, b)+edits(b, c) {
			t.Errorf("the detour is shorter")
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"response.p99 < 80ms", "errors.ratio < 0.1%", "throughput >= 5000/s", "1 < 'a\\", "`µ`", "1..5ms", "/* 5ms",
		`ratio("pool-100", pool, throughput) >= 1.36 and not (value(pool, target.rss) > 5MiB)`,
		"max(response.p99, 1µs) - -.5e3ns != abs(1s)", "1 < 2 < 3ms", "filter([1ms], {# > 1/s})", "a?.b ?? 5% : 2",
		"let x = 5ms; if x > 1 {1} else {2}", "response['p99'][1:2] | value(pool)", "not in", "b'\\xff' + 0x1Fms", "5ms\n\n\t< 1s;",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, threshold bool) {
		kind := ForClaim
		if threshold {
			kind = ForThreshold
		}
		e, err := Compile(text, kind, names())
		if err == nil {
			s := twoVariants()
			first, err1 := e.holds(s)
			again, err2 := e.holds(s)
			if first != again || (err1 == nil) != (err2 == nil) {
				t.Errorf("%v, %v and then %v, %v", first, err1, again, err2)
			}
			e.measured(s)
			return
		}
		faults := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			faults = joined.Unwrap()
		}
		for _, fault := range faults {
			var located *Error
			if !errors.As(fault, &located) {
				t.Fatalf("not located: %v", fault)
			}
			if located.Column < 1 || located.Column > max(1, utf8.RuneCountInString(text)) {
				t.Errorf("column %d of %q", located.Column, text)
			}
		}
	})
}
