package cli

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dyno/internal/exit"
)

// A proxy counts what goes through it: requests and tunnels.
type proxy struct{ requests, tunnels atomic.Int64 }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, ok := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth(); !ok || user != "user" || password != "S3CRETVALUE123" {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		if !r.URL.IsAbs() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.requests.Add(1)
		(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = "" }}).ServeHTTP(w, r)
		return
	}
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	p.tunnels.Add(1)
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(from, to)
	_ = from.Close()
	copying.Wait()
}

// Loads go through a forward proxy, whose password is neither kept nor shown.
func TestProxy(t *testing.T) {
	p := &proxy{}
	through := httptest.NewServer(p)
	defer through.Close()
	var asked, wrong atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Proxy-Authorization") != "" || r.URL.IsAbs() {
			wrong.Add(1)
		}
		if r.URL.Path == "/first" {
			http.Redirect(w, r, "/second", http.StatusFound)
		}
	})
	plain := httptest.NewServer(handler)
	defer plain.Close()
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	nobody := "https://127.0.0.1:1/"

	address := strings.TrimPrefix(through.URL, "http://")
	url := "http://user:S3CRETVALUE123@" + address
	rows := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(rows, []byte("id\na\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name              string
		args              []string
		code              int
		asked             int64 // of the target
		requests, tunnels int64 // of the proxy
		refusal           string
	}{
		{"http", []string{"--proxy", url, plain.URL}, exit.Done, 20, 20, 0, "through " + address},
		{"http, redirected", []string{"-L", "--proxy", url, plain.URL + "/first"}, exit.Done, 40, 40, 0, "20 followed"},
		{"http, rows", []string{"--data-file", rows, "--proxy", url, plain.URL + "/{{id}}"}, exit.Done, 20, 20, 0, "through " + address},
		{"https", []string{"--insecure", "--http1", "--proxy", url, secure.URL}, exit.Done, 20, 0, 2, "HTTP/1.1 · TLS 1.3"},
		{"https, HTTP/2", []string{"--insecure", "--proxy", url, secure.URL}, exit.Done, 20, 0, 2, "HTTP/2 · TLS 1.3"},
		{"http without the password", []string{"--proxy", "http://" + address, plain.URL}, exit.Target, 0, 0, 0, "407 × 20"},
		{"https without the password", []string{"--insecure", "--proxy", "http://" + address, secure.URL}, exit.Target, 0, 0, 0,
			"dyno: the proxy " + address + " answered CONNECT by 407\nhint: check --proxy (target.proxy)"},
		{"https, nobody there", []string{"--proxy", url, nobody}, exit.Target, 0, 0, 0, "the proxy " + address + " answered CONNECT by 502"},
		{"no proxy there", []string{"--proxy", "http://127.0.0.1:1", plain.URL}, exit.Target, 0, 0, 0, "dyno: the proxy 127.0.0.1:1 refused the connection\nhint: check --proxy"},
		{"HTTP/2 without TLS", []string{"--http2", "--proxy", url, plain.URL}, exit.Usage, 0, 0, 0, "HTTP/2 without TLS goes through no proxy"},
		{"a Unix socket", []string{"--unix", "/s", "--proxy", url, plain.URL}, exit.Usage, 0, 0, 0, "the proxy looks for the target by its URL"},
		{"without a scheme", []string{"--proxy", strings.TrimPrefix(url, "http://"), plain.URL}, exit.Done, 20, 20, 0, "through " + address},
		{"another protocol", []string{"--proxy", "socks5://user:S3CRETVALUE123@proxy:1", plain.URL}, exit.Usage, 0, 0, 0, "want http://host:port or http://user:password@host:port"},
	} {
		asked.Store(0)
		p.requests.Store(0)
		p.tunnels.Store(0)
		out := filepath.Join(t.TempDir(), "out")
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), append([]string{"http", "-q", "-n", "20", "-c", "2", "-o", out}, tt.args...), nil, &stdout, &stderr)
		text := stdout.String() + stderr.String()
		if code != tt.code || !strings.Contains(text, tt.refusal) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", tt.name, code, tt.code, tt.refusal, text)
		}
		if asked.Load() != tt.asked || p.requests.Load() != tt.requests || p.tunnels.Load() != tt.tunnels || wrong.Load() > 0 {
			t.Errorf("%s: the target was asked %d times, by %d requests of the proxy and %d tunnels; %d were wrong", tt.name, asked.Load(), p.requests.Load(), p.tunnels.Load(), wrong.Load())
		}
		if strings.Contains(text, "S3CRETVALUE123") || strings.Contains(stdout.String(), "\n  server ") {
			t.Errorf("%s: the password or a server is shown:\n%s", tt.name, text)
		}
		if err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if bytes.Contains(content, []byte("S3CRETVALUE123")) || bytes.Contains(content, []byte("dXNlcjpTM0NSRVRWQUxVRTEyMw")) {
				t.Errorf("%s: %s holds the password", tt.name, path)
			}
			return err
		}); err != nil && code == exit.Done {
			t.Error(err)
		}
	}
}
