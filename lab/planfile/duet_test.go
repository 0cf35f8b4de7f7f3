package planfile

import (
	"strconv"
	"strings"
	"testing"

	"dyno/lab/plan"
)

const duetPlan = `name: two
target: {protocol: tcp, start: [serve, "{{port}}"], cpus: "0"}
load: {closed: {connections: 4}, window: 1s, cpus: "1"}
design: {duet: true}
compare: {base: a, variants: {a: {}, b: {}}}
`

func TestDuet(t *testing.T) {
	e, err := Parse("x.yaml", []byte(duetPlan), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !e.Design.Duet || e.Design.Control != "a.control" {
		t.Errorf("%+v", e.Design)
	}
	e, err = Parse("x.yaml", []byte(strings.Replace(duetPlan, "duet: true", "seed: 2", 1)), Options{Set: map[string]string{"duet": "true"}})
	if err != nil || !e.Design.Duet {
		t.Errorf("by a setting: %v", err)
	}
}

// Pairs are of the variants of a comparison.
func TestPairs(t *testing.T) {
	paired := strings.Replace(duetPlan, "duet: true", "pairs: true", 1)
	if e, err := Parse("x.yaml", []byte(paired), Options{}); err != nil || !e.Design.Pairs {
		t.Errorf("%+v, %v", e, err)
	}
	var many []string
	for n := range plan.MostInPairs + 1 {
		many = append(many, "v"+strconv.Itoa(n)+": {}")
	}
	const two = "compare: {base: a, variants: {a: {}, b: {}}}"
	for _, c := range []struct{ old, with, want string }{
		{two, "", "no variants to compare with each other"},
		{two, "ladder: {steps: {a: {}, b: {}}}", "a ladder compares its steps"},
		{two, "sweep: {n: [1, 2]}", "a sweep follows a figure"},
		{"pairs: true", "pairs: true, duet: true", "in a duet each variant runs at the same time as the base"},
		{two, "compare: {base: v0, variants: {" + strings.Join(many, ", ") + "}}", "21 variants are 210 pairs"},
		{"pairs: true", "pairs: often", "want true or false"},
	} {
		if _, err := Parse("x.yaml", []byte(strings.Replace(paired, c.old, c.with, 1)), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.with, err, c.want)
		}
	}
}

// What has no ratio, or cannot be placed or timed alike, is refused, and the message says
// what would be right.
func TestDuetRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, with, want string }{
		{"one variant", "compare: {base: a, variants: {a: {}, b: {}}}", "", "there is no base"},
		{"no control", "duet: true", "duet: true, control: false", "only a control shows"},
		{"another's control", "duet: true", "duet: true, control: b", "is that of the base"},
		{"ladder", "compare: {base: a, variants: {a: {}, b: {}}}", "ladder: {steps: {a: {}, b: {}}}", "each step of a ladder"},
		{"sweep", "compare: {base: a, variants: {a: {}, b: {}}}", "sweep: {n: [1, 2]}", "a sweep's levels"},
		{"capacity", "closed: {connections: 4}, window: 1s", "open: {max_connections: 4}, window: 1s", "a capacity is no ratio"},
		{"soak", "name: two", "name: two\nsoak: true", "a trend is no ratio"},
		{"profile", "name: two", "name: two\nprofile: {kinds: [cpu]}", "a profile of two targets at once"},
		{"not started", `start: [serve, "{{port}}"], cpus: "0"`, `address: "127.0.0.1:1"`, "must start it"},
		{"requests", "window: 1s", "requests: 100", "end together, by the clock"},
		{"processes", "window: 1s", "window: 1s, processes: 2", "has one process"},
		{"kernel", "name: two", "name: two\nobserve: {kernel: window}", "hooks at system calls"},
		{"CPUs", `cpus: "0"`, `cpus: "{{cpu}}"`, "divided between two variants"},
		{"windows", "window: 1s", `window: "{{window}}"`, "begin and end together"},
	} {
		text := strings.Replace(duetPlan, c.old, c.with, 1)
		switch c.name {
		case "capacity":
			text += "capacity: {from: 10, to: 100}\nthresholds: [\"errors.ratio < 1%\"]\n"
		case "CPUs":
			text = strings.Replace(text, "{a: {}, b: {}}", `{a: {cpu: "0"}, b: {cpu: "1"}}`, 1)
		case "windows":
			text = strings.Replace(text, "{a: {}, b: {}}", `{a: {window: 1s}, b: {window: 2s}}`, 1)
		}
		_, err := Parse("x.yaml", []byte(text), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}
