package engine_test

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/wire"
	"dyno/load/wire/http2"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
)

// https starts net/http's server with TLS, which speaks HTTP/2, too, if wanted, and returns
// its address and what trusts it.
func https(t testing.TB, h2 bool, handler http.HandlerFunc, change ...func(*httptest.Server)) (string, tlslayer.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = h2
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if h2 {
		s.TLS.NextProtos = []string{"h2", "http/1.1"}
	}
	for _, f := range change {
		f(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s.Listener.Addr().String(), tlslayer.Config{ServerName: "example.com", CA: tlslayer.File{Name: "ca.pem", Data: ca}}
}

// offer makes a configuration offer protocols.
func offer(c tlslayer.Config, protocols ...string) *tlslayer.Config {
	c.ALPN = protocols
	return &c
}

// get2s is get2 by https.
func get2s(t testing.TB, streams int) func(int) func() wire.Mux {
	return get2(t, "example.com", streams, func(c *http2.Config) { c.Requests[0].Scheme = "https" })
}

// The server chooses the protocol from those that are offered, and what was agreed on is
// in the result.
func TestTLS(t *testing.T) {
	for _, version := range []string{"1.2", "1.3"} {
		for _, tt := range []struct {
			name     string
			h2       bool // the server's
			mux, one bool // this side's
			alpn     []string
			agreed   string
		}{
			{"HTTP/1.1 alone", true, false, true, []string{"http/1.1"}, "http/1.1"},
			{"HTTP/1.1 without ALPN", true, false, true, nil, ""},
			{"HTTP/2 alone", true, true, false, []string{"h2"}, "h2"},
			{"both, HTTP/2 is chosen", true, true, true, []string{"h2", "http/1.1"}, "h2"},
			{"both, HTTP/1.1 is chosen", false, true, true, []string{"h2", "http/1.1"}, "http/1.1"},
		} {
			for _, open := range []bool{false, true} {
				var major atomic.Int32
				address, settings := https(t, tt.h2, func(w http.ResponseWriter, r *http.Request) {
					major.Store(int32(r.ProtoMajor))
					_, _ = io.WriteString(w, strings.Repeat("x", 40_000)) // more than a record
				})
				settings.MaxVersion = version
				c := config.Config{Address: address, TLS: offer(settings, tt.alpn...), Connections: 3, Requests: 60, Drain: time.Minute}
				if tt.mux {
					c.NewMuxes, c.Streams = get2s(t, 4), 4
				}
				if tt.one {
					c.NewClients = get(t, "example.com")
				}
				if open {
					c.Schedule = poisson(t, 2000)
				}
				r := run(t, c)
				if r.Counts.OK != 60 || (major.Load() == 2) != (tt.agreed == "h2") {
					t.Fatalf("%s, %s, open loop %v: %+v, %v, HTTP/%d", version, tt.name, open, r.Counts, r.Failures, major.Load())
				}
				h := r.Handshakes
				if h.Completed != r.Connections.Opened || h.Failed+h.Resumed+h.Retried != 0 || len(h.Agreed) != 1 ||
					h.Agreed[0].ALPN != tt.agreed || h.Agreed[0].Version != "TLS "+version || h.Agreed[0].Handshakes != h.Completed {
					t.Errorf("%s, %s: %+v", version, tt.name, h)
				}
				if n := r.Latency[record.HandshakeTime].Count(); uint64(n) != h.Completed {
					t.Errorf("%s, %s: %d handshake times of %d", version, tt.name, n, h.Completed)
				}
			}
		}
	}
}

// The load begins although a connection is not open yet, and that is counted.
func TestLoadBeginsWithoutSome(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	settings := certified(t)
	address := listen(t, func(c net.Conn) {
		if conns.Add(1) > 1 {
			_, _ = io.Copy(io.Discard, c) // until the client hangs up
			return
		}
		s := tls.Server(c, settings)
		for readHead(s) {
			if _, err := io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
		}
	})
	r := run(t, config.Config{
		Address: address, NewClients: get(t, "h"), TLS: &tlslayer.Config{ServerName: "h", Insecure: true},
		Connections: 3, Requests: 5, Timeouts: options.Timeouts{ConnectTimeout: 2 * time.Second},
	})
	if r.Counts.OK == 0 || r.Connections.Unopened != 2 {
		t.Errorf("%+v, %+v", r.Counts, r.Connections)
	}
}

// With one request on each connection, handshakes are the load, and with tickets most
// of them resume a session.
func TestHandshakeRate(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, tickets := range []bool{false, true} {
			address, settings := https(t, h2, func(http.ResponseWriter, *http.Request) {})
			settings.Tickets = tickets
			c := config.Config{
				Address: address, TLS: offer(settings, "http/1.1"), NewClients: get(t, "example.com"),
				Connections: 2, Requests: 40, ExchangesPerConnection: 1,
			}
			if h2 {
				c.TLS, c.NewClients, c.NewMuxes = offer(settings, "h2"), nil, get2s(t, 1)
			}
			r := run(t, c)
			if r.Counts.OK != 40 || r.Handshakes.Completed < 40 || r.Connections.Reused > 0 || r.Connections.PeerClosed > 0 {
				t.Errorf("h2 %v: %+v, %+v, %+v", h2, r.Counts, r.Handshakes, r.Connections)
			}
			if most := r.Handshakes.Resumed; tickets && most < 30 || !tickets && most > 0 {
				t.Errorf("h2 %v, tickets %v: %d of %d were resumed", h2, tickets, most, r.Handshakes.Completed)
			}
		}
	}
}

// A server that asks for a certificate gets it, or says that it wants one.
func TestClientCertificate(t *testing.T) {
	address, settings := https(t, true, func(http.ResponseWriter, *http.Request) {}, func(s *httptest.Server) {
		s.TLS.ClientAuth = tls.RequireAnyClientCert
	})
	c := config.Config{
		Address: address, NewMuxes: get2s(t, 2), Streams: 2, Connections: 2, Requests: 20, MaxBackoff: time.Millisecond,
		TLS: offer(settings, "h2"),
	}
	r, err := engine.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	if r.Counts.ByKind[wire.TLS] == 0 || r.Counts.OK > 0 {
		t.Errorf("without a certificate: %+v, %v", r.Counts, r.Failures)
	}
	settings.Certificate, settings.Key = selfSigned(t)
	c.TLS = offer(settings, "h2")
	if r := run(t, c); r.Counts.OK != 20 {
		t.Errorf("with a certificate: %+v, %v", r.Counts, r.Failures)
	}
}

// selfSigned returns a certificate and its key: httptest's own.
func selfSigned(t *testing.T) (certificate, key tlslayer.File) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tlslayer.File{Name: "cert.pem", Data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})},
		tlslayer.File{Name: "key.pem", Data: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// certified returns the configuration of a server with that certificate.
func certified(t *testing.T) *tls.Config {
	t.Helper()
	certificate, key := selfSigned(t)
	pair, err := tls.X509KeyPair(certificate.Data, key.Data)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// Failures of a handshake have kind TLS and a reason: of requests and of subscribers.
func TestHandshakeFails(t *testing.T) {
	trusted, settings := https(t, true, func(http.ResponseWriter, *http.Request) {})
	other := settings
	other.ServerName = "elsewhere.test"
	plain := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 5000))
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	mum := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	rude := listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 5000)) })
	http1, _ := https(t, false, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		name, address string
		tls           *tlslayer.Config
		mux, alone    bool          // alone: subscribers have no such failure
		within        time.Duration // 0: as long as a handshake may take on a busy machine
		want          string
	}{
		{"another name", trusted, offer(other, "h2"), true, false, 0, "elsewhere.test"},
		{"no TLS", plain, offer(settings), false, false, 0, "does not speak TLS"},
		{"no answer", mum, offer(settings), false, false, 100 * time.Millisecond, "no complete handshake in time"},
		{"closes", rude, offer(settings), false, false, 0, "closed the connection"},
		{"no HTTP/2", http1, offer(settings, "h2"), true, true, 0, "h2"},
	} {
		c := config.Config{
			Address: tt.address, TLS: tt.tls, Connections: 2, Window: 200 * time.Millisecond, Timeouts: options.Timeouts{ConnectTimeout: cmp.Or(tt.within, hang)},
			Drain: 200 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, NewClients: get(t, "example.com"),
		}
		if tt.mux {
			c.NewClients, c.NewMuxes, c.Streams = nil, get2s(t, 2), 2
		}
		_, err := engine.Run(t.Context(), c)
		var unreachable *engine.Unreachable
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), tt.want) || wire.KindOf(unreachable.Err) != wire.TLS {
			t.Errorf("%s: %v", tt.name, err)
		}
		c.Schedule = poisson(t, 200)
		r, err := engine.Run(t.Context(), c)
		if !errors.As(err, &unreachable) {
			t.Errorf("%s, open loop: %v", tt.name, err)
		}
		conserved(t, r)
		if r.Counts.ByKind[wire.TLS] == 0 || r.Counts.Errors != r.Counts.ByKind[wire.TLS] {
			t.Errorf("%s, open loop: %+v, %v", tt.name, r.Counts, r.Failures)
		}
		if tt.alone {
			continue
		}
		r, err = engine.Run(t.Context(), config.Config{
			Address: tt.address, TLS: offer(*tt.tls, "http/1.1"), Window: 200 * time.Millisecond, Timeouts: options.Timeouts{ConnectTimeout: c.ConnectTimeout},
			Subscribers: &subscribe.Config{
				Count: 2, NewStreams: streams(t, sse.StreamConfig{}), Backoff: options.Backoff{MinBackoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond},
			},
		})
		failure := err
		switch {
		case errors.As(err, &unreachable):
			failure = unreachable.Err
		case err == nil && r.Streams.Opened == 0: // one that reconnects counts as connected
			for text := range r.Streams.Failures {
				failure = &wire.Error{Kind: wire.TLS, Text: text}
			}
		}
		if wire.KindOf(failure) != wire.TLS || !strings.Contains(failure.Error(), tt.want) {
			t.Errorf("%s, subscribers: %v, %+v", tt.name, err, r)
		}
	}
}

