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

// Pairs contain the variants of a comparison.
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
