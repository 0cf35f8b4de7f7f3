package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/fields"
	"dyno/internal/hangup"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		text  string
		local bool
	}{
		{"127.0.0.1:80", true}, {"127.8.8.8:0", true}, {"[::1]:80", true}, {"localhost:80", true},
		{"[::ffff:127.0.0.1]:80", true}, {"unix:/run/x", true},
		{":80", false}, {"0.0.0.0:80", false}, {"[::]:80", false}, {"192.0.2.1:80", false}, {"example.org:80", false},
	} {
		a, err := ParseAddress(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if a.Local() != c.local {
			t.Errorf("%q: local is %v", c.text, a.Local())
		}
		if a.String() != c.text {
			t.Errorf("%q became %q", c.text, a)
		}
	}
	for _, text := range []string{"", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80", "unix:", "unix:" + strings.Repeat("x", 108)} {
		if a, err := ParseAddress(text); err == nil {
			t.Errorf("%q: accepted as %v", text, a)
		}
	}
}

func TestCheckListener(t *testing.T) {
	for _, c := range []struct {
		text   string
		remote bool
		want   string // "" is no fault
	}{
		{"127.0.0.1:80", false, ""},
		{"0.0.0.0:80", false, `listen: "0.0.0.0:80" can be reached`},
		{"0.0.0.0:80", true, ""},
		{"nonsense", true, `listen: "nonsense"; want host:port`},
		{"", true, "listen: is missing"},
	} {
		err := fields.Validate(struct{}{}, func(r *fields.Report) { CheckListener(r, "listen", c.text, c.remote) })
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestListenReplacesOnlyDeadSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(t.Context(), "unix:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, nil); err == nil {
		t.Fatal("took over a socket that is in use")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = first.Close()
	second, err := Listen(t.Context(), "unix:"+path, nil)
	if err != nil {
		t.Fatalf("a dead process's socket: %v", err)
	}
	_ = second.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, nil); err == nil {
		t.Fatal("replaced a file")
	}
}

// A TCP address that is given back during Listen is taken; one that stays in use is refused.
func TestListenWaitsForTheAddress(t *testing.T) {
	before, err := Listen(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	address := before.Addr().String()
	if _, err := Listen(t.Context(), address, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address in use: %v", err)
	}
	tries := 0
	after, err := Listen(t.Context(), address, func(string, string, syscall.RawConn) error {
		if tries++; tries == 3 {
			return before.Close()
		}
		return nil
	})
	if err != nil {
		t.Fatalf("given back before try 3: %v", err)
	}
	_ = after.Close()
}

// secretFile makes a file that has a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAdminToken: who reaches the admin listener from elsewhere needs a token, and a file that is named has one.
func TestAdminToken(t *testing.T) {
	token := secretFile(t, "0123456789abcdef")
	for _, c := range []struct {
		admin, file string
		remote      bool
		want        string // of the fault; "" is none
	}{
		{"", "", false, ""},
		{"127.0.0.1:0", "", false, ""},
		{"unix:x", "", false, ""},
		{"0.0.0.0:0", token, false, "can be reached"},
		{"0.0.0.0:0", "", true, "admin_token_file: is missing"},
		{":0", "", true, "admin_token_file: is missing"},
		{"host:0", "", true, "admin_token_file: is missing"},
		{"0.0.0.0:0", token, true, ""},
		{"127.0.0.1:0", token, false, ""},
		{"127.0.0.1:0", token + ".none", false, "admin_token_file: open"},
	} {
		l := AdminListener{c.admin, c.file}
		err := fields.Validate(l, func(r *fields.Report) { l.Check(r, c.remote) })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestToken: the pages are for those who show the token, in one of two ways; health is for
// everybody.
func TestToken(t *testing.T) {
	const token = "a-token-of-the-test"
	h, err := New(Config{Name: "test", AdminListener: AdminListener{"127.0.0.1:0", secretFile(t, token)}})
	if err != nil {
		t.Fatal(err)
	}
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	handler := h.handler()
	for _, c := range []struct {
		name, method, path, shown string
		want                      int
	}{
		{"nothing", "GET", "/metrics", "", 401},
		{"profiles", "GET", "/debug/pprof/cmdline", "", 401},
		{"what is not there", "GET", "/nothing", "", 401},
		{"another token", "GET", "/metrics", "Bearer " + token + "x", 401},
		{"the beginning of the token", "GET", "/metrics", "Bearer " + token[:16], 401},
		{"no scheme", "GET", "/metrics", token, 401},
		{"the token as a user", "GET", "/metrics", basic(token, ""), 401},
		{"another password", "GET", "/metrics", basic("x", token+"x"), 401},
		{"a bearer", "GET", "/metrics", "Bearer " + token, 200},
		{"a bearer in small letters", "GET", "/metrics", "bearer " + token, 200},
		{"a password", "GET", "/debug/", basic("operator", token), 200},
		{"health", "GET", "/healthz", "", 200},
		{"readiness", "GET", "/readyz", "", 503},
		{"another method", "POST", "/healthz", "", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w := httptest.NewRequest(c.method, c.path, nil), httptest.NewRecorder()
			if c.shown != "" {
				r.Header.Set("Authorization", c.shown)
			}
			handler.ServeHTTP(w, r)
			if asks := w.Header().Get("WWW-Authenticate") != ""; w.Code != c.want || asks != (c.want == 401) {
				t.Errorf("%d, want %d; asks for a password: %v", w.Code, c.want, asks)
			}
		})
	}
}

// part serves until drained, which waits for release or the deadline.
func part(name string, release <-chan struct{}) (Part, <-chan struct{}) {
	draining, done := make(chan struct{}), make(chan struct{})
	return Part{
		Name:  name,
		Serve: func() error { <-done; return nil },
		Drain: func(ctx context.Context) int {
			defer close(done)
			close(draining)
			select {
			case <-release:
				return 0
			case <-ctx.Done():
				return 1
			}
		},
	}, draining
}

// TestLife follows a service's life on its admin pages.
func TestLife(t *testing.T) {
	page := Page{Path: "/own", About: "of the service", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") })}
	type healthy struct {
		accepts bool
		wrong   string
	}
	var health atomic.Pointer[healthy]
	health.Store(&healthy{accepts: true})
	h, err := New(Config{Name: "test", AdminListener: AdminListener{Admin: "127.0.0.1:0"}, DrainTimeout: time.Minute, Pages: []Page{page}, Health: func() (bool, string) { h := health.Load(); return h.accepts, h.wrong }})
	if err != nil {
		t.Fatal(err)
	}
	if h.AdminAddr() != nil {
		t.Error("an address before listening")
	}
	if err := h.Listen(); err != nil {
		t.Fatal(err)
	}
	if h.admin.ErrorLog == nil {
		t.Error("what net/http says of the admin listener goes to standard error as it is")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + h.AdminAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}

	release := make(chan struct{})
	p, draining := part("work", release)
	ctx, cancel := context.WithCancel(t.Context())
	serving := make(chan struct{})
	serve := p.Serve
	p.Serve = func() error { close(serving); return serve() }
	ran := make(chan error, 1)
	go func() { ran <- h.Run(ctx, p) }()
	<-serving
	for code := 0; code != http.StatusOK; { // ready comes just after serving
		code, _ = get("/readyz")
	}
	for path, want := range map[string]string{
		"/debug/": "/metrics", "/": "/metrics", "/healthz": "ok", "/metrics": "go_sched_latencies_seconds_bucket",
		"/debug": "of the service", "/own": "mine",
		"/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "serve",
	} {
		if code, body := get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d without %q", path, code, want)
		}
	}
	if code, _ := get("/nothing"); code != http.StatusNotFound {
		t.Errorf("/nothing: %d", code)
	}
	for wrong, accepts := range map[string]bool{"a little": true, "very much": false} {
		health.Store(&healthy{accepts, wrong})
		want, text := http.StatusOK, "ready\n"+wrong+"\n"
		if !accepts {
			want, text = http.StatusServiceUnavailable, wrong+"\n"
		}
		if code, body := get("/readyz"); code != want || body != text {
			t.Errorf("/readyz, %s wrong: %d %q", wrong, code, body)
		}
	}
	cancel()
	<-draining
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || body != "draining\n" {
		t.Errorf("/readyz while draining: %d %q", code, body)
	}
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz while draining: %d", code)
	}
	close(release)
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := net.Dial("tcp", h.AdminAddr().String()); err == nil {
		t.Error("the admin listener still answers")
	}
}

// A service reads its configuration again at each SIGHUP. A fault of that ends nothing.
func TestReload(t *testing.T) {
	read := make(chan struct{})
	h, err := New(Config{Name: "test", DrainTimeout: time.Hour, Reload: func() error {
		read <- struct{}{}
		return errors.New("a fault")
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = hangup.Watch(ctx, func() { t.Error("it ends") })
	hangup.Outlive(ctx)
	ended := make(chan error, 1)
	release := make(chan struct{})
	serving, _ := part("serving", release)
	go func() { ended <- h.Run(ctx, serving) }()
	for range 2 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-read
	}
	cancel()
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{Name: "test", DrainTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		stuck, _ := part("stuck", nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if err := h.Run(ctx, stuck); err != nil {
			t.Errorf("Run: %v", err)
		}
		if d := time.Since(start); d != time.Hour {
			t.Errorf("drained for %v, want 1h", d)
		}
	})
}

// TestFailingPartEndsAll: the others are drained, and the error names the part.
func TestFailingPartEndsAll(t *testing.T) {
	h, err := New(Config{Name: "test", DrainTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	close(release)
	good, _ := part("good", release)
	broken := errors.New("broken")
	err = h.Run(t.Context(), good,
		Part{Name: "bad", Serve: func() error { return broken }, Drain: func(context.Context) int { return 0 }})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "bad: ") {
		t.Errorf("got %v", err)
	}

	h, err = New(Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	err = h.Run(t.Context(), Part{Name: "lazy", Serve: func() error { return nil }, Drain: func(context.Context) int { return 0 }})
	if err == nil || err.Error() != "lazy: stopped unasked" {
		t.Errorf("got %v", err)
	}
}

// A page that takes changes gets requests of all methods, and none that another site's page has made a browser send with
// the token.
func TestChanges(t *testing.T) {
	page := Page{Path: "/own/", Changes: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) })}
	h, err := New(Config{Pages: []Page{page}})
	if err != nil {
		t.Fatal(err)
	}
	h.token = []byte("a token of an operator")
	for site, want := range map[string]int{"": http.StatusOK, "same-origin": http.StatusOK, "cross-site": http.StatusForbidden} {
		r := httptest.NewRequest(http.MethodPost, "/own/below", http.NoBody)
		r.SetBasicAuth("", string(h.token))
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		h.handler().ServeHTTP(w, r)
		if w.Code != want || want == http.StatusOK && w.Body.String() != http.MethodPost {
			t.Errorf("%q: %d %s", site, w.Code, w.Body)
		}
	}
}
