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
		resumed        bool
	}{
		{"1.2", true, true, true},
		{"1.3", true, true, true},
		{"1.2", false, true, false},
		{"1.3", false, true, false},
		{"1.2", true, false, false},
		{"1.3", true, false, false},
	} {
		client, server := clientConfig(c.version), serverConfig()
		client.Tickets, server.SessionTicketsDisabled = c.client, !c.server
		x := newContext(t, client)
		var full, short int64
		for i := range 5 {
			l := established(t, x, server)
			l.exchange(t, []byte("q"), []byte("r"))
			info := l.client.Info()
			if want := i > 0 && c.resumed; info.Resumed != want {
				t.Errorf("%+v: connection %d resumed: %v", c, i, info.Resumed)
			}
			if i == 0 {
				full = info.Received
			}
			short = info.Received
			l.client.Reset()
			l.server.Reset()
		}
		if c.resumed && short >= full {
			t.Errorf("%+v: %d bytes received with a session, %d without", c, short, full)
		}
	}
}
