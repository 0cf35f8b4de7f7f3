package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/options"
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
		{Name: "good", Path: "/", Deadline: 20 * time.Second},
		{Name: "short", Path: "/slow", Deadline: 30 * time.Millisecond},
		{Name: "shorter", Path: "/slow", Deadline: 10 * time.Millisecond},
		{Name: "all", Path: "/slow"},
		{Name: "longer than all", Path: "/slow", Deadline: time.Hour},
	}})
	for _, two := range []bool{false, true} {
		c := config.Config{Connections: 2, Requests: 5 * each, Timeouts: options.Timeouts{Timeout: 150 * time.Millisecond}, Users: &users.Config{Scenario: s, Count: 4}}
		if two {
			c.Address, c.NewMuxes, c.Streams = serve2(t, http.HTTP2Config{}, answer), muxesOf(t, s, "http", 4), 4
		} else {
			c.Address, c.NewClients, c.Connections = plain(t, answer), composers(t, s, "h"), 4
		}
		r := carryOut(t, c)
		for name, least := range map[string]time.Duration{"short": 30, "shorter": 10, "all": 150, "longer than all": 150} {
			n := step(t, r, name)
			low, high := least*time.Millisecond, least*time.Millisecond+2*time.Second // a busy machine is late
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

// A holdUp is a client that keeps its worker from everything else.
type holdUp struct {
	wire.Client
	hold func()
}

func (h holdUp) Response(p []byte) (int, bool, error) {
	h.hold()
	return h.Client.Response(p)
}

// A response that was there in time is none that timed out, although the worker reads it too
// late.
func TestResponseIsReadLate(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	var once sync.Once
	holding, answered := make(chan struct{}), make(chan struct{})
	wait := func(c chan struct{}) {
		select {
		case <-c:
		case <-time.After(hang):
			t.Error("nothing happens")
		}
	}
	inner := get(t, "h")
	clients := func(n int) func() wire.Client {
		next := inner(n)
		return func() wire.Client {
			return holdUp{next(), func() {
				once.Do(func() {
					close(holding)
					wait(answered)
					<-time.After(timeout)
				})
			}}
		}
	}
	var conns atomic.Uint64
	address := listen(t, func(c net.Conn) {
		first := conns.Add(1) == 1
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		if !first {
			wait(holding)
			defer close(answered)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if first {
			_, _ = io.Copy(io.Discard, r) // until the client hangs up
		}
	})
	r := run(t, config.Config{Address: address, NewClients: clients, Connections: 2, Requests: 2, Timeouts: options.Timeouts{Timeout: timeout}})
	if r.Counts.OK != 2 {
		t.Errorf("%+v, %v", r.Counts, r.Failures)
	}
}
