package tlslayer

import (
	"crypto/tls"
	"testing"
)

func TestTickets(t *testing.T) {
	var cache tickets
	states := make([]*tls.ClientSessionState, maxTickets+5)
	if s, ok := cache.Get(""); s != nil || ok {
		t.Fatal("a ticket of no one")
	}
	for i := range states {
		states[i] = new(tls.ClientSessionState)
		cache.Put("key", states[i])
	}
	for i := len(states) - 1; i >= 5; i-- {
		if s, ok := cache.Get("another key"); s != states[i] || !ok {
			t.Fatalf("ticket %d is not the next", i)
		}
	}
	for range 3 {
		if s, _ := cache.Get(""); s != states[5] {
			t.Fatal("the last ticket is not kept")
		}
	}
	cache.Put("", states[7])
	if s, _ := cache.Get(""); s != states[7] {
		t.Error("the newest is not the first")
	}
	cache.Put("", nil)
	if s, ok := cache.Get(""); s != nil || ok {
		t.Error("a ticket is left")
	}
}

func TestResumption(t *testing.T) {
	for _, c := range []struct {
		version        string
		client, server bool // use tickets
		resumed        uint64
	}{
		{"1.2", true, true, 4},
		{"1.3", true, true, 4},
		{"1.2", false, true, 0},
		{"1.3", false, true, 0},
		{"1.2", true, false, 0},
		{"1.3", true, false, 0},
	} {
		client, server := clientConfig(c.version), serverConfig()
		client.Tickets, server.SessionTicketsDisabled = c.client, !c.server
		x := newContext(t, client)
		var full, short int64
		for i := range 5 {
			l := established(t, x, server)
			l.exchange(t, []byte("q"), []byte("r"))
			info := l.client.Info()
			if want := i > 0 && c.resumed > 0; info.Resumed != want {
				t.Errorf("%+v: connection %d resumed: %v", c, i, info.Resumed)
			}
			if i == 0 {
				full = info.Received
			}
			short = info.Received
			l.client.Reset()
			l.server.Reset()
		}
		if c.resumed > 0 && short >= full {
			t.Errorf("%+v: %d bytes received with a session, %d without", c, short, full)
		}
		if got, want := x.Stats(), (Stats{Handshakes: 5, Resumed: c.resumed}); got != want {
			t.Errorf("%+v: %+v, want %+v", c, got, want)
		}
	}
}

// A server that has forgotten its keys makes new sessions, and nothing fails.
func TestForgottenSessions(t *testing.T) {
	for _, version := range []string{"1.2", "1.3"} {
		client := clientConfig(version)
		client.Tickets = true
		x := newContext(t, client)
		for i := range 4 {
			server := serverConfig() // with keys of its own
			server.SessionTicketsDisabled = false
			l := established(t, x, server)
			l.exchange(t, []byte("q"), []byte("r"))
			if l.client.Info().Resumed {
				t.Errorf("%s: connection %d resumed a session of another server", version, i)
			}
		}
	}
}
