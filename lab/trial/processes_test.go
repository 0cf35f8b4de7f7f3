package trial

import (
	"strings"
	"testing"

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
