package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/results/rundir"
)

// builds is an experiment whose variants are built by a script of the test.
func builds(t *testing.T, design string) (e *plan.Experiment, ran func() []string) {
	t.Helper()
	dir := t.TempDir()
	script := `echo "$1" >> ran
case $1 in
rust) echo trying; echo "there is no cargo" >&2; exit 3 ;;
silent) exit 3 ;;
broken) echo "syntax error" >&2; exit 1 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "build.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	text := `name: builds
target: {protocol: program, build: [sh, build.sh, "{{language}}"], start: [sh, -c, "echo '{\"n\": 1}'"], dir: ` + dir + `}
` + design
	return parse(t, text), func() []string {
		b, err := os.ReadFile(filepath.Join(dir, "ran"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
}

// A variant that cannot be built here is left out, by name and with the reason; the others
// are measured.
func TestBuildLeavesOut(t *testing.T) {
	e, ran := builds(t, `design: {rounds: 2, metric: program.n}
compare:
  base: go
  variants: {go: {language: go}, java: {language: java}, rust: {language: rust}, none: {language: silent}}
`)
	l := &log{}
	o := options(t, l)
	if err := Run(context.Background(), e, o); err != nil {
		t.Fatal(err)
	}
	// Once each: the control is built with what it is another one of.
	if got := ran(); !slices.Equal(got, []string{"go", "java", "rust", "silent"}) {
		t.Errorf("built %v", got)
	}
	f := open(t, o.Dir)
	want := []rundir.LeftOut{{Variant: "rust", Why: "there is no cargo"}, {Variant: "none", Why: "its build does not say why"}}
	if !slices.Equal(f.Run.Plan.LeftOut, want) {
		t.Errorf("left out %+v", f.Run.Plan.LeftOut)
	}
	var names []string
	for _, v := range f.Run.Plan.Variants {
		names = append(names, v.Name)
	}
	if slices.Contains(names, "rust") || slices.Contains(names, "none") || !slices.Contains(names, "java") {
		t.Errorf("variants %v", names)
	}
	for _, tr := range f.Trials {
		if tr.Variant == "rust" || !tr.Complete {
			t.Errorf("trial %d of %s, complete: %t", tr.Number, tr.Variant, tr.Complete)
		}
	}
	if unavailable := fmt.Sprint(f.Run.Environment.Unavailable); !strings.Contains(unavailable, "variant rust is left out, because it cannot be built here: there is no cargo") {
		t.Errorf("unavailable: %s", unavailable)
	}
}

// A missing requirement is an error before anything is measured.
func TestBuildFails(t *testing.T) {
	for name, c := range map[string]struct{ design, want string }{
		"base": {`design: {rounds: 1, metric: program.n, control: false}
compare: {base: rust, variants: {rust: {language: rust}, go: {language: go}}}
`, "variant rust cannot be built here, and it is what the others are compared with: there is no cargo"},
		"step": {`design: {rounds: 1, metric: program.n}
ladder: {steps: {one: {language: go}, two: {language: rust}}}
`, "variant two cannot be built here, and the ladder needs it as a step: there is no cargo"},
		"failure": {`design: {rounds: 1, metric: program.n}
compare: {base: go, variants: {go: {language: go}, bad: {language: broken}}}
`, "variant bad: build: target sh: exited: exit status 1; last output:\n    syntax error"},
		"all": {`design: {rounds: 1, metric: program.n}
sweep: {language: [rust]}
`, "none of the variants can be built here; rust: there is no cargo"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := builds(t, c.design)
			o := options(t, &log{})
			err := Run(context.Background(), e, o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if _, err := os.Stat(o.Dir); !os.IsNotExist(err) {
				t.Error("a run folder was made")
			}
		})
	}
}
