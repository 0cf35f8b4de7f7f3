package trial

import (
	"io"
	quiet "log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dyno/lab/plan"
	"dyno/results/rundir"
)

// The error names a target that speaks TLS and gets plain text. It may say 400, close the connection or
// say nothing. One that speaks both, or no TLS, is not.
func TestPlainText(t *testing.T) {
	answers := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	secure := httptest.NewTLSServer(answers(http.StatusOK))
	defer secure.Close()
	plain := httptest.NewServer(answers(http.StatusBadRequest))
	defer plain.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	go accept(silent, func(c net.Conn) { c.Close() })
	go accept(hanging, func(c net.Conn) {
		// One that has timed out is not asked: its first byte never begins a handshake.
		go func() {
			first := make([]byte, 1)
			if _, err := c.Read(first); err == nil && first[0] == 0x16 {
				t.Error("a target that hangs was asked whether it speaks TLS")
			}
		}()
	})
	for _, c := range []struct {
		name, protocol, address string
		fault                   string
	}{
		{"400 to plain text", plan.HTTP, secure.Listener.Addr().String(), "begin the URL with https://"},
		{"an event stream", plan.SSE, secure.Listener.Addr().String(), "begin the URL with https://"},
		{"a protocol without TLS", plan.TCP, secure.Listener.Addr().String(), "speaks TLS, and tcp is spoken in plain text only"},
		{"400 of plain text", plan.HTTP, plain.Listener.Addr().String(), ""},
		{"closed", plan.HTTP, silent.Addr().String(), ""},
		{"no answer", plan.HTTP, hanging.Addr().String(), ""},
	} {
		e := plan.New("x", c.protocol)
		v := &e.Variants[0]
		v.Target.Address = c.address
		v.Target.Complete()
		v.Load.Warmup = 0
		if l := &v.Load; c.protocol == plan.SSE {
			l.Subscribers.Connections, l.Window = 1, 300*time.Millisecond
		} else {
			l.Closed, l.Requests, l.Window = &plan.Closed{Connections: 1}, 3, 0
			l.Reconnect.MaxBackoff = 10 * time.Millisecond
		}
		if c.address == hanging.Addr().String() {
			v.Load.Timeout = 100 * time.Millisecond
		}
		e.Design.Rounds, e.Design.QuietWait = 1, 0
		e.Complete()
		o := options(t, new(log))
		err := Run(t.Context(), e, o)
		trial := open(t, o.Dir).Trials[0]
		if said := strings.Contains(trial.Error, c.fault); c.fault != "" && (err == nil || !said || trial.Fault != rundir.FaultTarget) {
			t.Errorf("%s: %v, fault %q", c.name, err, trial.Fault)
		}
		if c.fault == "" && strings.Contains(trial.Error, "TLS") {
			t.Errorf("%s: %s", c.name, trial.Error)
		}
	}
}

// accept hands over what a listener accepts until it is closed.
func accept(l net.Listener, handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		handle(c)
	}
}

// A target that speaks something else is named by what it speaks.
func TestMismatch(t *testing.T) {
	stream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer stream.Close()
	defer stream.CloseClientConnections()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer endless.Close()
	defer endless.CloseClientConnections()
	two := httptest.NewUnstartedServer(http.NotFoundHandler())
	two.Config.Protocols = new(http.Protocols)
	two.Config.Protocols.SetUnencryptedHTTP2(true)
	two.Config.ErrorLog = quiet.New(io.Discard, "", 0)
	two.Start()
	defer two.Close()
	for _, c := range []struct{ address, method, fault string }{
		{stream.Listener.Addr().String(), "GET", "load it by dyno sse"},
		{stream.Listener.Addr().String(), "POST", ""},
		{endless.Listener.Addr().String(), "GET", ""},
		{two.Listener.Addr().String(), "GET", "speaks HTTP/2 only"},
	} {
		e := plan.New("x", plan.HTTP)
		v := &e.Variants[0]
		v.Target.URL = "http://" + c.address + "/"
		v.Target.Complete()
		v.Load.Warmup, v.Load.Window, v.Load.Timeout = 0, 0, 100*time.Millisecond
		v.Load.Request.Method, v.Load.Closed, v.Load.Requests = c.method, &plan.Closed{Connections: 1}, 2
		v.Load.Reconnect.MaxBackoff = 10 * time.Millisecond
		e.Design.Rounds, e.Design.QuietWait = 1, 0
		e.Complete()
		o := options(t, new(log))
		err := Run(t.Context(), e, o)
		trial := open(t, o.Dir).Trials[0]
		if c.fault != "" && (err == nil || !strings.Contains(trial.Error, c.fault) || trial.Fault != rundir.FaultTarget) {
			t.Errorf("%s %s: %v, %q, fault %q", c.method, c.address, err, trial.Error, trial.Fault)
		}
		if c.fault == "" && strings.Contains(trial.Error, "dyno sse") {
			t.Errorf("%s %s: %s", c.method, c.address, trial.Error)
		}
	}
}
