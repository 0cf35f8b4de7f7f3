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

func TestDesignFaults(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{`forms of the design`, `load: {closed: {connections: 1}}
design: {stop: never, margin: 60%, metric: P99, control: [a], remeasure: 1, pilot: 5s}
`, `x.yaml:4:16: design.stop: "never" is not possible; one of fixed, precision, looks
x.yaml:4:31: design.margin: 60% is too much; from 0.01% to 50%
x.yaml:4:44: design.metric: "P99" does not fit; such as throughput, response.p99 or response.p99{step=login}
x.yaml:4:58: design.control: want text, have a list
x.yaml:4:74: design.remeasure: want true or false, have the number 1
x.yaml:4:84: design.pilot: 5s is too little; from 10s to 1h`},
		{`without a base`, `load: {closed: {connections: 1}}
design: {stop: precision, margin: 0, metric: program.x, control: true, remeasure: "yes", pilot: 30s}
`, `x.yaml:4:16: design.stop: there is no base to compare with, and so nothing to stop by; fixed, or a compare or ladder
x.yaml:4:35: design.margin: 0% is too little; from 0.01% to 50%
x.yaml:4:46: design.metric: only a program prints numbers; target.protocol: program, or another metric
x.yaml:4:66: design.control: there is no base that could have a control; name a variant, such as control: "default"
x.yaml:4:83: design.remeasure: want true or false, have the text "yes"
x.yaml:4:97: design.pilot: the length of the warm-up is given, so that no pilot is made; load.warmup: auto, or remove it`},
		{`few for precision, no such control`, `load: {closed: {connections: 1}}
design: {stop: precision, rounds: 7, control: c, metric: capacity, margin: 5 %}
compare: {base: a, variants: {a: {}, b: {}}}
`, `x.yaml:4:35: design.rounds: 7 rounds are too few for stop: precision; 8 or more
x.yaml:4:47: design.control: there is no variant "c"; one of a, b
x.yaml:4:58: design.metric: no capacity is searched for; add a section capacity, or another metric
x.yaml:4:76: design.margin: "5 %" is not a share; such as 2% or 0.02`},
		{`settings`, `load: {closed: {connections: 1}}
design: {}
compare: {base: a, variants: {a: {}, b: {}}}
# set rounds=11
# set stop=looks
# set margin=x
# set metric=p 99
`, `x.yaml: set.margin: "x" is not a share; such as 2% or 0.02
x.yaml: set.metric: "p 99" does not fit; such as throughput, response.p99 or response.p99{step=login}
x.yaml:4:1: design.rounds: 11 rounds are too few for stop: looks; 12 or more`},
		{`a variant has the control's name`, `load: {closed: {connections: 1}}
compare: {base: a, variants: {a: {}, b: {}, a.control: {}}}
`, `x.yaml:4:45: compare.variants.a.control: "a.control" is the name of the control; design.control: false, or another name`},
		{`true needs a base`, `load: {closed: {connections: 1}}
sweep: {x: [a, a.control]}
design: {control: true}
`, `x.yaml:5:19: design.control: there is no base that could have a control; name a variant, such as control: "a"`},
		{`a combination has the control's name`, `load: {closed: {connections: 1}}
sweep: {x: [a, a.control]}
design: {control: a}
`, `x.yaml:5:10: design.control: "a.control" is the name of the control; design.control: false, or another name`},
		{`short form without base and control`, `load: {closed: {connections: 1}}
compare: {base: a, variants: {a: {}, b: {}, c: {}}}
design: {control: c}
short: {variants: [b]}
# short
`, `x.yaml:6:19: short.variants: the base "a" is not among them; add it
x.yaml:6:19: short.variants: the control's original "c" is not among them; add it`},
		{`short sweep without the control`, `load: {closed: {connections: 1}}
sweep: {x: [a, b]}
design: {control: a}
short: {sweep: {x: [b]}}
# short
`, `x.yaml:6:16: short.sweep: the control's original "a" is not among the combinations; add its values`},
		{`pilot of some`, `load: {closed: {connections: 1}, warmup: "{{w}}"}
compare: {base: a, variants: {a: {w: auto}, b: {w: 1s}}}
`, `x.yaml:3:42: load.warmup: a pilot finds the warm-up of all variants, or of none; auto in all of them`},
		{`no threshold, no range`, `load: {open: {}}
capacity: {from: 5, to: 5}
`, `x.yaml:4:1: capacity: there is no threshold that a rate could break; such as thresholds: ["response.p99 < 50ms"]
x.yaml:4:25: capacity.to: 5/s is not above from, 5/s; a higher rate, or a lower from`},
		{`search with a rate, bounds, soak`, `load: {open: {rate: 5}}
capacity: {from: 100, to: 101, resolution: 0, trials: 0, tolerate: 100%}
thresholds: ["a < b"]
soak: true
design: {metric: throughput}
`, `x.yaml:3:21: load.open.rate: a search for capacity sets the rate itself; remove it
x.yaml:4:27: capacity.to: the range is narrower than the resolution, 2%; a wider one
x.yaml:4:44: capacity.resolution: 0% is too little; from 0.1% to 50%
x.yaml:4:55: capacity.trials: 0 is too little; from 1 to 100
x.yaml:4:68: capacity.tolerate: 100% is too much; from 0% to 99%
x.yaml:6:7: soak: capacity and soak exclude each other; keep one of them
x.yaml:7:18: design.metric: a search finds nothing but the capacity; remove it`},
		{`narrow range`, `load: {open: {}}
capacity: {from: 100, to: 101}
thresholds: ["a < b"]
`, `x.yaml:4:27: capacity.to: the range is narrower than the resolution, 2%; a wider one`},
		{`search of a closed load`, `load: {closed: {connections: 1}}
capacity: {to: 101/d}
thresholds: ["a < b"]
`, `x.yaml:3:8: load.closed: a search for capacity sets the rate of an open load; open: {}
x.yaml:4:1: capacity.from: is missing; want a rate
x.yaml:4:16: capacity.to: "101/d" is not a rate; such as 5000/s, 300/min or 10/h; a bare number is per second`},
		{`search with stages`, `load: {stages: [{duration: 1, to: 4}]}
capacity: {from: 1, to: 101}
thresholds: ["a < b"]
`, `x.yaml:3:8: load.stages: a search for capacity sets the rate itself; remove them`},
		{`stages with a ramp`, `load: {open: {ramp: 1s}, stages: [{duration: 1, to: 4}]}
`, `x.yaml:3:21: load.open.ramp: ramp and stages exclude each other; make the ramp the first stage`},
		{`search without a load`, `load: {}
capacity: {from: 1, to: 101}
thresholds: []
`, `x.yaml:3:1: load: says neither closed nor open; such as closed: {connections: 100} or open: {rate: 5000/s}
x.yaml:5:13: thresholds: the list is empty; leave it out, or give it an entry`},
		{`form of soak`, `load: {open: {}}
soak: yes
`, `x.yaml:3:8: load.open.rate: is missing; such as 5000/s, or give load.stages
x.yaml:4:7: soak: want true or false, have the text "yes"`},
		{`designs exclude each other`, `name: x
target: {protocol: http, url: http://localhost, timeout: 3s}
load: {closed: {connections: 1}}
soak: true
sweep: {x: [1, 2]}
ladder: {steps: {}}
compare: {base: a, variants: {a: {}, b: {}}}
`, `x.yaml:2:58: target.timeout: is only for program targets; say protocol: program, or for responses use load.timeout
x.yaml:5:8: sweep: compare and sweep exclude each other; keep one of them
x.yaml:6:9: ladder: compare and ladder exclude each other; keep one of them
x.yaml:6:17: ladder.steps: the mapping is empty; leave it out, or give it an entry`},
		{`soak of a sweep`, `load: {closed: {connections: 1}}
soak: true
sweep: {x: [1, 2]}
`, `x.yaml:4:7: soak: sweep and soak exclude each other; keep one of them; a soak can have a compare`},
		{`soak of a ladder`, `load: {closed: {connections: 1}}
soak: true
ladder: {steps: {a: {x: 1}, b: {y: 2}}}
`, `x.yaml:4:7: soak: ladder and soak exclude each other; keep one of them; a soak can have a compare`},
		{`variables of a ladder`, `load: {closed: {connections: "{{y}}"}}
ladder: {steps: {a: {x: 1, port: 2}, b: {y: 2}}}
`, `x.yaml:3:30: load.closed.connections: there is no variable "y" in variant a; set it in the base, from which the others take it
x.yaml:4:28: ladder.steps.a.port: a trial gives {{port}} its value itself; use another name`},
		{`form of leave_one_out`, `load: {closed: {connections: 1}}
ladder: {steps: {a: {}}, leave_one_out: 1}
`, `x.yaml:4:41: ladder.leave_one_out: want true or false, have the number 1`},
		{`one step`, `load: {closed: {connections: 1}}
ladder: {steps: {a: {}}}
`, `x.yaml:4:17: ladder.steps: there is nothing to compare the first step with; add a second step`},
		{`a step has a left-out name`, `load: {closed: {connections: 1}}
ladder: {steps: {a: {}, b: {}, without-b: {}}, leave_one_out: true}
`, `x.yaml:4:32: ladder.steps.without-b: "without-b" is the name of the ladder without b; another name`},
		{`too long to leave out`, `load: {closed: {connections: 1}}
ladder: {steps: {a: {}, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb: {}, c: {}}, leave_one_out: true}
`, `x.yaml:4:25: ladder.steps.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…: too long for a name that begins with "without-"; a shorter name`},
		{`too long for a control`, `load: {closed: {connections: 1}}
ladder: {steps: {abbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb: {}, c: {}}}
`, `x.yaml:4:18: ladder.steps.abbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…: "abbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…" is too long to have a control; design.control: false, or another name`},
		{`short ladder without its first step`, `load: {closed: {connections: 1}}
ladder: {steps: {a: {}, b: {}, c: {}, d: {}}, leave_one_out: true}
short: {variants: [b, without-c, x]}
# short
`, `x.yaml:5:19: short.variants: the first step "a" is not among them; add it
x.yaml:5:34: short.variants[2]: there is no variant "x"; one of a, b, c, d, without-b, without-c`},
		{`short ladder with half of a comparison`, `load: {closed: {connections: 1}}
ladder: {steps: {a: {}, b: {}, c: {}, d: {}}, leave_one_out: true}
short: {variants: [a, without-c]}
# short
`, `x.yaml:5:19: short.variants: "without-c" has a meaning only together with "c"; add it
x.yaml:5:19: short.variants: "without-c" has a meaning only together with "d"; add it`},
		{`short without variants`, `load: {closed: {connections: 1}}
short: {variants: [a, without-c]}
`, `x.yaml:4:19: short.variants: there is no compare or ladder whose variants it could name; remove it`},
		{`program with all that it cannot have`, `name: x
target: {protocol: program, address: "localhost:1", url: http://localhost, pprof: http://localhost, ready: none, ready_timeout: 5s, timeout: 0}
load: {closed: {connections: 1}}
soak: true
capacity: {from: 1, to: 2}
short: {warmup: 1s, window: 1s}
thresholds: [a]
# set window=1s
`, `x.yaml: set.window: a program has none; remove it
x.yaml:2:1: target.start: is missing for a program; the command and its arguments
x.yaml:2:38: target.address: is only for a target that is loaded, not for a program; remove it
x.yaml:2:58: target.url: is only for a target that is loaded, not for a program; remove it
x.yaml:2:83: target.pprof: is only for a target that is loaded, not for a program; remove it
x.yaml:2:101: target.ready: is only for a target that is loaded, not for a program; remove it
x.yaml:2:114: target.ready_timeout: is only for a target that is loaded, not for a program; remove it
x.yaml:2:142: target.timeout: 0s is too little; from 1ms to 24h
x.yaml:3:1: load: is only for a target that is loaded, not for a program; remove it
x.yaml:4:7: soak: capacity and soak exclude each other; keep one of them
x.yaml:4:7: soak: needs a load, and there is none on a program; remove it
x.yaml:5:1: capacity: needs a load, and there is none on a program; remove it
x.yaml:6:9: short.warmup: a program has none; remove it
x.yaml:6:21: short.window: a program has none; remove it`},
		{`program without a metric`, `name: x
target: {protocol: program, start: [x]}
`, `x.yaml:1:1: design.metric: is missing for a program; such as program.switch_seconds, a number that it prints`},
		{`program with another metric`, `name: x
target: {protocol: program, start: [x]}
design: {metric: throughput, pilot: 30s}
`, `x.yaml:3:18: design.metric: "throughput" is not known of a program; such as program.switch_seconds, a number that it prints
x.yaml:3:37: design.pilot: a program has no warm-up; remove it`},
		{`no load`, `name: x
target: {protocol: tcp, address: "localhost:1"}
`, `x.yaml:1:1: load: is missing; want a mapping`},
		{`program in one variant`, `name: x
target: {protocol: "{{p}}", start: [x, "{{port}}"]}
design: {metric: program.x}
compare: {base: a, variants: {a: {p: program}, b: {p: tcp}}}
`, `x.yaml:1:1: load: is missing in variant b; want a mapping`},
		{`program with a warm-up`, `name: x
target: {protocol: program, start: [x]}
design: {metric: program.}
# set warmup=auto
`, `x.yaml: set.warmup: a program has none; remove it
x.yaml:3:18: design.metric: "program." does not fit; such as throughput, response.p99 or response.p99{step=login}`},
		{`few for looks`, `load: {closed: {connections: 1}, window: 1m}
soak: true
design: {rounds: 8, stop: looks}
compare: {base: a, variants: {a: {}, b: {}}}
`, `x.yaml:5:18: design.rounds: 8 rounds are too few for stop: looks; 12 or more`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseDesign(c.src)
			if err == nil {
				t.Fatal("no fault found")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
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
		return plan.Design{Rounds: rounds, Seed: 1, Stop: stop, Margin: 0.02, Metric: metric, Control: control}
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

func TestMargin(t *testing.T) {
	for in, want := range map[string]float64{"margin: 1%": 0.01, "margin: 0.5%": 0.005, "margin: 0.05": 0.05, "margin: '0.05'": 0.05, "margin: 50%": 0.5, "": 0.02} {
		e, err := parseDesign("load: {closed: {connections: 1}}\ndesign: {" + in + "}\n")
		if err != nil {
			t.Error(err)
		} else if e.Design.Margin != want {
			t.Errorf("%s: %v, want %v", in, e.Design.Margin, want)
		}
	}
	e, err := parseDesign("load: {closed: {connections: 1}}\n# set margin=3%\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"margin": "3%"}, e.Set); diff != "" || e.Design.Margin != 0.03 {
		t.Errorf("margin %v, %s", e.Design.Margin, diff)
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
		Rounds: 24, Seed: 1, Stop: plan.StopLooks, Margin: 0.01, Metric: "target.cpu_per_request",
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
	o := Options{CheckMetric: func(metric string, _ []string) error {
		if metric == "response.p42" {
			return errors.New("no such metric")
		}
		return nil
	}}
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
