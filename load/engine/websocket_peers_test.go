//go:build linux

package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gorilla/websocket"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/engine/users"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/tlslayer"
	ours "dyno/load/wire/websocket"
)

// socketCounts are what a WebSocket server says of all connections so far.
type socketCounts struct {
	Connections, Messages uint64 // that it has accepted
	Pushed                uint64 // messages that answer none
	Closes                uint64 // connections that the client closed by code 1000
}

func (c socketCounts) since(o socketCounts) socketCounts {
	return socketCounts{c.Connections - o.Connections, c.Messages - o.Messages, c.Pushed - o.Pushed, c.Closes - o.Closes}
}

// A socketPeer is a WebSocket server that others have written. It sends messages back. In place of "subscribe", it sends
// 50 others.
type socketPeer struct {
	plain, secure string // its addresses
	http2         bool   // it is spoken to over HTTP/2 (RFC 8441)
	counts        func() socketCounts
}

const subscribe50 = "subscribe"

// exerciseSockets does with a peer all that dyno does over WebSocket, and compares the results with the peer's counts.
func exerciseSockets(t *testing.T, p socketPeer) {
	t.Helper()
	for name, at := range map[string]string{"ws": p.plain, "wss": p.secure} {
		dial := ours.Dial{Request: http1.Request{Target: "/", Host: "localhost"}, HTTP2: p.http2, Scheme: map[string]string{"ws": "http", "wss": "https"}[name]}
		alpn := "http/1.1"
		if p.http2 {
			alpn = "h2"
		}
		carry := func(c config.Config) config.Config {
			if c.Address = at; name == "wss" {
				c.TLS = &tlslayer.Config{ServerName: "localhost", Insecure: true, ALPN: []string{alpn}}
			}
			return c
		}
		// counted compares the peer's counts, which it may complete a little after the client has gone.
		counted := func(t *testing.T, before, want socketCounts) {
			t.Helper()
			got := p.counts().since(before)
			for deadline := time.Now().Add(hang); got != want && time.Now().Before(deadline); got = p.counts().since(before) {
				<-time.After(10 * time.Millisecond)
			}
			if got != want {
				t.Errorf("the server counts %+v, want %+v", got, want)
			}
		}
		for _, tt := range []struct {
			name     string
			compress bool
			payload  int
			inFlight int
			open     bool
			requests uint64
		}{
			{name: "round trips", payload: 100, requests: 500},
			{name: "open loop", payload: 10, open: true, requests: 500},
			{name: "8 in flight", payload: 100, inFlight: 8, requests: 1000},
			{name: "compressed", compress: true, payload: 50_000, requests: 40},
			{name: "1 MiB", payload: 1 << 20, requests: 10},
		} {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				codec := ours.Config{Dial: dial, Payload: tt.payload, Exchanges: max(tt.inFlight, 1)}
				codec.Compress = tt.compress
				c := carry(config.Config{
					Connections: 5, Streams: codec.Exchanges, Standing: true, Requests: tt.requests, Window: time.Minute, Drain: time.Minute,
					NewMuxes: func(int) func() wire.Mux {
						template, err := ours.NewTemplate(codec)
						if err != nil {
							panic(err)
						}
						return func() wire.Mux { return template.Mux() }
					},
				})
				if tt.open {
					c.Schedule = poisson(t, 2000)
				}
				before := p.counts()
				r := run(t, c)
				if r.AllCounts.OK < tt.requests || r.AllCounts.OK != r.AllCounts.Sent || len(r.Failures) > 0 || r.Connections.Opened != 5 || r.Connections.Pushed > 0 {
					t.Errorf("%+v, failures %v, %+v", r.AllCounts, r.Failures, r.Connections)
				}
				// Payloads have 6 bits of entropy per byte.
				if sent := r.Completed * uint64(tt.payload); r.Received == 0 || tt.compress != (r.Received < sent*9/10) {
					t.Errorf("%d bytes received, of messages of %d", r.Received, sent)
				}
				counted(t, before, socketCounts{Connections: 5, Messages: r.AllCounts.OK, Closes: 5})
			})
		}
		t.Run(name+" subscribers", func(t *testing.T) {
			const subscribers = 20
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			defer cancel()
			delivered, before := uint64(0), p.counts()
			// The measurement ends when everything has come.
			r := inTime(ctx, t, carry(config.Config{
				Window: 2 * hang, Intervals: record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(i record.Interval) {
					if delivered += i.Delivered; delivered >= 50*subscribers {
						cancel()
					}
				}},
				Subscribers: &subscribe.Config{Count: subscribers, NewStreams: func(int) func(int) wire.Stream {
					template, err := ours.NewStreamTemplate(ours.StreamConfig{Dial: dial, Subscribe: ours.Message{Text: []byte(subscribe50)}})
					if err != nil {
						panic(err)
					}
					return func(int) wire.Stream { return template.Stream() }
				}},
			}))
			if s := r.Streams; s.Opened != subscribers || s.Failed+s.Ended+s.Broken+s.Closed+s.Reconnects > 0 || s.AllDelivered != 50*subscribers {
				t.Errorf("%+v", s)
			}
			counted(t, before, socketCounts{Connections: subscribers, Messages: subscribers, Pushed: r.Streams.AllDelivered, Closes: subscribers})
		})
		t.Run(name+" users", func(t *testing.T) {
			codec := ours.SessionConfig{Dial: dial, Steps: []ours.Step{
				{Kind: ours.Open, Request: dial.Request}, {Text: []byte("ask {id}")}, {Kind: ours.Ping}, {Kind: ours.Close, Code: 1000},
			}}
			before := p.counts()
			r, err := engine.Run(t.Context(), carry(config.Config{ // only some of the steps have a status
				Connections: 4, Owned: true, Window: time.Minute, Requests: 240, Users: &users.Config{Scenario: socketScript(t, len(codec.Steps))},
				NewMuxes: func(int) func() wire.Mux {
					template, err := ours.NewSessionTemplate(codec)
					if err != nil {
						panic(err)
					}
					return func() wire.Mux { return template.Session() }
				},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if r.AllCounts.OK < 240 || r.AllCounts.OK != r.AllCounts.Sent || len(r.Failures) > 0 {
				t.Errorf("%+v, failures %v", r.AllCounts, r.Failures)
			}
			opened := r.Steps[0].Counts.OK
			counted(t, before, socketCounts{Connections: opened, Messages: r.Steps[1].Counts.OK, Closes: opened})
		})
	}
}

// reportedCounts asks a peer by HTTP.
func reportedCounts(t *testing.T, address string) func() socketCounts {
	return func() (c socketCounts) {
		if err := json.Unmarshal([]byte(ask(t, "http://"+address+"/counts")), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// gorillaPeer starts gorilla's server, without TLS or with.
func gorillaPeer(t *testing.T, secure bool) (address string, counts func() socketCounts) {
	t.Helper()
	var pushed atomic.Uint64
	s := serveSockets(t, secure, func(s *socketServer, c *websocket.Conn) error {
		for {
			kind, message, err := c.ReadMessage()
			if err != nil {
				return err
			}
			s.messages.Add(1)
			if string(message) != subscribe50 {
				if err := c.WriteMessage(kind, message); err != nil {
					return err
				}
				continue
			}
			for n := range 50 {
				if err := c.WriteMessage(kind, fmt.Appendf(nil, "news %d", n)); err != nil {
					return err
				}
				pushed.Add(1)
			}
		}
	})
	return s.Listener.Addr().String(), func() socketCounts {
		return socketCounts{uint64(s.accepted.Load()), uint64(s.messages.Load()), pushed.Load(), uint64(s.closed.Load())} //nolint:gosec // counts
	}
}

func TestSocketPeerGorilla(t *testing.T) {
	plain, first := gorillaPeer(t, false)
	secure, second := gorillaPeer(t, true)
	exerciseSockets(t, socketPeer{plain: plain, secure: secure, counts: func() socketCounts {
		a, b := first(), second()
		return socketCounts{a.Connections + b.Connections, a.Messages + b.Messages, a.Pushed + b.Pushed, a.Closes + b.Closes}
	}})
}

func TestSocketPeerCoder(t *testing.T) {
	var connections, messages, pushed, closes atomic.Uint64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := coder.Accept(w, r, &coder.AcceptOptions{CompressionMode: coder.CompressionContextTakeover})
		if err != nil {
			return // it has answered
		}
		defer c.CloseNow() //nolint:errcheck // it is over
		connections.Add(1)
		c.SetReadLimit(-1)
		for {
			kind, message, err := c.Read(r.Context())
			if coder.CloseStatus(err) == coder.StatusNormalClosure {
				closes.Add(1)
			}
			if err != nil {
				return
			}
			messages.Add(1)
			if string(message) != subscribe50 {
				if err := c.Write(r.Context(), kind, message); err != nil {
					return
				}
				continue
			}
			for n := range 50 {
				if err := c.Write(r.Context(), kind, fmt.Appendf(nil, "news %d", n)); err != nil {
					return
				}
				pushed.Add(1)
			}
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	exerciseSockets(t, socketPeer{plain: plain.Listener.Addr().String(), secure: secure.Listener.Addr().String(), counts: func() socketCounts {
		return socketCounts{connections.Load(), messages.Load(), pushed.Load(), closes.Load()}
	}})
}

// installed skips the test without a package that scripts/clients.sh installs.
func installed(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("testdata/clients", name)); err != nil {
		t.Skipf("scripts/clients.sh installs it: %v", err)
	}
}

func TestSocketPeerNode(t *testing.T) {
	installed(t, "node_modules/ws")
	certificate, key := credentials(t, t.TempDir())
	at := ports(t, 2)
	start(t, at, "node", "testdata/clients/ws.mjs", port(at[0]), port(at[1]), certificate, key)
	exerciseSockets(t, socketPeer{plain: at[0], secure: at[1], counts: reportedCounts(t, at[0])})
}

func TestSocketPeerPython(t *testing.T) {
	installed(t, "python/websockets")
	certificate, key := credentials(t, t.TempDir())
	at := ports(t, 2)
	start(t, at, "env", "PYTHONPATH=testdata/clients/python", "python3", "testdata/clients/websockets_server.py", port(at[0]), port(at[1]), certificate, key)
	exerciseSockets(t, socketPeer{plain: at[0], secure: at[1], counts: reportedCounts(t, at[0])})
}

func TestSocketPeerThroughNginx(t *testing.T) {
	dir := t.TempDir()
	certificate, key := credentials(t, dir)
	server, counts := gorillaPeer(t, false)
	at := ports(t, 2)
	settings := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 200; }
http {
	access_log off; ssl_certificate %[4]s; ssl_certificate_key %[5]s;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server {
		listen %[2]s; listen %[3]s ssl;
		location / { proxy_pass http://%[6]s; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }
	}
}`, dir, at[0], at[1], certificate, key, server)
	start(t, at, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", write(t, dir, "nginx.conf", []byte(settings)))
	exerciseSockets(t, socketPeer{plain: at[0], secure: at[1], counts: counts})
}

func TestSocketPeerThroughHAProxy(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		throughHAProxy(t, http2)
	}
}

// haproxy starts HAProxy in front of a server, and returns where it listens without TLS and with.
func haproxy(t *testing.T, server string, http2 bool) []string {
	t.Helper()
	plain, alpn := "", "http/1.1"
	if http2 {
		plain, alpn = "proto h2", "h2"
	}
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	pair := write(t, dir, "pair.pem", append(bytes.Clone(certificate.Data), key.Data...))
	at := ports(t, 2)
	settings := fmt.Sprintf(`global
	maxconn 1000
defaults
	mode http
	timeout client 30s
	timeout server 30s
	timeout connect 5s
	timeout tunnel 60s
frontend all
	http-request deny deny_status 403 if { path /no }
	bind %s %s
	bind %s ssl crt %s alpn %s
	default_backend sockets
backend sockets
	server one %s
`, at[0], plain, at[1], pair, alpn, server)
	start(t, at, "haproxy", "-f", write(t, dir, "haproxy.cfg", []byte(settings)))
	return at
}

func throughHAProxy(t *testing.T, http2 bool) {
	t.Helper()
	server, counts := gorillaPeer(t, false)
	at := haproxy(t, server, http2)
	exerciseSockets(t, socketPeer{plain: at[0], secure: at[1], http2: http2, counts: counts})
	_, err := engine.Run(t.Context(), config.Config{Address: at[0], Connections: 1, Streams: 1, Standing: true, Requests: 2, Window: time.Minute, NewMuxes: func(int) func() wire.Mux {
		template, err := ours.NewTemplate(ours.Config{Dial: ours.Dial{Request: http1.Request{Target: "/no", Host: "localhost"}, HTTP2: http2}})
		if err != nil {
			panic(err)
		}
		return func() wire.Mux { return template.Mux() }
	}})
	if err == nil || !strings.Contains(err.Error(), "status: the server answered the handshake by status 403") {
		t.Error(err)
	}
}

// TestSocketsOverOrdinaryHTTP2: a server of HTTP/2 that has no other protocols says so.
func TestSocketsOverOrdinaryHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	_, err := engine.Run(t.Context(), config.Config{Address: s.Listener.Addr().String(), Connections: 1, Streams: 1, Standing: true, Requests: 2, Window: time.Minute, NewMuxes: func(int) func() wire.Mux {
		template, err := ours.NewTemplate(ours.Config{Dial: ours.Dial{Request: http1.Request{Target: "/", Host: "localhost"}, HTTP2: true}})
		if err != nil {
			panic(err)
		}
		return func() wire.Mux { return template.Mux() }
	}})
	if err == nil || !strings.Contains(err.Error(), "does not offer other protocols over HTTP/2") {
		t.Error(err)
	}
}
