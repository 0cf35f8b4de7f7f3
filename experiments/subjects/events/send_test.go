package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"dyno/hub"
	"dyno/hub/journal"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// variants are the first steps of the ladder, and the hub's own way.
var variants = []struct {
	name string
	variant
	writes int // for an event of three fields
	shared bool
}{
	{"baseline", variant{}, 4, false},
	{"pooled", variant{pooled: true}, 4, false},
	{"encoded once", variant{pooled: true, once: true}, 4, true},
	{"single write", hubs, 1, true},
}

// TestSend counts writes, and tells whether the bytes are those of the journal.
func TestSend(t *testing.T) {
	update := journal.Update{ID: "1", Topics: []string{"t"}, Type: "x", Data: []byte("data")}
	e := &journal.Entry{Update: update, Frame: journal.AppendFrame(nil, &update)}
	for _, v := range variants {
		w := &writer{variant: v.variant}
		var writes [][]byte
		for range 2 {
			writes = nil
			err := w.send(e, func(p []byte) error { writes = append(writes, p); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if sent := slices.Concat(writes...); len(writes) != v.writes || string(sent) != string(e.Frame) {
			t.Errorf("%s: %d writes, want %d: %q, want %q", v.name, len(writes), v.writes, sent, e.Frame)
		}
		if shared := &writes[0][0] == &e.Frame[0]; shared != v.shared {
			t.Errorf("%s: written from the journal's frame: %v", v.name, shared)
		}
		if err := w.send(e, func([]byte) error { return io.ErrClosedPipe }); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: a write that fails: %v", v.name, err)
		}
	}
}

// TestVariants: subscribers of a hub get the same stream in each way.
func TestVariants(t *testing.T) {
	var want string
	for _, v := range variants {
		for _, hijack := range []bool{false, v.single} {
			c := hub.Defaults()
			c.Send, c.EventLoop, c.Hijack, c.AnonymousPublish = (&writer{variant: v.variant}).send, false, hijack, true
			c.Retry = 0 // it is random
			got := stream(t, c)
			if want == "" {
				want = got
			}
			if got != want || !strings.Contains(got, "data: b") {
				t.Errorf("%s, hijacked %v: %q, want %q", v.name, hijack, got, want)
			}
		}
	}
}

// stream returns what a subscriber gets of two events.
func stream(t *testing.T, c hub.Config) string {
	t.Helper()
	h, err := hub.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	server := httptest.NewUnstartedServer(h.Handler())
	server.Config.ConnState, server.Config.ConnContext = h.ConnState, h.ConnContext
	server.Start()
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events?topic=t&lastEventID=earliest", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"a\nfurther", "b"} {
		if _, err := h.Publish(ctx, hub.Update{ID: data[:1], Topics: []string{"t"}, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	client := http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var b strings.Builder
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		b.WriteString(lines.Text() + "\n")
		if lines.Text() == "data: b" {
			return b.String()
		}
	}
	return b.String()
}
