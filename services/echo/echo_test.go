package echo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/internal/leak"
	"dyno/services/internal/serve"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hang is how long anything may take before a test calls it hung.
const hang = 20 * time.Second

// start runs an echo service; stop drains it and checks how it ended.
func start(t *testing.T, change func(*Config)) (s *Server, stop func()) {
	t.Helper()
	cfg := Defaults()
	cfg.TCP, cfg.DrainTimeout = "127.0.0.1:0", 0
	change(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	return s, func() {
		t.Helper()
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(hang):
			t.Fatal("Serve did not return")
		}
	}
}

func dial(t *testing.T, a net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(hang))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ping(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, werr := io.WriteString(c, text)
	_, rerr := io.ReadFull(c, got)
	if err := errors.Join(werr, rerr); err != nil || string(got) != text {
		t.Fatalf("sent %q, got %q, %v", text, got, err)
	}
}

// TestEchoesEverything: in order, to the end, over every kind of socket, to
// clients that send faster than they read.
func TestEchoesEverything(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "unix"} {
		if address == "unix" {
			address = "unix:" + filepath.Join(t.TempDir(), "s")
		}
		s, stop := start(t, func(c *Config) { c.TCP, c.BufferBytes = address, 4096 })
		var all sync.WaitGroup
		for i := range 20 {
			c := dial(t, s.TCPAddr())
			data := bytes.Repeat([]byte{byte(i), 1, 2, 3, 4, 5, 6}, i*i*200)
			all.Go(func() {
				var sent sync.WaitGroup
				sent.Go(func() {
					_, err := c.Write(data)
					if err = errors.Join(err, c.(interface{ CloseWrite() error }).CloseWrite()); err != nil {
						t.Error(err)
					}
				})
				got, err := io.ReadAll(c)
				sent.Wait()
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: sent %d bytes, got %d, %v", address, len(data), len(got), err)
				}
			})
		}
		all.Wait()
		stop()
	}
}

// TestReadsNoMoreThanItCanHold: a client that does not read blocks.
func TestReadsNoMoreThanItCanHold(t *testing.T) {
	s, stop := start(t, func(*Config) {})
	c := dial(t, s.TCPAddr())
	_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	n, err := io.Copy(c, io.LimitReader(zeros{}, 1<<30))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("took %d bytes without being read, then %v", n, err)
	}
	other := dial(t, s.TCPAddr())
	ping(t, other, "others are served")
	_ = c.Close()
	stop()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestMaxConnectionsWait(t *testing.T) {
	s, stop := start(t, func(c *Config) { c.MaxConnections = 1 })
	first, second := dial(t, s.TCPAddr()), dial(t, s.TCPAddr())
	ping(t, first, "in")
	if _, err := io.WriteString(second, "patience"); err != nil {
		t.Fatal(err)
	}
	ping(t, first, "still in")
	_ = first.Close()
	got := make([]byte, len("patience"))
	if _, err := io.ReadFull(second, got); err != nil || string(got) != "patience" {
		t.Errorf("got %q, %v", got, err)
	}
	_ = second.Close()
	stop()
}

func TestDrainDeadlineResets(t *testing.T) {
	s, stop := start(t, func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	c := dial(t, s.TCPAddr())
	ping(t, c, "before")
	stop()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	if _, err := net.Dial("tcp", s.TCPAddr().String()); err == nil {
		t.Error("still accepts")
	}
}

func TestHTTP(t *testing.T) {
	s, stop := start(t, func(c *Config) {
		c.TCP, c.HTTP, c.Admin, c.MaxBodyBytes = "", "127.0.0.1:0", "127.0.0.1:0", 1000
	})
	if s.HTTPAddr() == nil || s.TCPAddr() != nil {
		t.Errorf("addresses %v, %v", s.HTTPAddr(), s.TCPAddr())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: hang}
	do := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+s.HTTPAddr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got)
	}
	long := strings.Repeat(greeting, 100)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/", "", 200, greeting},
		{"GET", "/?size=0", "", 200, ""},
		{"GET", "/?size=995", "", 200, long[:995]},
		{"HEAD", "/?size=995", "", 200, ""},
		{"POST", "/any/path", "hello", 200, "hello"},
		{"PUT", "/", long, 200, long},
		{"POST", "/", long + "!", 413, ""},
		{"GET", "/?size=1001", "", 400, ""},
		{"GET", "/?size=-1", "", 400, ""},
		{"DELETE", "/", "", 405, ""},
	} {
		status, got := do(c.method, c.path, c.body)
		if status != c.status || status == 200 && got != c.want {
			t.Errorf("%s %s: %d with %d bytes, want %d with %d", c.method, c.path, status, len(got), c.status, len(c.want))
		}
	}
	resp, err := client.Get("http://" + s.AdminAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !bytes.Contains(page, []byte(`echo_http_requests_total{status="200"} 6`)) {
		t.Errorf("metrics: %v\n%s", err, page)
	}
	stop()
}

func TestValidateReportsAllFaults(t *testing.T) {
	_, err := New(Config{DrainTimeout: -1, AdminListener: serve.AdminListener{Admin: "x"}})
	for _, want := range []string{"tcp: there is no address", "admin: ", "buffer: 0B", "max_connections: 0", "max_body: 0B", "drain_timeout: -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	c := Defaults()
	c.TCP, c.HTTP = ":7", "0.0.0.0:8"
	if _, err := New(c); err == nil {
		t.Error("addresses that other machines reach were accepted unasked")
	}
	if c.AllowRemote = true; c.Validate() != nil {
		t.Error(c.Validate())
	}
}

// TestListenFailureFreesTheRest: no listener stays open when another fails.
func TestListenFailureFreesTheRest(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	path := filepath.Join(t.TempDir(), "s")
	c := Defaults()
	c.TCP, c.HTTP = "unix:"+path, taken.Addr().String()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(context.Background()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the TCP side still listens")
	}
}

// TestPanicIsCounted: as a failure.
func TestPanicIsCounted(t *testing.T) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests"}, []string{"status"})
	h := &handler{metrics: metrics{requests: requests}, limit: 10}
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", panics{}))
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(requests)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	if m := families[0].GetMetric(); len(m) != 1 || m[0].GetLabel()[0].GetValue() != "500" || m[0].GetCounter().GetValue() != 1 {
		t.Errorf("%v", m)
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("on purpose") }
