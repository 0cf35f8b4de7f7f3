package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/fields"
	"dyno/load/pace"
	"dyno/load/scenario"
)

func TestAddControl(t *testing.T) {
	e := quick()
	other := e.Variants[0]
	other.Name = "other"
	e.Variants = append(e.Variants, other)
	if err := e.AddControl("default"); err != nil {
		t.Fatal(err)
	}
	if v := e.Variants; len(v) != 3 || v[1].Name != "default.control" || v[2].Name != "other" || e.Design.Control != "default.control" || v[1].AliasOf != "default" {
		t.Errorf("%+v, control %s", v, e.Design.Control)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name   string
		change func(e *Experiment)
		of     string
		want   string
	}{
		{"a second", func(*Experiment) {}, "other", `there is a control already, "default.control"`},
		{"of none", func(e *Experiment) { e.Design.Control = "" }, "none", `there is no variant "none"`},
		{"name taken", func(e *Experiment) { e.Design.Control = "" }, "default", `"default.control" is the name of the control`},
		{"long name", func(e *Experiment) {
			e.Design.Control, e.Variants[0].Name = "", strings.Repeat("x", 93)
		}, strings.Repeat("x", 93), `"` + strings.Repeat("x", 60) + `…" is too long to have a control`},
	} {
		changed := *e
		changed.Variants = append([]Variant(nil), e.Variants...)
		c.change(&changed)
		if err := changed.AddControl(c.of); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Faults that code can cause, but reading cannot.
func TestValidateDesign(t *testing.T) {
	build := func() *Experiment {
		e := quick()
		e.Variants[0].Name, e.Base, e.Design.Rounds = "a", "a", 12
		b := e.Variants[0]
		b.Name = "b"
		e.Variants = append(e.Variants, b)
		e.Ladder = &Ladder{Steps: []string{"a", "b"}}
		if err := e.AddControl("a"); err != nil {
			t.Fatal(err)
		}
		return e
	}
	if err := build().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(e *Experiment)
		want   string
	}{
		{"not completed", func(e *Experiment) { e.Design = Design{Rounds: 1, Control: e.Design.Control} }, "design.stop: "},
		{"control differs", func(e *Experiment) { e.Variants[1].Load.Window++ }, `design.control: "a.control" differs from its original`},
		{"control of none", func(e *Experiment) { e.Variants[1].AliasOf = "c" }, `design.control: there is no variant "c"`},
		{"no alias", func(e *Experiment) { e.Variants[1].AliasOf = "" }, `design.control: no variant is the control "a.control"`},
		{"other alias", func(e *Experiment) { e.Variants[2].AliasOf = "a" }, `design.control: "b" is an alias of "a" that is not the control`},
		{"pilot and warm-up", func(e *Experiment) { e.Design.Pilot = 10 * time.Second }, "load.warmup: 2s, and a pilot that finds it"},
		{"pilot", func(e *Experiment) { e.Design.Pilot = time.Second }, "design.pilot: 1s is too little"},
		{"another first step", func(e *Experiment) { e.Ladder.Steps = []string{"b", "a"} }, "ladder.steps: the first step is not the base"},
		{"no such step", func(e *Experiment) { e.Ladder.Steps[1] = "c" }, `ladder.steps: there is no variant "c"`},
		{"step twice", func(e *Experiment) { e.Ladder.Steps = append(e.Ladder.Steps, "b") }, `ladder.steps: "b" is there twice`},
		{"no such variant without", func(e *Experiment) { e.Ladder.WithoutStep = map[string]string{"c": "b"} }, `ladder.leave_one_out: there is no variant "c"`},
		{"no such step to do without", func(e *Experiment) { e.Ladder.WithoutStep = map[string]string{"b": "c"} }, `ladder.leave_one_out: there is no step "c"`},
		{"a program with a load", func(e *Experiment) {
			v := DefaultVariant(Program)
			v.Target.Start, v.Load = []string{"x"}, e.Variants[0].Load
			e.Variants, e.Ladder, e.Base, e.Design.Control, e.Design.Metric = []Variant{v}, nil, "", "", "program.x"
		}, "load: is only for a target that is loaded, not for a program"},
	} {
		e := build()
		c.change(e)
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s…", c.name, err, c.want)
		}
	}
}

