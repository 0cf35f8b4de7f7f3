package experiment

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFlags(t *testing.T) {
	for protocol, want := range map[string]string{
		HTTP: "method header body arrivals rate",
		TCP:  "payload framing arrivals rate",
		SSE:  "header ramp topics resume gap-event receive-buffer slow slow-rate publish size form topic arrivals rate",
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
		if protocol != TCP && found["payload"] || protocol != SSE && found["topics"] || protocol != HTTP && found["method"] {
			t.Errorf("%s: flags of another protocol: %v", protocol, found)
		}
	}
	if both := Flags(HTTP, TCP); len(both) != len(Flags(HTTP))+2 {
		t.Errorf("%d flags of two protocols", len(both))
	}
}

// What help calls the default is the plan's: to say it changes nothing.
func TestDefaultsOfFlags(t *testing.T) {
	for _, protocol := range []string{HTTP, TCP, SSE} {
		for _, f := range Flags(protocol) {
			if f.Default == "" {
				continue
			}
			want, got := New("x", protocol), New("x", protocol)
			if strings.HasPrefix(f.Field, "load.open.") || strings.HasPrefix(f.Field, "load.publish.") || strings.HasPrefix(f.Field, "load.subscribers.slow.") {
				l := &want.Variants[0].Load // such a section is there when one of its flags is
				switch {
				case strings.HasPrefix(f.Field, "load.open."):
					l.Open = DefaultOpen()
				case strings.HasPrefix(f.Field, "load.publish."):
					l.Publish = &Publish{Size: 100, Form: FormRaw}
				default:
					l.Subscribers.Slow = &Slow{}
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
	for _, f := range Flags(HTTP, TCP, SSE) {
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
		of             func(e *Experiment) any
		want           any
	}{
		{HTTP, "duration", []string{"2"}, func(e *Experiment) any { return e.Variants[0].Load.Window }, 2 * time.Second},
		{HTTP, "requests", []string{"5"}, func(e *Experiment) any { return e.Variants[0].Load.Requests }, uint64(5)},
		{HTTP, "rate", []string{"300/min"}, func(e *Experiment) any { return *e.Variants[0].Load.Open }, Open{Rate: 5, Arrivals: ArrivalsConstant, MaxConnections: 500, MaxWaiting: 65_536}},
		{HTTP, "target-cpus", []string{"0-2"}, func(e *Experiment) any { return e.Variants[0].Target.CPUs }, []int{0, 1, 2}},
		{HTTP, "cpus", []string{"3"}, func(e *Experiment) any { return e.Variants[0].Load.CPUs }, []int{3}},
		{HTTP, "remeasure", []string{"false"}, func(e *Experiment) any { return e.Design.KeepSpoilt }, true},
		{HTTP, "margin", []string{"5%"}, func(e *Experiment) any { return e.Design.Margin }, 0.05},
		{HTTP, "profile", []string{"cpu,heap"}, func(e *Experiment) any { return *e.Profile }, Profile{Kinds: []string{"cpu", "heap"}, By: BySampling}},
		{HTTP, "threshold", []string{"ratio(a, b) < 1", "c"}, func(e *Experiment) any { return e.Thresholds }, []string{"ratio(a, b) < 1", "c"}},
		{HTTP, "ready", []string{"/healthz"}, func(e *Experiment) any { return e.Variants[0].Target.Ready }, Ready{Kind: ReadyHTTP, URL: "/healthz"}},
		{HTTP, "ready", []string{"none"}, func(e *Experiment) any { return e.Variants[0].Target.Ready }, Ready{Kind: ReadyNone}},
		{HTTP, "body", []string{"x: {{port}}"}, func(e *Experiment) any { return e.Variants[0].Load.Request.Body }, "x: {{port}}"},
		{HTTP, "header", []string{"A: b: c", "D:"}, func(e *Experiment) any { return e.Variants[0].Load.Request.Headers }, []Header{{"A", "b: c"}, {"D", ""}}},
		{TCP, "payload", []string{"1KiB"}, func(e *Experiment) any { return e.Variants[0].Load.Payload }, 1024},
		{SSE, "slow", []string{"3"}, func(e *Experiment) any { return *e.Variants[0].Load.Subscribers.Slow }, Slow{Connections: 3}},
		{SSE, "publish", []string{"/p"}, func(e *Experiment) any { return *e.Variants[0].Load.Publish }, Publish{Path: "/p", Size: 100, Form: FormRaw}},
	} {
		e := New("x", c.protocol)
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
		if err := flagNamed(t, c.flag).Fill(New("x", HTTP), c.text); err == nil || err.Error() != c.want {
			t.Errorf("--%s %s: %v, want %s", c.flag, c.text, err, c.want)
		}
	}
}

func TestReadStages(t *testing.T) {
	stages, faults := ReadStages([]string{"30s:1000", "60:300/min", "1m30s:0"})
	want := []Stage{{Duration: 30 * time.Second, To: 1000}, {Duration: time.Minute, From: 1000, To: 5}, {Duration: 90 * time.Second, From: 5}}
	if diff := cmp.Diff(want, stages); diff != "" || faults != nil {
		t.Errorf("%v %s", faults, diff)
	}
	_, faults = ReadStages([]string{"5m", "1s:2", "0s:1e9", "1s:5:6"})
	for i, want := range []string{
		`stage 1: "5m" is not a time and a rate; such as 30s:1000`,
		"stage 3: 0s is too little; from 1ms to 24h", "stage 3: 1000000000/s is too much; from 0/s to 10000000/s",
		`stage 4: "1s:5:6" is not a time and a rate; such as 30s:1000`,
	} {
		if i >= len(faults) || faults[i].Error() != want {
			t.Fatalf("%q, want %s", faults, want)
		}
	}
	if _, faults := ReadStages(make([]string, 1001)); len(faults) != 1 {
		t.Errorf("of too many: %q", faults)
	}
}

// A warm-up that a pilot finds has one.
func TestFillWithPilot(t *testing.T) {
	e := New("x", HTTP)
	if err := flagNamed(t, "warmup").Fill(e, "auto"); err != nil {
		t.Fatal(err)
	}
	if e.Complete(); e.Design.Pilot != 30*time.Second || e.Variants[0].Load.Warmup != 0 {
		t.Errorf("pilot %v, warm-up %v", e.Design.Pilot, e.Variants[0].Load.Warmup)
	}
}

// Whatever text a flag gets: no panic, and what it fills can be judged.
func FuzzFill(f *testing.F) {
	flags := Flags(HTTP, TCP, SSE)
	for i, flag := range flags {
		f.Add(uint8(i), flag.Default)
	}
	f.Add(uint8(0), "-1")
	f.Add(uint8(1), "{{port}}")
	f.Fuzz(func(t *testing.T, at uint8, text string) {
		flag := flags[int(at)%len(flags)]
		for _, protocol := range []string{HTTP, TCP, SSE, Program} {
			e := New("x", protocol)
			if err := flag.Fill(e, text); err != nil && err.Error() == "" {
				t.Error("an error that says nothing")
			}
			e.Complete()
			_ = e.Validate()
		}
	})
}
