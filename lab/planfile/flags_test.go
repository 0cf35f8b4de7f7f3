package planfile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
	"dyno/load/options"
	"dyno/load/scenario"
)

func TestFlags(t *testing.T) {
	for protocol, want := range map[string]string{
		plan.HTTP: "method header body arrivals rate",
		plan.TCP:  "payload framing arrivals rate",
		plan.SSE:  "header ramp topics resume gap-event receive-buffer slow slow-rate publish size form topic arrivals rate",
	} {
		found, shorthands := map[string]bool{}, map[string]bool{}
		for _, f := range Flags(protocol) {
			if found[f.Name] || f.Shorthand != "" && shorthands[f.Shorthand] {
				t.Errorf("%s: there are two flags --%s (-%s)", protocol, f.Name, f.Shorthand)
			}
			if f.Usage == "" || f.Type == "" {
				t.Errorf("%s: --%s says nothing: %+v", protocol, f.Name, f)
			}
			found[f.Name], shorthands[f.Shorthand] = true, true
		}
		for name := range strings.FieldsSeq(want) {
			if !found[name] {
				t.Errorf("%s: there is no --%s", protocol, name)
			}
		}
		if protocol != plan.TCP && found["payload"] || protocol != plan.SSE && found["topics"] || protocol != plan.HTTP && found["method"] {
			t.Errorf("%s: flags of another protocol: %v", protocol, found)
		}
	}
	if both := Flags(plan.HTTP, plan.TCP); len(both) != len(Flags(plan.HTTP))+2 {
		t.Errorf("%d flags of two protocols", len(both))
	}
}

// Help's defaults are the plan's: to say it changes nothing.
func TestDefaultsOfFlags(t *testing.T) {
	for _, protocol := range []string{plan.HTTP, plan.TCP, plan.SSE} {
		for _, f := range Flags(protocol) {
			if f.Default == "" {
				continue
			}
			want, got := plan.New("x", protocol), plan.New("x", protocol)
			if strings.HasPrefix(f.Field, "load.open.") || strings.HasPrefix(f.Field, "load.publish.") || strings.HasPrefix(f.Field, "load.subscribers.slow.") {
				l := &want.Variants[0].Load // such a section is there when one of its flags is
				switch {
				case strings.HasPrefix(f.Field, "load.open."):
					l.Open = plan.DefaultOpen()
				case strings.HasPrefix(f.Field, "load.publish."):
					l.Publish = &plan.Publish{Size: 100, Form: plan.FormRaw}
				default:
					l.Subscribers.Slow = &plan.Slow{}
				}
			}
			if err := f.Fill(got, f.Default); err != nil {
				t.Errorf("--%s %s: %v", f.Name, f.Default, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s --%s %s: %s", protocol, f.Name, f.Default, diff)
			}
		}
	}
}

func flagNamed(t *testing.T, name string) Flag {
	t.Helper()
	for _, f := range Flags(plan.HTTP, plan.TCP, plan.SSE) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no --%s", name)
	return Flag{}
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		protocol, flag string
		texts          []string
		of             func(e *plan.Experiment) any
		want           any
	}{
		{plan.HTTP, "duration", []string{"2"}, func(e *plan.Experiment) any { return e.Variants[0].Load.Window }, 2 * time.Second},
		{plan.HTTP, "requests", []string{"5"}, func(e *plan.Experiment) any { return e.Variants[0].Load.Requests }, uint64(5)},
		{plan.HTTP, "rate", []string{"300/min"}, func(e *plan.Experiment) any { return *e.Variants[0].Load.Open }, plan.Open{Rate: 5, Arrivals: plan.ArrivalsConstant, Waiting: options.Waiting{MaxWaiting: 65_536}}},
		{plan.HTTP, "target-cpus", []string{"0-2"}, func(e *plan.Experiment) any { return e.Variants[0].Target.CPUs }, []int{0, 1, 2}},
		{plan.HTTP, "cpus", []string{"3"}, func(e *plan.Experiment) any { return e.Variants[0].Load.CPUs }, []int{3}},
		{plan.HTTP, "remeasure", []string{"false"}, func(e *plan.Experiment) any { return e.Design.KeepDisturbed }, true},
		{plan.HTTP, "margin", []string{"5%"}, func(e *plan.Experiment) any { return e.Design.Margin }, 0.05},
		{plan.HTTP, "profile", []string{"cpu,heap"}, func(e *plan.Experiment) any { return *e.Profile }, plan.Profile{Kinds: []string{"cpu", "heap"}, By: plan.BySampling}},
		{plan.HTTP, "threshold", []string{"ratio(a, b) < 1", "c"}, func(e *plan.Experiment) any { return e.Conditions() }, []string{"ratio(a, b) < 1", "c"}},
		{plan.HTTP, "ready", []string{"/healthz"}, func(e *plan.Experiment) any { return e.Variants[0].Target.Ready }, plan.Ready{Kind: plan.ReadyHTTP, URL: "/healthz"}},
		{plan.HTTP, "ready", []string{"none"}, func(e *plan.Experiment) any { return e.Variants[0].Target.Ready }, plan.Ready{Kind: plan.ReadyNone}},
		{plan.HTTP, "body", []string{"x: {{port}}"}, func(e *plan.Experiment) any { return e.Variants[0].Load.Request.Body }, "x: {{port}}"},
		{plan.HTTP, "header", []string{"A: b: c", "D:"}, func(e *plan.Experiment) any { return e.Variants[0].Load.Request.Headers }, []scenario.Header{{Name: "A", Value: "b: c"}, {Name: "D"}}},
		{plan.TCP, "payload", []string{"1KiB"}, func(e *plan.Experiment) any { return e.Variants[0].Load.Payload }, 1024},
		{plan.SSE, "slow", []string{"3"}, func(e *plan.Experiment) any { return *e.Variants[0].Load.Subscribers.Slow }, plan.Slow{Connections: 3}},
		{plan.SSE, "publish", []string{"/p"}, func(e *plan.Experiment) any { return *e.Variants[0].Load.Publish }, plan.Publish{Path: "/p", Size: 100, Form: plan.FormRaw}},
	} {
		e := plan.New("x", c.protocol)
		if err := flagNamed(t, c.flag).Fill(e, c.texts...); err != nil {
			t.Errorf("--%s %q: %v", c.flag, c.texts, err)
		} else if diff := cmp.Diff(c.want, c.of(e)); diff != "" {
			t.Errorf("--%s %q: %s", c.flag, c.texts, diff)
		}
	}
	for _, c := range []struct{ flag, text, want string }{
		{"duration", "soon", `"soon" is not a duration; such as 5s or 250ms; a bare number is seconds`},
		{"warmup", "soon", `"soon" is not a duration; such as 5s or 250ms; a bare number is seconds; or auto`},
		{"cpus", "3-1", "the range 3-1 runs backwards; such as 0 or 0-3,5"},
		{"header", "nothing", `"nothing" has no colon; want 'Name: value'`},
		{"ready", "maybe", `"maybe" is not possible; tcp, none, a URL, a path such as /healthz, or {line: "listening on"}`},
	} {
		if err := flagNamed(t, c.flag).Fill(plan.New("x", plan.HTTP), c.text); err == nil || err.Error() != c.want {
			t.Errorf("--%s %s: %v, want %s", c.flag, c.text, err, c.want)
		}
	}
}

