package observe

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// observeGoroutines asks until there is an answer, good or bad.
func observeGoroutines(t *testing.T, pprof string) (n float64, err error) {
	t.Helper()
	g, err := NewGoroutines("target", pprof)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	row := make([]float64, 1)
	until(t, "an answer", func() bool {
		err = g.Observe(row)
		return err != nil || !math.IsNaN(row[0])
	})
	return row[0], err
}

func TestGoroutines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/debug/pprof/goroutine?debug=1":
			fmt.Fprintf(w, "goroutine profile: total 4711\n%s", strings.Repeat("1 @ 0x1\n", 1<<20))
		case "/long/goroutine?debug=1":
			fmt.Fprint(w, strings.Repeat("x", 1<<20))
		case "/other/goroutine?debug=1":
			fmt.Fprintln(w, "hello")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, path := range []string{"/debug/pprof", "/debug/pprof/"} {
		if n, err := observeGoroutines(t, server.URL+path); err != nil || n != 4711 {
			t.Errorf("%s: %v, %v", path, n, err)
		}
	}
	for pprof, want := range map[string]string{
		server.URL + "/long":   "first line",
		server.URL + "/other":  "unexpected format",
		server.URL + "/none":   "status 404",
		"http://192.0.2.1:1/":  "192.0.2.1:1 is no loopback address",
		"http://127.0.0.1:1/x": "refused",
	} {
		if n, err := observeGoroutines(t, pprof); err == nil || !strings.Contains(err.Error(), want) || !math.IsNaN(n) {
			t.Errorf("%s: %v, %v; want %s", pprof, n, err, want)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:6060", "ftp://127.0.0.1/", "http://", "://"} {
		if _, err := NewGoroutines("target", bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
