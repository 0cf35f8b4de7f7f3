package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// A step's own time for the response ends its requests, and no others.
func TestUsersStepTimeouts(t *testing.T) {
	const each = 4
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, "ok")
	}
	s := compile(t, scenario.Spec{Steps: []scenario.Step{
		{Name: "good", Path: "/", Timeout: 20 * time.Second},
		{Name: "short", Path: "/slow", Timeout: 30 * time.Millisecond},
		{Name: "shorter", Path: "/slow", Timeout: 10 * time.Millisecond},
		{Name: "all", Path: "/slow"},
		{Name: "longer than all", Path: "/slow", Timeout: time.Hour},
	}})
	for _, two := range []bool{false, true} {
		c := engine.Config{Connections: 2, Requests: 5 * each, Timeout: 150 * time.Millisecond, Users: &engine.Users{Scenario: s, Count: 4}}
		if two {
			c.Address, c.NewMuxes, c.Streams = serve2(t, http.HTTP2Config{}, answer), muxesOf(t, s, "http", 4), 4
		} else {
			c.Address, c.NewClients, c.Connections = plain(t, answer), composers(t, s, "h"), 4
		}
		r := carryOut(t, c)
		for name, least := range map[string]time.Duration{"short": 30, "shorter": 10, "all": 150, "longer than all": 150} {
			n := step(t, r, name)
			low, high := least*time.Millisecond, least*time.Millisecond+100*time.Millisecond
			if n.Counts.ByKind[wire.Timeout] != n.Counts.Sent || n.Counts.Sent == 0 {
				t.Errorf("HTTP/2 %v, %s: %+v", two, name, n.Counts)
			}
			for text := range r.Failures {
				if strings.HasSuffix(text, "nothing else on the connection") { // on a busy machine, and it was given up with all its exchanges
					low = 0
				}
			}
			if got := time.Duration(n.Service.Min()); got < low-low/50 || got > high {
				t.Errorf("HTTP/2 %v, %s: given up after %v, want %v to %v", two, name, got, low, high)
			}
		}
		if n := step(t, r, "good").Counts; n.OK != n.Sent || n.OK == 0 {
			t.Errorf("HTTP/2 %v: %+v", two, n)
		}
	}
}
