package expr

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// facts are evidence by what it is of, such as "pool response.p99",
// "b/a throughput" or "slope pool rss".
type facts map[string]Quantity

func (f facts) get(key string) (Quantity, error) {
	if v, ok := f[key]; ok {
		return v, nil
	}
	return Quantity{}, errors.New(key + " is missing")
}

func (f facts) Value(variant, metric string) (Quantity, error) { return f.get(variant + " " + metric) }

func (f facts) Ratio(variant, base, metric string) (Quantity, error) {
	return f.get(variant + "/" + base + " " + metric)
}

func (f facts) Slope(variant, gauge string) (Quantity, error) {
	return f.get("slope " + variant + " " + gauge)
}

func (f facts) Spread(variant, metric string) (Quantity, error) {
	return f.get("spread " + variant + " " + metric)
}

func (facts) Needed(Ref, float64) (requests, needed int64) { return 0, 0 }

func (f facts) Doubtful(places []Ref) *rundir.Message {
	if why := f.Unidentified(places); why != nil {
		return why
	}
	return f.reason(places, "bounded")
}

func (f facts) FewRounds(places []Ref) *rundir.Message { return f.reason(places, "few rounds") }

func (f facts) Unidentified(places []Ref) *rundir.Message {
	return f.reason(places, "not identified")
}

func (f facts) reason(places []Ref, state string) *rundir.Message {
	for _, at := range places {
		if _, ok := f[state+" "+at.Metric]; ok {
			m := texts.Verbatim(at.Metric + " is " + state)
			return &m
		}
	}
	return nil
}

func between(low, estimate, high float64) Quantity { return Quantity{estimate, low, high, true} }

// single is a figure of one trial.
func single(v float64) Quantity { return Quantity{v, v, v, false} }

