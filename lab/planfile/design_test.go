package planfile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
)

// The first lines of every file below that does not have its own.
const head = "name: x\ntarget: {protocol: http, url: http://localhost}\n"

// parseDesign reads a file whose comments name its options.
func parseDesign(src string) (*plan.Experiment, error) {
	if !strings.HasPrefix(src, "name:") {
		src = head + src
	}
	return Parse("x.yaml", []byte(src), badOptions([]byte(src)))
}

func TestDesignWarnings(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"hurried soak, repeated", `load: {closed: {connections: 1}, window: 1m}
soak: true
design: {rounds: 12, stop: looks}
compare: {base: a, variants: {a: {}, b: {}}}
`, `x.yaml:3:42: load.window: 1m0s are short for a soak; a trend shows in 10m or more
x.yaml:5:28: design.stop: the soak is repeated up to 12 times; fixed`},
		{"few rounds that were set", `load: {closed: {connections: 1}}
compare: {base: a, variants: {a: {}, b: {}}}
# set rounds=7
`, `x.yaml: set.rounds: 7 rounds are few for a compare; 8 or more, or little will be shown`},
		{"few rounds of two steps", `load: {closed: {connections: 1}}
design: {rounds: 11}
ladder: {steps: {a: {}, b: {}}, leave_one_out: true}
`, `x.yaml:5:48: ladder.leave_one_out: two steps leave none to do without; it says something with three or more
x.yaml:4:18: design.rounds: 11 rounds are few for a ladder; 12 or more, or little will be shown`},
		{"few searches", `load: {open: {}}
design: {rounds: 4}
capacity: {from: 1, to: 2}
thresholds: [a]
ladder: {steps: {a: {}, b: {}}}
`, `x.yaml:4:18: design.rounds: 4 rounds are few for a compare of capacities; 5 or more, or little will be shown`},
		{"short forms may be short", `load: {closed: {connections: 1}}
soak: true
compare: {base: a, variants: {a: {}, b: {}}}
short: {rounds: 1, window: 1s}
# short
`, ""},
		{"pilot of stages", "load: {stages: [{duration: 1, to: 4}], warmup: auto}\n",
			`x.yaml:3:48: load.warmup: pilots keep to the rate with which the stages begin; give its length if it depends on the rate`},
		{"pilot of a search", "load: {open: {}}\ncapacity: {from: 5, to: 9}\nthresholds: [x]\n# set warmup=auto\n",
			`x.yaml: set.warmup: pilots keep to the lowest rate of the search; give its length if it depends on the rate`},
		{"pilot of an open load", "load: {open: {rate: 5}, warmup: auto}\n", ""},
		{"few rounds without a base", "load: {closed: {connections: 1}}\ndesign: {rounds: 1}\n", ""},
		{"enough rounds", "load: {closed: {connections: 1}}\ndesign: {rounds: 8}\ncompare: {base: a, variants: {a: {}, b: {}}}\n", ""},
	} {
		e, err := parseDesign(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, w := range e.Warnings {
			got = append(got, w.Error())
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestDesignDefaults(t *testing.T) {
	const (
		closed  = "load: {closed: {connections: 1}}\n"
		open    = "load: {open: {rate: 5}}\n"
		compare = "compare: {base: a, variants: {b: {}, a: {}}}\n"
		ladder  = "ladder: {steps: {a: {}, b: {}}}\n"
		search  = "load: {open: {}}\nthresholds: [x]\ncapacity: {from: 1, to: 9}\n"
	)
	design := func(rounds int, stop, metric, control string) plan.Design {
		return plan.Design{Rounds: rounds, Seed: 1, Stop: stop, Margin: 0.02, Metric: metric, Control: control, QuietWait: 30 * time.Second}
	}
	for _, c := range []struct {
		src  string
		want plan.Design
	}{
		{closed, design(3, plan.StopFixed, "throughput", "")},
		{open, design(3, plan.StopFixed, "response.p99", "")},
		{"load: {stages: [{duration: 1, rate: 5}]}\n", design(3, plan.StopFixed, "response.p99", "")},
		{closed + compare, design(8, plan.StopFixed, "throughput", "a.control")},
		{closed + ladder, design(12, plan.StopFixed, "throughput", "a.control")},
		{closed + "sweep: {x: [1, 2]}\n", design(8, plan.StopFixed, "throughput", "")},
		{closed + "sweep: {x: [1, 2]}\ndesign: {control: 2}\n", design(8, plan.StopFixed, "throughput", "2.control")},
		{closed + "design: {control: default}\n", design(8, plan.StopFixed, "throughput", "default.control")},
		{closed + "soak: true\n", design(1, plan.StopFixed, "throughput", "")},
		{closed + "soak: false\n" + compare, design(8, plan.StopFixed, "throughput", "a.control")},
		{closed + "soak: true\n" + compare, design(1, plan.StopFixed, "throughput", "a.control")},
		{search, design(5, plan.StopFixed, "capacity", "")},
		{search + ladder, design(5, plan.StopFixed, "capacity", "a.control")},
		{search + compare, design(5, plan.StopFixed, "capacity", "a.control")},
		{closed + compare + "design: {stop: precision}\n", design(40, plan.StopPrecision, "throughput", "a.control")},
		{closed + ladder + "design: {stop: looks}\n", design(24, plan.StopLooks, "throughput", "a.control")},
		{closed + compare + "design: {stop: precision, rounds: 8}\n", design(8, plan.StopPrecision, "throughput", "a.control")},
		{closed + compare + "design: {stop: looks, rounds: 12}\n", design(12, plan.StopLooks, "throughput", "a.control")},
		{closed + compare + "design: {control: true}\n", design(8, plan.StopFixed, "throughput", "a.control")},
		{closed + compare + "design: {control: b}\n", design(8, plan.StopFixed, "throughput", "b.control")},
		{closed + compare + "design: {control: false}\n", design(8, plan.StopFixed, "throughput", "")},
		{closed + "compare: {base: a, variants: {a: {}, b: {}, a.control: {}}}\ndesign: {control: false}\n", design(8, plan.StopFixed, "throughput", "")},
		{closed + compare + "design: {metric: target.cpu_per_request}\n", design(8, plan.StopFixed, "target.cpu_per_request", "a.control")},
		// The rounds of a short form are made whatever the rule, unless it is asked for.
		{closed + compare + "design: {stop: precision}\nshort: {rounds: 3}\n# short\n", design(3, plan.StopFixed, "throughput", "a.control")},
		{closed + compare + "design: {stop: precision}\nshort: {window: 1}\n# short\n", design(40, plan.StopPrecision, "throughput", "a.control")},
		{closed + compare + "short: {rounds: 9}\n# short\n# set stop=precision\n", design(9, plan.StopPrecision, "throughput", "a.control")},
		{closed + compare + "short: {variants: [a]}\n# short\n", design(8, plan.StopFixed, "throughput", "a.control")},
		{closed + compare + "# set stop=looks\n# set rounds=30\n# set metric=response.p50\n", design(30, plan.StopLooks, "response.p50", "a.control")},
	} {
		e, err := parseDesign(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		if diff := cmp.Diff(c.want, e.Design); diff != "" {
			t.Errorf("%s: %s", c.src, diff)
		}
	}
}

// The pilot says how long the warm-up is unless something nearer does.
func TestPilot(t *testing.T) {
	const auto = "load: {closed: {connections: 1}, warmup: auto}\n"
	for _, c := range []struct {
		src           string
		pilot, warmup time.Duration
	}{
		{auto, 30 * time.Second, 0},
		{auto + "design: {pilot: 10s}\n", 10 * time.Second, 0},
		{auto + "design: {pilot: 10s}\nshort: {warmup: 1s}\n", 10 * time.Second, 0},
		{auto + "design: {pilot: 10s}\nshort: {warmup: 1s}\n# short\n", 0, time.Second},
		{auto + "# set warmup=3s\n", 0, 3 * time.Second},
		{"load: {closed: {connections: 1}, warmup: '{{w}}'}\nsweep: {w: [auto]}\n", 30 * time.Second, 0},
		{"load: {closed: {connections: 1}}\n# set warmup=auto\n", 30 * time.Second, 0},
		{"load: {closed: {connections: 1}}\n", 0, 2 * time.Second},
	} {
		e, err := parseDesign(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		if got := e.Variants[0].Load.Warmup; e.Design.Pilot != c.pilot || got != c.warmup {
			t.Errorf("%s: pilot %v, warm-up %v; want %v, %v", c.src, e.Design.Pilot, got, c.pilot, c.warmup)
		}
	}
}

func TestLadder(t *testing.T) {
	path := "testdata/good/ladder.yaml"
	e := mustParse(t, path, Options{})
	wantDesign := plan.Design{
		QuietWait: 30 * time.Second,
		Rounds:    24, Seed: 1, Stop: plan.StopLooks, Margin: 0.01, Metric: "target.cpu_per_request",
		Control: "cache.control", KeepDisturbed: true, Pilot: 20 * time.Second,
	}
	if diff := cmp.Diff(wantDesign, e.Design); diff != "" {
		t.Error(diff)
	}
	want := &plan.Ladder{
		Steps:       []string{"plain", "pool", "cache", "batch"},
		WithoutStep: map[string]string{"without-pool": "pool", "without-cache": "cache"},
	}
	if diff := cmp.Diff(want, e.Ladder); diff != "" || e.Base != "plain" {
		t.Errorf("base %s, %s", e.Base, diff)
	}
	var got []string
	for _, v := range e.Variants {
		got = append(got, v.Name+" "+strings.Join(v.Target.Start[2:], " "))
	}
	steps := []string{
		"plain --pool=1 --cache=off --batch=1",
		"pool --pool=16 --cache=off --batch=1",
		"cache --pool=16 --cache=on --batch=1",
		"cache.control --pool=16 --cache=on --batch=1",
		"batch --pool=16 --cache=on --batch=8",
		"without-pool --pool=1 --cache=on --batch=8",
		"without-cache --pool=16 --cache=off --batch=8",
	}
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Error(diff)
	}

	e = mustParse(t, path, Options{Short: true, Set: map[string]string{"batch": "4"}})
	if got := names(e); got != "plain cache cache.control batch without-cache" {
		t.Errorf("short form has %s", got)
	}
	want = &plan.Ladder{Steps: []string{"plain", "cache", "batch"}, WithoutStep: map[string]string{"without-cache": "cache"}}
	if diff := cmp.Diff(want, e.Ladder); diff != "" {
		t.Error(diff)
	}
	for _, v := range e.Variants {
		if v.Vars["batch"] != "4" {
			t.Errorf("%s: batch %s, want the value that was set", v.Name, v.Vars["batch"])
		}
	}
	if v := e.Variants[1]; v.Vars["pool"] != "16" || v.Load.Warmup != 500*time.Millisecond {
		t.Errorf("short form's cache has the pool of %s, not that of a step left out; warm-up %v", v.Vars["pool"], v.Load.Warmup)
	}
}

func TestSweepDimensions(t *testing.T) {
	path := "testdata/good/sweep.yaml"
	for _, c := range []struct {
		o    Options
		want []plan.Dimension
	}{
		{Options{}, []plan.Dimension{{Name: "model", Values: []string{"goroutine", "pinned"}}, {Name: "connections", Values: []string{"100", "500", "1000"}}, {Name: "payload", Values: []string{"64", "1 KiB"}}}},
		{Options{Short: true, Set: map[string]string{"connections": "7"}}, []plan.Dimension{{Name: "model", Values: []string{"goroutine", "pinned"}}, {Name: "connections", Values: []string{"7"}}, {Name: "payload", Values: []string{"64"}}}},
	} {
		e := mustParse(t, path, c.o)
		if diff := cmp.Diff(c.want, e.Sweep); diff != "" || e.Base != "" {
			t.Errorf("base %q, %s", e.Base, diff)
		}
		if diff := cmp.Diff(c.o.Set, e.Set); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCapacity(t *testing.T) {
	e := mustParse(t, "testdata/good/capacity.yaml", Options{})
	if diff := cmp.Diff(&plan.Capacity{From: 100, To: 20_000, Resolution: 0.01, Trials: 7, Tolerate: 0.25}, e.Capacity); diff != "" {
		t.Error(diff)
	}
	if got := names(e); got != "1 2 2.control 4" {
		t.Error(got)
	}
	if o := e.Variants[0].Load.Open; o == nil || o.Rate != 0 || o.MaxConnections != 200 {
		t.Errorf("load %+v", o)
	}
	e, err := parseDesign("load: {open: {}}\nthresholds: [x]\ncapacity: {from: 60/min, to: 9}\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&plan.Capacity{From: 1, To: 9, Resolution: 0.02, Trials: 5, Tolerate: 0.5}, e.Capacity); diff != "" {
		t.Error(diff)
	}
}

func TestSoak(t *testing.T) {
	e := mustParse(t, "testdata/good/soak.yaml", Options{})
	if !e.Soak || e.Variants[0].Load.Window != 30*time.Minute || names(e) != "old old.control new" {
		t.Errorf("soak %v, window %v, variants %s", e.Soak, e.Variants[0].Load.Window, names(e))
	}
	e = mustParse(t, "testdata/good/soak.yaml", Options{Short: true})
	if !e.Soak || e.Variants[0].Load.Window != time.Minute {
		t.Errorf("short form: soak %v, window %v", e.Soak, e.Variants[0].Load.Window)
	}
}

func TestProgram(t *testing.T) {
	e := mustParse(t, "testdata/good/program.yaml", Options{})
	want := plan.Variant{
		Name: "thread",
		Vars: map[string]string{"unit": "thread"},
		Target: plan.Target{
			Protocol: plan.Program,
			Process: plan.Process{
				Start: []string{"bin/micro", "switch", "--unit", "thread"}, CPUs: []int{0},
				Ready: plan.Ready{Kind: plan.ReadyNone}, ReadyTimeout: 10 * time.Second, StopTimeout: 5 * time.Second,
			},
			Timeout: time.Minute,
		},
	}
	if diff := cmp.Diff(want, e.Variants[2]); diff != "" {
		t.Error(diff)
	}
	e, err := parseDesign("name: x\ntarget: {protocol: program, start: [x, '{{echo.addr}}']}\n" +
		"services: {echo: {start: [y, '{{port}}']}}\ndesign: {metric: program.bytes}\n")
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Variants[0]; v.Target.Timeout != 5*time.Minute || len(v.Services) != 1 {
		t.Errorf("time-out %v, services %v", v.Target.Timeout, v.Services)
	}
}

func TestMetricCheck(t *testing.T) {
	o := Options{Expressions: fakeChecks{metric: func(metric string) error {
		if metric == "response.p42" {
			return errors.New("no such metric")
		}
		return nil
	}}}
	const src = head + "load: {closed: {connections: 1}}\ndesign: {metric: response.p42}\n"
	_, err := Parse("x.yaml", []byte(src), o)
	if want := "x.yaml:4:18: design.metric: no such metric"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	o.Set = map[string]string{"metric": "response.p42"}
	_, err = Parse("x.yaml", []byte(strings.Replace(src, "p42", "p50", 1)), o)
	if want := "x.yaml: set.metric: no such metric"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
