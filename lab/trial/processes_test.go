package trial

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/host/target"
	"dyno/lab/experiment"
)

func TestProbe(t *testing.T) {
	fill := func(s string) string { return strings.ReplaceAll(s, "{{port}}", "81") }
	for _, c := range []struct {
		ready   experiment.Ready
		address string
		want    target.Probe
	}{
		{experiment.Ready{Kind: experiment.ReadyNone}, "127.0.0.1:80", target.Probe{}},
		{experiment.Ready{Kind: experiment.ReadyTCP}, "127.0.0.1:80", target.Probe{TCP: "127.0.0.1:80"}},
		{experiment.Ready{Kind: experiment.ReadyTCP}, "[::1]:80", target.Probe{TCP: "[::1]:80"}},
		{experiment.Ready{Kind: experiment.ReadyTCP}, "unix:/run/x", target.Probe{Unix: "/run/x"}},
		{experiment.Ready{Kind: experiment.ReadyHTTP, URL: "/ready?p={{port}}"}, "[::1]:80", target.Probe{HTTP: "http://[::1]:80/ready?p=81"}},
		{experiment.Ready{Kind: experiment.ReadyHTTP, URL: "http://127.0.0.1:{{port}}/x"}, "127.0.0.1:80", target.Probe{HTTP: "http://127.0.0.1:81/x"}},
		{experiment.Ready{Kind: experiment.ReadyLine, Line: "on {{port}}$"}, "127.0.0.1:80", target.Probe{Output: "on 81$"}},
	} {
		if got := probe(c.ready, c.address, fill); got != c.want {
			t.Errorf("%+v at %s: %+v, want %+v", c.ready, c.address, got, c.want)
		}
	}
}

func TestExpander(t *testing.T) {
	x := expander{vars: map[string]string{"port": "80"}}
	if got := x.expand("a{{port}}"); got != "a80" || x.err != nil {
		t.Fatalf("%q, %v", got, x.err)
	}
	x.expand("{{first}}")
	x.expand("{{second}}")
	x.expand("{{port}}")
	if x.err == nil || !strings.Contains(x.err.Error(), "first") || strings.Contains(x.err.Error(), "second") {
		t.Errorf("%v, want the first error", x.err)
	}
}

func TestFill(t *testing.T) {
	v := experiment.DefaultVariant(experiment.HTTP)
	v.Target.Address, v.Target.URL, v.Target.Pprof = "127.0.0.1:{{port}}", "http://127.0.0.1:{{port}}/", "http://127.0.0.1:{{admin}}/p"
	v.Load.Request.Path, v.Load.Request.Body = "/{{echo.port}}", "{{port}}"
	v.Load.Request.Headers = []experiment.Header{{Name: "X", Value: "{{echo.addr}}"}}
	v.Observe = experiment.Observe{
		Runtime: "http://127.0.0.1:{{admin}}/metrics", Endpoints: []experiment.Endpoint{{URL: "http://{{echo.addr}}/"}},
		Commands: []experiment.Command{{Run: []string{"ask", "{{port}}"}}},
	}
	original := *v.Load.Request
	filled := v
	err := fill(&filled, map[string]string{"port": "80", "admin": "81", "echo.port": "82", "echo.addr": "127.0.0.1:82"})
	if err != nil {
		t.Fatal(err)
	}
	want := experiment.Request{Method: "GET", Path: "/82", Body: "80", Headers: []experiment.Header{{Name: "X", Value: "127.0.0.1:82"}}}
	if diff := cmp.Diff(want, *filled.Load.Request); diff != "" {
		t.Error(diff)
	}
	if filled.Target.Address != "127.0.0.1:80" || filled.Target.URL != "http://127.0.0.1:80/" || filled.Target.Pprof != "http://127.0.0.1:81/p" {
		t.Errorf("%+v", filled.Target)
	}
	if o := filled.Observe; o.Runtime != "http://127.0.0.1:81/metrics" || o.Endpoints[0].URL != "http://127.0.0.1:82/" || o.Commands[0].Run[1] != "80" {
		t.Errorf("%+v", o)
	}
	if o := v.Observe; o.Endpoints[0].URL != "http://{{echo.addr}}/" || o.Commands[0].Run[1] != "{{port}}" {
		t.Errorf("the plan was changed: %+v", o)
	}
	// The plan is used again in the next round, with other ports.
	if v.Load.Request.Path != original.Path || v.Load.Request.Headers[0].Value != "{{echo.addr}}" {
		t.Errorf("the plan was changed: %+v", v.Load.Request)
	}
	if err := fill(&v, nil); err == nil || !strings.Contains(err.Error(), "variant default") {
		t.Errorf("%v, want an error that names the variant", err)
	}
}