func quick() *Experiment {
	v := DefaultVariant(HTTP)
	v.Target.URL = "http://127.0.0.1:8080/x"
	v.Target.Complete()
	v.Load.Closed = &Closed{Connections: 10}
	e := &Experiment{Name: "http", Design: Design{Rounds: 1, Seed: 1}, Variants: []Variant{v}}
	e.Complete()
	return e
}

func TestValidate(t *testing.T) {
	e := quick()
	e.Variants[0].Target.TLS = &TLS{Insecure: true}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(e *Experiment)
		want   string
	}{
		{"no variant", func(e *Experiment) { e.Variants = nil }, "there is no variant"},
		{"name", func(e *Experiment) { e.Name = "a/b" }, "name: "},
		{"rounds", func(e *Experiment) { e.Design.Rounds = 1001 }, "design.rounds: "},
		{"base", func(e *Experiment) { e.Base = "x" }, "compare.base: "},
		{"twice", func(e *Experiment) { e.Variants = append(e.Variants, e.Variants[0]) }, "variants: "},
		{"nothing to load", func(e *Experiment) { e.Variants[0].Target.URL, e.Variants[0].Target.Address = "", "" }, "target: "},
		{"ftp", func(e *Experiment) { e.Variants[0].Target.URL = "ftp://x/" }, "target.url: "},
		{"tls", func(e *Experiment) { e.Variants[0].Target.TLS = &TLS{} }, "target.tls: "},
		{"key", func(e *Experiment) {
			e.Variants[0].Target.URL, e.Variants[0].Target.TLS = "https://x/", &TLS{Certificate: "x"}
		}, "target.tls.key: "},
		{"version", func(e *Experiment) {
			e.Variants[0].Target.URL, e.Variants[0].Target.TLS = "https://x/", &TLS{MinVersion: "1.1"}
		}, "target.tls.min_version: "},
		{"streams", func(e *Experiment) { e.Variants[0].Load.HTTP2.Streams = 2 }, "load.http2.streams: "},
		{"window of HTTP/2", func(e *Experiment) { e.Variants[0].Load.HTTP2.ConnectionWindow = 1 }, "load.http2.connection_window: "},
		{"connections", func(e *Experiment) { e.Variants[0].Load.Closed.Connections = 1_000_001 }, "load.closed.connections: "},
		{"workers", func(e *Experiment) { e.Variants[0].Load.Workers = 11 }, "load.workers: "},
		{"both loops", func(e *Experiment) { e.Variants[0].Load.Open = DefaultOpen() }, "load.open: "},
		{"think", func(e *Experiment) {
			e.Variants[0].Load.Closed.Think = pace.Think{Uniform: &pace.Span{From: 2, To: 1}}
		}, "load.closed.think.uniform.to: "},
		{"two think times", func(e *Experiment) {
			e.Variants[0].Load.Closed.Think = pace.Think{Constant: 1, Uniform: &pace.Span{From: 1, To: 2}}
		}, "load.closed.think: more than one distribution"},
		{"no loop", func(e *Experiment) { e.Variants[0].Load.Closed = nil }, "load: "},
		{"no rate", func(e *Experiment) { e.Variants[0].Load.Closed, e.Variants[0].Load.Open = nil, DefaultOpen() }, "load.open.rate: "},
		{"payload", func(e *Experiment) { e.Variants[0].Load.Payload = 1 }, "load.payload: "},
		{"window", func(e *Experiment) { e.Variants[0].Load.Window = 0 }, "load.window: "},
		{"ready", func(e *Experiment) { e.Variants[0].Target.Ready = Ready{Kind: ReadyLine, Line: "("} }, "target.ready: "},
		{"cpu", func(e *Experiment) { e.Variants[0].Load.CPUs = []int{-1} }, "load.cpus: "},
		{"header", func(e *Experiment) {
			e.Variants[0].Load.Request.Headers = []scenario.Header{{Name: "X", Value: "a\r\nY: b"}}
		}, "load.request.headers.X: "},
		{"service", func(e *Experiment) {
			e.Variants[0].Services = []Service{{Name: "s", Process: DefaultVariant(TCP).Target.Process}}
		}, "services.s.start: "},
	} {
		e := quick()
		c.change(e)
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s…", c.name, err, c.want)
		}
	}
}

