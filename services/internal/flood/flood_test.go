package flood

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// floods send one more of what no request needs.
var floods = map[string]func(f *http2.Framer, n uint32) error{
	"settings":       func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
	"pings":          func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
	"priorities":     func(f *http2.Framer, n uint32) error { return f.WritePriority(2*n+1, http2.PriorityParam{Weight: 1}) },
	"other priority": func(f *http2.Framer, n uint32) error { return f.WritePriorityUpdate(2*n+1, "u=1") },
	"unknown":        func(f *http2.Framer, _ uint32) error { return f.WriteRawFrame(0xfa, 0, 0, nil) },
	"resets": func(f *http2.Framer, n uint32) error {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: request, EndHeaders: true, EndStream: true}); err != nil {
			return err
		}
		return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	},
	"empty data": func(f *http2.Framer, n uint32) error {
		if n == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request, EndHeaders: true})
		}
		return f.WriteData(1, false, nil)
	},
	"continuations": func(f *http2.Framer, n uint32) error {
		if n == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request})
		}
		return f.WriteContinuation(1, false, nil)
	},
}

// request is the head of GET /.
var request = func() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "localhost"}} {
		if err := e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}()

// serving is a guarded server.
func serving(t *testing.T, encrypted bool, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	if encrypted {
		server.Config.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // as one has that is to be served by TLS
	}
	l := limits{resetsAtOnce: 500, othersAtOnce: 500} // and none later, however slow this machine is
	if err := l.guardServer(server.Config, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if encrypted {
		server.TLS = server.Config.TLSConfig
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// speak begins a connection over HTTP/2, whose answers nobody wants to know.
func speak(t *testing.T, server *httptest.Server, encrypted bool) *http2.Framer {
	t.Helper()
	address := server.Listener.Addr().String()
	var c net.Conn
	var err error
	if encrypted {
		c, err = tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // it is the test's own
	} else {
		c, err = net.Dial("tcp", address)
	}
	if err != nil {
		t.Fatal(err)
	}
	var read sync.WaitGroup
	read.Go(func() { _, _ = io.Copy(io.Discard, c) })
	t.Cleanup(func() {
		c.Close()
		read.Wait()
	})
	f := http2.NewFramer(c, c)
	f.AllowIllegalWrites = true
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFloods: a client that sends nothing but what no request needs loses its connection, by TLS and without.
func TestFloods(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		server := serving(t, encrypted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		for name, send := range floods {
			t.Run(fmt.Sprintf("%s/%v", name, encrypted), func(t *testing.T) {
				f := speak(t, server, encrypted)
				for n := range uint32(1_000_000) {
					if send(f, n) != nil {
						return
					}
				}
				t.Error("the connection is open")
			})
		}
	}
}

// TestUse: HTTP/2 is served as before, with what handlers get of TLS, and as many connections end
// as have begun.
func TestUse(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		server := serving(t, encrypted, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.ProtoMajor != 2 || (r.TLS != nil) != encrypted {
				t.Errorf("%v, %s, TLS %v", err, r.Proto, r.TLS != nil)
			}
			_, _ = w.Write(body)
		}))
		protocols := new(http.Protocols)
		protocols.SetHTTP2(encrypted)
		protocols.SetUnencryptedHTTP2(!encrypted)
		transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is the test's own
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		large := bytes.Repeat([]byte("0123456789"), 100_000)
		for range 3 {
			resp, err := client.Post(server.URL, "", bytes.NewReader(large))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.Body.Close(); err != nil || !bytes.Equal(body, large) {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		}
	}
}

// TestAllowance: a number at once, and then a number a second.
func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(10, 2)
		taken := func() (n int) {
			for a.take() {
				n++
			}
			return n
		}
		if n := taken(); n != 10 {
			t.Errorf("%d at once", n)
		}
		time.Sleep(3 * time.Second)
		if n := taken(); n < 5 || n > 6 {
			t.Errorf("%d after 3 s", n)
		}
	})
}

// TestScan: frames are found however they are cut.
func TestScan(t *testing.T) {
	var frames bytes.Buffer
	f := http2.NewFramer(&frames, nil)
	for n := range uint32(3) {
		if err := f.WriteData(1, false, bytes.Repeat([]byte{byte(http2.FramePing)}, 100)); err != nil {
			t.Fatal(err)
		}
		if err := f.WriteRSTStream(2*n+1, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size < 30; size++ {
		c := limits{resetsAtOnce: 10, othersAtOnce: 10}.guard(nil, nil)
		for rest := frames.Bytes(); len(rest) > 0; {
			n := min(size, len(rest))
			if _, ok := c.scan(rest[:n]); !ok {
				t.Fatalf("by %d: a flood", size)
			}
			rest = rest[n:]
		}
		if c.resets.left != 10-3 || c.others.left != 10 || c.skip != 0 || c.headLen != 0 {
			t.Errorf("by %d: %+v", size, c)
		}
	}
}
