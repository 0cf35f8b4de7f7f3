package trial

import (
	"testing"

	"dyno/host/target"
	"dyno/lab/plan"
)

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		ready   plan.Ready
		address string
		want    target.Probe
	}{
		{plan.Ready{Kind: plan.ReadyNone}, "127.0.0.1:80", target.Probe{}},
		{plan.Ready{Kind: plan.ReadyTCP}, "127.0.0.1:80", target.Probe{TCP: "127.0.0.1:80"}},
		{plan.Ready{Kind: plan.ReadyTCP}, "[::1]:80", target.Probe{TCP: "[::1]:80"}},
		{plan.Ready{Kind: plan.ReadyTCP}, "unix:/run/x", target.Probe{Unix: "/run/x"}},
		{plan.Ready{Kind: plan.ReadyHTTP, URL: "/ready?p=81"}, "[::1]:80", target.Probe{HTTP: "http://[::1]:80/ready?p=81"}},
		{plan.Ready{Kind: plan.ReadyHTTP, URL: "http://127.0.0.1:81/x"}, "127.0.0.1:80", target.Probe{HTTP: "http://127.0.0.1:81/x"}},
		{plan.Ready{Kind: plan.ReadyLine, Line: "on 81$"}, "127.0.0.1:80", target.Probe{Output: "on 81$"}},
	} {
		if got := probe(c.ready, c.address); got != c.want {
			t.Errorf("%+v at %s: %+v, want %+v", c.ready, c.address, got, c.want)
		}
	}
}