// twoVariants are exact figures of a slow and a fast variant.
func twoVariants() facts {
	return facts{
		"pool throughput":                   exactly(1000),
		"pool response.p99":                 exactly(0.080),
		"pool errors.total":                 exactly(3),
		"pool errors.ratio":                 exactly(0.002),
		"pool target.rss":                   exactly(10 << 20),
		"pool target.cpu_per_request":       exactly(20e-6),
		"pool connections.opened":           exactly(100),
		"pool capacity":                     exactly(1200),
		"pool program.switch_seconds":       exactly(200e-9),
		"pool program.v2.stack_bytes":       exactly(2048),
		"pool program.exchanges_per_second": exactly(5000),
		"pool program.units":                exactly(100000),
		"slope pool rss":                    exactly(0.04 / 1800),
		"slope pool-100 rss":                exactly(0.08 / 1800),
		"spread pool throughput":            exactly(0.032),
		"spread pool-100 throughput":        exactly(0.128),
		"pool-100 response.p99":             exactly(0.040),
		"pool-100/pool throughput":          exactly(1.5),
		"pool-100/pool response.p99":        exactly(0.375),
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
		{"response.p99 == 0.08s", true, 0.080},
		{"response.p99 < 81000µs", true, 0.080},
		{"response . p99 < 1s", true, 0.080},
		{"p99 < 81ms", true, 0.080},
		{"max(p99, 1ms) < 1s", true, 0.080},
		{"p99 < 81ms, errors.ratio < 0.1%", false, math.NaN()},
		{"max(p99, 1ms) < 1s, not (errors.ratio > 1%)", true, math.NaN()},
		{"errors.ratio < 0.1%", false, 0.002},
		{"errors.ratio < .3%", true, 0.002},
		{"errors.total == 3", true, 3},
		{"throughput >= 1000/s", true, 1000},
		{"throughput > 1000/s", false, 1000},
		{"target.rss <= 10MiB", true, 10 << 20},
		{"target.rss < 10MB", false, 10 << 20},
		{"target.rss > 10000000", true, 10 << 20},
		{`ratio("pool-100", pool, throughput) >= 1.5`, true, 1.5},
		{`ratio("pool-100", pool, response.p99) <= 0.375`, true, 0.375},
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
		{`throughput /* of all */ > 1/s // really`, true, 1000},
		{`capacity >= 1200/s`, true, 1200},
		{`program.switch_seconds < 201ns`, true, 200e-9},
		{`program.v2.stack_bytes <= 2KiB`, true, 2048},
		{`slope(rss) < 5%/30min`, true, 0.04 / 1800},
		{`slope(rss) < 8.1%/h`, true, 0.04 / 1800},
		{`slope(rss) > 0.1%/min and slope(rss) < 0.0023%/s`, true, math.NaN()},
		{`slope("pool-100", rss) < 5%/30min`, false, 0.08 / 1800},
		{`slope(rss) * 30min == 4%`, true, 0.04},
		{`slope(rss) / 10%/h < 1`, true, 0.8},
		{`spread(throughput) < 5%`, true, 0.032},
		{`spread("pool-100", throughput) >= 0.13`, false, 0.128},
		{`spread("pool-100", throughput) / spread(pool, throughput) >= 4`, true, 4},
		{`throughput == 1000 / 1s`, true, 1000},
		{`throughput * 1h == 3600000`, true, 3.6e6},
		{`2 / throughput == 2ms`, true, 0.002},
		{`6/min(1, 2) == 6`, true, 6},
		{`1h == 60min and 60min == 3600s`, true, math.NaN()},
		// What is not known need not matter.
		{`errors.total > 5 and response.p999 < 1s`, false, math.NaN()},
		{`response.p999 < 1s or errors.total < 5`, true, math.NaN()},
	} {
		t.Run(c.text, func(t *testing.T) {
			e, err := Compile(c.text, ForThreshold, Names{Variants: names()})
			if err != nil {
				t.Fatal(err)
			}
			on := &evaluation{Evidence: twoVariants(), variant: "pool"}
			if got := e.holds(on); got.is != either(c.want, !c.want) || len(got.why) != 0 {
				t.Errorf("holds: %v; want %v", got, c.want)
			}
			switch m, low, high := e.value(on); {
			case m != nil && (*low != *m || *high != *m):
				t.Errorf("measured %v to %v, want exactly %v", *low, *high, *m)
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
		{"response.p999 < 1s", "pool response.p999 is missing"},
		{"value(idle, throughput) < 1/s", "idle throughput is missing"},
		{"ratio(idle, pool, throughput) > 1", "idle/pool throughput is missing"},
		{"slope(threads) > 1%/h", "slope pool threads is missing"},
		{"slope(idle, rss) > 1%/h", "slope idle rss is missing"},
		{"spread(idle, throughput) > 1%", "spread idle throughput is missing"},
		{"throughput / (errors.total - 3) > 1/s", "1000 / 0 has no value"},
		{"(errors.total - 3) / (errors.total - 3) > 1", "0 / 0 has no value"},
		{"1e300 * 1e300 > 1", "1e+300 * 1e+300 has no value"},
		{"response.p999 < 1s or errors.total > 5", "pool response.p999 is missing"},
		{"response.p999 < 1s and errors.total < 5", "pool response.p999 is missing"},
		{"not (response.p999 < 1s)", "pool response.p999 is missing"},
		{"max(response.p99, response.p999, service.p50) < 1s", "pool response.p999 is missing; pool service.p50 is missing"},
		{"response.p999 < 1s or response.p999 > 2s", "pool response.p999 is missing"},
	} {
		got := DecideThreshold(c.text, Names{Variants: []string{"pool", "idle"}}, twoVariants())
		if len(got) == 0 {
			t.Errorf("%s: nothing decided", c.text)
			continue
		}
		want := rundir.Threshold{Text: c.text, Variant: got[0].Variant, Outcome: rundir.Undecided, Detail: new(texts.Verbatim(c.want))}
		got[0].Measured, got[0].Low, got[0].High = nil, nil, nil
		got[0].Detail = inEnglish(got[0].Detail)
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
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
		{"response.p980 < 80ms", ForThreshold, 1, "did you mean response.p9"},
		{"errors.ratio < 1% and respnse.p99 < 80ms", ForThreshold, 23, "did you mean response.p99?"},
		{"p99 < 80", ForThreshold, 7, "needs a unit"},
		{"p99.9 < 80", ForThreshold, 9, "needs a unit"},
		{"p99.9{step=a} < 80ms", ForThreshold, 6, "unknown step"},
		{"p99 < 80ms, errors.ratio < 1ms", ForThreshold, 13, "needs a unit"},
		{"p99 < 80ms,", ForThreshold, 11, "ends too early"},
		{"p(99) < 80ms", ForThreshold, 1, "a percentile is written p95, p99 or p99.9"},
		{"avg < 80ms", ForThreshold, 1, "did you mean mean?"},
		{"med < 80ms", ForThreshold, 1, "did you mean p50?"},
		{"http_req_duration < 80ms", ForThreshold, 1, "dyno help metrics lists them"},
		{"response < 80ms", ForThreshold, 1, "response.p50"},
		{"response.p99 < 80", ForThreshold, 16, "needs a unit"},
		{"80 > response.p99", ForThreshold, 1, "needs a unit"},
		{"response.p99 < 80msec", ForThreshold, 18, `unknown unit "msec"`},
		{"response.p99 < 80/s", ForThreshold, 14, "a time and a rate"},
		{"response.p99 * response.p50 < 1s", ForThreshold, 14, "makes no figure"},
		{"target.rss / response.p50 < 1/s", ForThreshold, 12, "a size over a time makes no figure"},
		{"slope(rss) < 5%", ForThreshold, 14, "a slope needs a time, such as 5%/30min"},
		{"max(slope(rss), 5%) < 5%/h", ForThreshold, 17, "a slope needs a time"},
		{"slope(rss) < 30min", ForThreshold, 12, "a slope and a time"},
		{"slope(rs) < 5%/h", ForThreshold, 7, "unknown gauge \"rs\"; did you mean rss?"},
		{"slope(target.cpu_share) < 5%/h", ForThreshold, 7, "want one of rss, threads, descriptors, goroutines"},
		{"slope('rss') < 5%/h", ForThreshold, 7, "name of a gauge"},
		{"slope() < 5%/h", ForThreshold, 1, "slope of 0 arguments"},
		{"slope(rss) < 5%/h", ForClaim, 1, `the slope of rss of which variant? write slope("pool", rss)`},
		{"spread() < 5%", ForThreshold, 1, "spread of 0 arguments"},
		{"spread(throughput) < 5ms", ForThreshold, 1, "a time needs a unit"},
		{"spread(response.max) < 5%", ForThreshold, 8, "response.max is a count or an extreme of the run"},
		{"spread(throughput) < 5%", ForClaim, 1, `the spread of throughput of which variant? write spread("pool", throughput)`},
		{"5%/hour > slope(rss)", ForThreshold, 4, "unknown metric \"hour\""},
		{"program > 1", ForThreshold, 1, "did you mean program.NAME?"},
		{"min(1s, 2) < 3s", ForThreshold, 9, "needs a unit"},
		{"min(1s) < 3s", ForThreshold, 1, "min of 1 arguments"},
		{"abs() < 3s", ForThreshold, 1, "abs of 0 arguments"},
		{"response.p99", ForThreshold, 1, "not a condition"},
		{"1 < 'a'", ForThreshold, 5, "a string is not a number"},
		{"1 < (2 > 1)", ForThreshold, 6, "is not a number"},
		{"5% 2 == 1", ForThreshold, 4, "unexpected "},
		{"response.p99 <", ForThreshold, 14, "ends too early"},
		{"response.p99 < 80 ms", ForThreshold, 19, "unexpected "},
		{"response.p99 = 80ms", ForThreshold, 14, "unexpected "},
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
		_, err := Compile(c.text, c.kind, Names{Variants: names()})
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

func TestClaimOfTheOnlyVariant(t *testing.T) {
	e, err := Compile("throughput > 1/s", ForClaim, Names{Variants: []string{"pool"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.holds(&evaluation{Evidence: twoVariants()}); got.is != yes {
		t.Errorf("%v; want yes", got)
	}
	e, err = Compile("slope(rss) > 1%/h", ForClaim, Names{Variants: []string{"pool"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.holds(&evaluation{Evidence: twoVariants()}); got.is != yes {
		t.Errorf("%v; want yes", got)
	}
}

// Every metric that a message may propose can be used.
func TestMetricNames(t *testing.T) {
	literal := map[dimension]string{plain: "1", duration: "1ms", size: "1KiB", rate: "1/s"}
	for _, m := range rundir.Metrics() {
		if _, err := Compile(m.Name+" < "+literal[m.Dimension()], ForThreshold, Names{Variants: names()}); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if err := Checks.CheckMetric(m.Name, nil); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	for _, name := range []string{"capacity", "program.switch_seconds"} {
		if err := Checks.CheckMetric(name, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Checks.CheckMetric("respnse.p99", nil); err == nil || err.Error() != `unknown metric "respnse.p99"; did you mean response.p99?` {
		t.Errorf("got %v", err)
	}
}

func TestUnit(t *testing.T) {
	for text, want := range map[string]rundir.Unit{
		"response.p99 < 1s": "s", "target.rss < 1MiB": "B", "throughput > 1/s": "/s", "slope(rss) < 5%/30min": "share/s", "1 / throughput < 1s": "s", "errors.ratio < 1%": "ratio", "-availability < -1%": "ratio", "2 * errors.ratio < 1%": "ratio", "2 * errors.ratio < 1": "", "program.ops > 1": "count", "program.dropped <= 1.2%": "ratio", "not (throughput > 1/s)": "",
	} {
		if e, err := Compile(text, ForThreshold, Names{}); err != nil || e.Unit() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A measured time is compared with the very number that its unit stands for.
func TestUnitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1e9).Draw(t, "n")
		for unit, ns := range map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9} {
			e, err := Compile(fmt.Sprintf("response.max == %d%s", n, unit), ForThreshold, Names{})
			if err != nil {
				t.Fatal(err)
			}
			measured := facts{" response.max": exactly(float64(n*ns) / 1e9)}
			if got := e.holds(&evaluation{Evidence: measured}); got.is != yes {
				t.Errorf("%d%s is not %d ns: %v", n, unit, n*ns, got)
			}
		}
	})
}

// A fuzzed expression is evaluated on exact figures, on intervals around them and
// on single trials. No outcome may contradict another.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"response.p99 < 80ms", "errors.ratio < 0.1%", "throughput >= 5000/s", "1 < 'a\\", "`µ`", "1..5ms", "/* 5ms",
		`ratio("pool-100", pool, throughput) >= 1.36 and not (value(pool, target.rss) > 5MiB)`,
		"max(response.p99, 1µs) - -.5e3ns != abs(1s)", "1 < 2 < 3ms", "filter([1ms], {# > 1/s})", "a?.b ?? 5% : 2",
		"let x = 5ms; if x > 1 {1} else {2}", "response['p99'][1:2] | value(pool)", "not in", "b'\\xff' + 0x1Fms", "5ms\n\n\t< 1s;",
		"slope(rss) < 5%/30min", "slope(pool, rss) * 1h / min(2%/h*1s, 3) < 5%/min", "program.v2.x_per_second / 0 > 5000/min(1, 2)",
		"throughput / (errors.total - errors.total) > 1/h or capacity*1e308 != 1e308/s",
	} {
		f.Add(s, true, 0.1)
		f.Add(s, false, math.Inf(1))
	}
	f.Fuzz(func(t *testing.T, text string, threshold bool, wider float64) {
		kind := ForClaim
		if threshold {
			kind = ForThreshold
		}
		e, err := Compile(text, kind, Names{Variants: names()})
		if err == nil {
			exact, wide, lone := twoVariants(), twoVariants(), twoVariants()
			for key, v := range exact {
				wide[key] = between(v.Estimate-math.Abs(wider), v.Estimate, v.Estimate+math.Abs(wider))
				lone[key] = single(v.Estimate)
			}
			at := e.holds(&evaluation{Evidence: exact, variant: "pool"})
			around := e.holds(&evaluation{Evidence: wide, variant: "pool"})
			if at.is*around.is == -1 {
				t.Errorf("%s: %v on an interval, %v within it", text, around, at)
			}
			if loose := e.holds(&evaluation{Evidence: lone, variant: "pool", byEstimate: true}); loose.is != at.is {
				t.Errorf("%s: %v by the estimates, %v exactly", text, loose, at)
			}
			strict := e.holds(&evaluation{Evidence: lone, variant: "pool"})
			if strict.is != undecided && strict.is != at.is {
				t.Errorf("%s: %v of single trials, %v exactly", text, strict, at)
			}
			for _, r := range []ruling{at, around, strict} {
				if r.is == undecided && len(r.why) == 0 {
					t.Errorf("%s: undecided for no reason", text)
				}
			}
			m, low, high := e.value(&evaluation{Evidence: wide, variant: "pool"})
			for _, v := range []*float64{m, low, high} {
				if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
					t.Errorf("%s: measured %v", text, *v)
				}
			}
			if low != nil && *low > *m || high != nil && *high < *m {
				t.Errorf("%s: %v is not within its interval", text, *m)
			}
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
