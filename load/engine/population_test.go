package engine_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// An attendance counts a server's connections: how many there are, and were at most. It may hear of a new one before it
// hears that the one in whose place it came was closed.
type attendance struct {
	mu         sync.Mutex // guards all below
	open, most int
	fell       int // the fewest since most were there
}

func (a *attendance) note(_ net.Conn, s http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch s {
	case http.StateNew:
		a.open++
	case http.StateClosed, http.StateHijacked:
		a.open--
	default:
		return
	}
	if a.open > a.most {
		a.most, a.fell = a.open, a.open
	}
	a.fell = min(a.fell, a.open)
}

// Users come with their connections, leave with them, and some return; whether they repeat a request or
// carry out a scenario, one on a connection or several.
func TestPopulation(t *testing.T) {
	const second = time.Second
	population, err := pace.NewPopulation([]pace.Stage{
		{Duration: second / 2, To: 12}, {Duration: second / 2, From: 12, To: 12}, {Duration: second / 2, From: 12}, {Duration: second / 2}, {Duration: time.Hour, From: 4, To: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/"}, {Name: "b", Path: "/"}}})
	for name, c := range map[string]config.Config{
		"connections":         {NewClients: get(t, "h"), Connections: 12},
		"thinking":            {NewClients: get(t, "h"), Connections: 12, Think: pace.Think{Constant: 5 * time.Millisecond}},
		"streams":             {NewMuxes: get2(t, "h", 4), Streams: 4, Connections: 3},
		"users":               {NewClients: composers(t, s, "h"), Connections: 12, Users: &users.Config{Scenario: s}},
		"users over muxes":    {NewMuxes: muxesOf(t, s, "http", 4), Streams: 4, Connections: 3, Users: &users.Config{Scenario: s}},
		"connections to four": {NewClients: composers(t, s, "h"), Connections: 4, Users: &users.Config{Scenario: s, Count: 12}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen := &attendance{}
			wanted := c.Connections
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				<-time.After(time.Millisecond) // users that wait for nothing would keep the machine busy
				seen.mu.Lock()
				defer seen.mu.Unlock()
				if seen.most >= wanted && seen.fell == 0 && seen.open > 0 {
					cancel()
				}
			}))
			server.Config.ConnState = seen.note
			server.Config.Protocols = &http.Protocols{}
			server.Config.Protocols.SetHTTP1(true)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			defer server.Close()
			c := c
			c.Address, c.Population, c.Window, c.Workers = server.Listener.Addr().String(), population, time.Hour, 2
			r := inTime(ctx, t, c)
			if r.Counts.Errors > 0 || seen.most < wanted {
				t.Errorf("counts %+v, %d connections of %d, %v", r.Counts, seen.most, wanted, r.Failures)
			}
		})
	}
}
