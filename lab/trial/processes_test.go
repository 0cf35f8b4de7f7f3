package trial

import (
	"testing"

	"dyno/host/target"
	"dyno/lab/experiment"
)

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		ready   experiment.Ready
		address string
		want    target.Probe
	}{
		{experiment.Ready{Kind: experiment.ReadyNone}, "127.0.0.1:80", target.Probe{}},
		{experiment.Ready{Kind: experiment.ReadyTCP}, "127.0.0.1:80", target.Probe{TCP: "127.0.0.1:80"}},
		{experiment.Ready{Kind: experiment.ReadyTCP}, "[::1]:80", target.Probe{TCP: "[::1]:80"}},
		{experiment.Ready{Kind: experiment.ReadyTCP}, "unix:/run/x", target.Probe{Unix: "/run/x"}},
		{experiment.Ready{Kind: experiment.ReadyHTTP, URL: "/ready?p=81"}, "[::1]:80", target.Probe{HTTP: "http://[::1]:80/ready?p=81"}},
		{experiment.Ready{Kind: experiment.ReadyHTTP, URL: "http://127.0.0.1:81/x"}, "127.0.0.1:80", target.Probe{HTTP: "http://127.0.0.1:81/x"}},
		{experiment.Ready{Kind: experiment.ReadyLine, Line: "on 81$"}, "127.0.0.1:80", target.Probe{Output: "on 81$"}},
	} {
		if got := probe(c.ready, c.address); got != c.want {
			t.Errorf("%+v at %s: %+v, want %+v", c.ready, c.address, got, c.want)
		}
	}
}