func TestReadStages(t *testing.T) {
	stages, faults := ReadStages([]string{"30s:1000", "60:300/min", "1m30s:0"}, "rate")
	want := []plan.Stage{{Duration: 30 * time.Second, To: 1000}, {Duration: time.Minute, From: 1000, To: 5}, {Duration: 90 * time.Second, From: 5}}
	if diff := cmp.Diff(want, stages); diff != "" || faults != nil {
		t.Errorf("%v %s", faults, diff)
	}
	_, faults = ReadStages([]string{"5m", "1s:2", "0s:1e9", "1s:5:6"}, "rate")
	for i, want := range []string{
		`stage 1: "5m" is not a time and a rate; such as 30s:1000`,
		"stage 3: 0s is too little; from 1ms to 24h", "stage 3: 1000000000/s is too much; from 0/s to 10000000/s",
		`stage 4: "1s:5:6" is not a time and a rate; such as 30s:1000`,
	} {
		if i >= len(faults) || faults[i].Error() != want {
			t.Fatalf("%q, want %s", faults, want)
		}
	}
	if stages, faults = ReadStages([]string{"30s:100", "1m:0"}, "users"); len(faults) > 0 || stages[1] != (plan.Stage{Duration: time.Minute, From: 100}) {
		t.Errorf("of users: %v %q", stages, faults)
	}
	if _, faults = ReadStages([]string{"1s:2.5", "1s:5/s", "5"}, "users"); len(faults) != 3 {
		t.Errorf("of no users: %q", faults)
	}
	if _, faults := ReadStages(make([]string, 1001), "users"); len(faults) != 1 {
		t.Errorf("of too many: %q", faults)
	}
}