// The load of flags is sent as it was typed. The templates of its scenario stay.
func TestPlainLoad(t *testing.T) {
	const text = `{{name}} {{#if x}} {{port}} {{ "{{" }} {{`
	v := DefaultVariant(HTTP)
	v.Plain, v.Target.URL, v.Target.Address = true, Quote("http://127.0.0.1:1/{{x}}"), "127.0.0.1:1"
	v.Load.Request.Body, v.Load.Request.Headers = text, []scenario.Header{{Name: "X", Value: text}, {Name: "Port", Value: "{{port}}"}}
	v.Load.Closed = &Closed{Connections: 1}
	e := New("x", HTTP)
	e.Variants, e.Design.Rounds = []Variant{v}, 1
	e.Complete()
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	if err := v.Fill(map[string]string{"port": "80"}); err != nil || v.Load.Request.Body != text || v.Load.Request.Headers[0].Value != text || v.Load.Request.Headers[1].Value != "{{port}}" || v.Target.URL != "http://127.0.0.1:1/{{x}}" {
		t.Errorf("%v, %+v, %s", err, v.Load.Request, v.Target.URL)
	}
	v.Target.URL, v.Load.Scenario = "http://127.0.0.1:1/", &scenario.Spec{Steps: []scenario.Step{{Body: "{{port}}{{name}}"}}}
	if err := v.Fill(map[string]string{"port": "80"}); err != nil || v.Load.Scenario.Steps[0].Body != "80{{name}}" {
		t.Errorf("%v, %+v", err, v.Load.Scenario)
	}

	ask := DefaultVariant(LLM)
	ask.Plain, ask.Target.URL, ask.Target.Address = true, "http://127.0.0.1:1/v1", "127.0.0.1:1"
	ask.Load.Ask.Model, ask.Load.Ask.Prompt, ask.Load.Ask.Options = "m", text, `{"chat_template":"{{ messages }}"}`
	ask.Load.Closed = &Closed{Connections: 1}
	e = New("x", LLM)
	e.Variants, e.Design.Rounds = []Variant{ask}, 1
	e.Complete()
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	for options, valid := range map[string]bool{`{"n": {{port}}}`: false, `{"n":"{{port}}"}`: true} {
		e.Variants[0].Load.Ask.Options = options
		if err := e.Validate(); (err == nil) != valid {
			t.Errorf("%s: %v", options, err)
		}
	}
}

func TestValidatePlacement(t *testing.T) {
	e := quick()
	e.Sysctl = map[string]string{"../x": "1", "a.b": "1\n2"}
	p := &e.Variants[0].Target.Process
	p.Start, p.Cgroup, p.GOMAXPROCS, p.Nice, p.NUMA = []string{"x"}, &Cgroup{-1, -1, -1}, -1, new(int), new(int)
	*p.Nice, *p.NUMA = 20, -1
	expectFaults(t, e.Validate(), "sysctl.../x", "sysctl.a.b", "target.cgroup.cpu_max", "target.cgroup.cpu_weight", "target.cgroup.memory_max",
		"target.gomaxprocs", "target.nice", "target.numa")
}

// expectFaults fails the test unless these fields, and no others, are at fault.
func expectFaults(t *testing.T, err error, paths ...string) {
	t.Helper()
	var faults *fields.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%v; want *fields.Faults", err)
	}
	var got []string
	for _, f := range faults.Faults {
		got = append(got, f.Field)
	}
	if diff := cmp.Diff(paths, got); diff != "" {
		t.Error(diff)
	}
}
