package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"html"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// pages are the admin's pages, in the order of its home page.
var pages = [...]struct{ path, about string }{
	{"/debug/pprof/", "profiles: cpu, heap, allocs, goroutine, mutex, block, trace"},
	{"/metrics", "metrics in Prometheus' text format"},
	{"/healthz", "200 while the process runs"},
	{"/readyz", "200 while the service accepts work, 503 before and while draining"},
}

// handler builds the admin's pages on a mux of their own, because any package can add to
// the default mux.
func (h *Host) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/{$}", h.home)
	mux.Handle("GET /{$}", http.RedirectHandler("/debug/", http.StatusFound))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	for _, p := range h.cfg.Pages {
		mux.Handle("GET "+p.Path, p.Handler)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{Registry: h.registry}))
	open := http.NewServeMux()
	h.health(open)
	switch {
	case h.cfg.AdminToken != nil:
		open.Handle("/", guard(h.cfg.AdminToken, mux))
	case Guarded(h.cfg.Admin):
		open.Handle("/", homely(mux))
	default:
		open.Handle("/", mux)
	}
	return open
}

// health adds what probes ask for. They have no credentials, some have no name of a host, and they learn one word.
func (h *Host) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := state(h.state.Load())
		if s != ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, s)
	})
}

// A token is at least so long that nobody guesses it, and at most what fits into a header.
const (
	minToken = 16
	maxToken = 1024
)

// CheckToken returns nil if a token is one to ask for. The error names the field.
func CheckToken(field string, token []byte) error {
	if n := len(token); n < minToken || n > maxToken {
		return fmt.Errorf("%s: %d bytes: must have %d to %d", field, n, minToken, maxToken)
	}
	return nil
}

// guard has pages ask for a token: as a bearer's (RFC 6750), as programs send it, or as the
// password of any user (RFC 7617), which browsers ask for.
func guard(token []byte, pages http.Handler) http.Handler {
	want := sha256.Sum256(token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, shown, basic := r.BasicAuth()
		if scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " "); !basic && strings.EqualFold(scheme, "Bearer") {
			shown = strings.TrimSpace(rest)
		}
		// Hashes are of one length, and what they have in common tells nothing of the token.
		if got := sha256.Sum256([]byte(shown)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="admin", charset="UTF-8"`)
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "the admin listener's token is needed, as a bearer token or as a password", http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

func (h *Host) home(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	name := html.EscapeString(h.cfg.Name)
	_, _ = fmt.Fprintf(w, "<!doctype html><title>%s</title><h1>%s</h1><p>%s</p><ul>\n", name, name, state(h.state.Load()))
	item := func(path, about string) {
		_, _ = fmt.Fprintf(w, "<li><a href=%q>%s</a>: %s</li>\n", path, path, html.EscapeString(about))
	}
	for _, p := range h.cfg.Pages {
		item(p.Path, p.About)
	}
	for _, p := range pages {
		item(p.path, p.about)
	}
	_, _ = fmt.Fprintln(w, "</ul>")
}
