package trial

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dyno/host/target"
	"dyno/lab/plan"
)

// programs is an experiment with shell scripts, one for each variant.
func programs(rounds int, metric string, scripts ...string) *plan.Experiment {
	e := &plan.Experiment{Name: "programs", Design: plan.Design{Rounds: rounds, Seed: 3, Metric: metric}}
	for i, script := range scripts {
		e.Variants = append(e.Variants, plan.Variant{
			Name: fmt.Sprint("v", i),
			Target: plan.Target{
				Protocol: plan.Program,
				Process:  plan.Process{Start: []string{"sh", "-c", script}, StopTimeout: 10 * time.Second},
				Timeout:  time.Minute,
			},
		})
	}
	return e
}

// service is a service that a program may use.
func service(start ...string) []plan.Service {
	return []plan.Service{{Name: "helper", Process: plan.Process{
		Start: start, Ready: plan.Ready{Kind: plan.ReadyNone}, ReadyTimeout: time.Minute, StopTimeout: 10 * time.Second,
	}}}
}

// A program runs to its end; the last line that it prints holds its figures.
func TestRunPrograms(t *testing.T) {
	e := programs(2, "program.x_seconds",
		`echo '{"x_seconds": 9}'; echo; echo '{"x_seconds": 1.5e-3, "count": 7}'; echo`,
		`echo "the helper is at $SERVICE" >&2; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; printf '{"x_seconds":2}'`)
	e.Variants[1].Services = service("dyno", "null", "127.0.0.1:{{port}}")
	e.Variants[1].Services[0].Ready.Kind = plan.ReadyTCP
	e.Variants[1].Target.Env = map[string]string{"SERVICE": "{{helper.addr}}"}
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 4 || l.planned[3].Of != 4 {
		t.Fatalf("%d trials, incomplete: %v", len(f.Trials), f.Incomplete)
	}
	if p := f.Run.Plan; p.Protocol != "program" || p.Loop != "" || p.Metric != "program.x_seconds" || p.Variants[0].Connections != 0 {
		t.Errorf("plan %+v", p)
	}
	for _, trial := range f.Trials {
		m := trial.Measures
		switch trial.Variant {
		case "v0":
			if len(m) != 2 || m["x_seconds"] != 0.0015 || m["count"] != 7 {
				t.Errorf("trial %d: %v", trial.Number, m)
			}
		case "v1":
			if len(m) != 1 || m["x_seconds"] != 2 {
				t.Errorf("trial %d: %v", trial.Number, m)
			}
			if text := content(t, trial, "target.log"); !strings.HasPrefix(text, "the helper is at 127.0.0.1:") {
				t.Errorf("trial %d: output %q", trial.Number, text)
			}
			if x := trial.Target; x.CPUSeconds == nil || !(*x.CPUSeconds > 0) {
				t.Errorf("trial %d: a loop took no CPU time: %+v", trial.Number, x)
			}
		}
		if x := trial.Target; x.RSSBytes == nil || *x.RSSBytes <= 0 || !(trial.WindowSeconds > 0) || trial.Throughput != nil || !trial.Conservation.OK {
			t.Errorf("trial %d: %+v", trial.Number, trial.Trial)
		}
		if m := trial.Machine; m.LateWakeupShare != nil || m.ForeignShare != nil && *m.ForeignShare < 0 {
			t.Errorf("trial %d: %+v", trial.Number, m)
		}
		series, err := trial.Series()
		if err != nil || series.Column("machine_cpu_seconds") == nil || series.Rows() < 2 {
			t.Errorf("trial %d: series %+v, %v", trial.Number, series, err)
		}
	}
}

func TestProgramFails(t *testing.T) {
	for _, c := range []struct {
		name, script string
		change       func(*plan.Variant)
		want         string
		is           error
	}{
		{"exit status", `echo '{"x": 1}'; echo oops >&2; exit 3`, nil, "exit status 3; last output:", target.ErrExited},
		{"killed", `kill -9 $$`, nil, "signal: killed", target.ErrExited},
		{"no output", ``, nil, "there is none", nil},
		{"no object", `echo '{"x": 1}'; echo done`, nil, `the last line of its output: "done"; want a JSON object`, nil},
		{"not the metric", `echo '{"y": 1}'`, nil, "x is missing, and design.metric asks for it", nil},
		{"time", `sleep 600`, func(v *plan.Variant) { v.Target.Timeout = 50 * time.Millisecond }, "has not ended after 50ms (target.timeout)", nil},
		{"service", `sleep 600`, func(v *plan.Variant) {
			v.Services = service("sh", "-c", "sleep 0.2; exit 5; : {{port}}")
		}, "exit status 5", target.ErrExited},
		{"not found", ``, func(v *plan.Variant) { v.Target.Start = []string{"no-such-program"} }, "searched PATH", target.ErrNotFound},
		{"variable", `: {{nobody.port}}`, nil, "nobody.port", nil},
	} {
		e := programs(1, "program.x", c.script)
		if c.change != nil {
			c.change(&e.Variants[0])
		}
		var l log
		o := options(t, &l)
		err := Run(t.Context(), e, o)
		if err == nil || !strings.Contains(err.Error(), "trial 1, variant v0: ") || !strings.Contains(err.Error(), c.want) ||
			c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
			continue
		}
		if strings.Count(err.Error(), c.want) != 1 {
			t.Errorf("%s: said twice: %v", c.name, err)
		}
		f := open(t, o.Dir)
		if f.Complete() || len(f.Trials) != 1 || f.Trials[0].Complete || f.Trials[0].Error != err.Error() {
			t.Errorf("%s: %d trials, %v", c.name, len(f.Trials), f.Incomplete)
		}
	}
}