// A message that ends with the connection is complete only if TLS says so.
func TestTruncation(t *testing.T) {
	pair := certified(t)
	for _, cut := range []bool{false, true} {
		address := listen(t, func(c net.Conn) {
			s := tls.Server(c, pair)
			if _, err := s.Read(make([]byte, 1000)); err != nil {
				return
			}
			_, _ = io.WriteString(s, "HTTP/1.0 200 OK\r\n\r\nhello")
			if !cut {
				_ = s.Close()
			}
		})
		r := run(t, config.Config{
			Address: address, TLS: &tlslayer.Config{Insecure: true}, NewClients: get(t, "h"), Connections: 2, Requests: 20,
			MaxBackoff: time.Millisecond,
		})
		if cut && r.Counts.ByKind[wire.Reset] != 20 || !cut && r.Counts.OK != 20 {
			t.Errorf("cut %v: %+v, %v", cut, r.Counts, r.Failures)
		}
	}
}

// Once warm, a request with TLS allocates no more than crypto/tls does: its reader, once
// for each record.
func TestTLSAllocations(t *testing.T) {
	pair := certified(t)
	response := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	address := listen(t, func(c net.Conn) {
		s := tls.Server(c, pair)
		request := make([]byte, 1000)
		for {
			if n, err := s.Read(request); err != nil || !bytes.HasSuffix(request[:n], []byte("\r\n\r\n")) {
				return
			}
			if _, err := s.Write(response); err != nil {
				return
			}
		}
	})
	c := config.Config{Address: address, TLS: &tlslayer.Config{Insecure: true}, NewClients: get(t, "h")}
	// One for the record here, one for that at the server.
	if per := allocations(t, c, with200); math.Abs(per-2) > 0.02 {
		t.Errorf("%.4f allocations per request, want 2", per)
	}
}
