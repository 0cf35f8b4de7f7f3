package serve

import (
	"fmt"
	"html"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
)

// pages are the admin's pages, in the order of its home page.
var pages = [...]struct{ path, about string }{
	{"/debug/pprof/", "profiles: cpu, heap, allocs, goroutine, mutex, block, trace"},
	{"/metrics", "metrics in Prometheus' text format"},
	{"/healthz", "200 while the process runs"},
	{"/readyz", "200 while the service accepts work, otherwise 503, such as before and while draining"},
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
		if p.Changes {
			mux.Handle(p.Path, http.NewCrossOriginProtection().Handler(p.Handler)) // a browser shows the token to any site
			continue
		}
		mux.Handle("GET "+p.Path, p.Handler)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{Registry: h.registry}))
	open := http.NewServeMux()
	h.health(open)
	switch {
	case h.token != nil || h.cfg.Operators != nil:
		open.Handle("/", h.guard(mux))
	case Guarded(h.cfg.Admin):
		open.Handle("/", homely(mux))
	default:
		open.Handle("/", mux)
	}
	return open
}

// health adds the paths for probes. These have no credentials, and some have no host name; they get a word or a
// sentence.
func (h *Host) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := state(h.state.Load())
		accepts, wrong := s == ready, ""
		if accepts && h.cfg.Health != nil {
			accepts, wrong = h.cfg.Health()
		}
		if !accepts {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if accepts || wrong == "" {
			_, _ = fmt.Fprintln(w, s)
		}
		if wrong != "" {
			_, _ = fmt.Fprintln(w, wrong)
		}
	})
}

// A token is long enough not to be guessed, and fits into a header.
const (
	minToken = 16
	maxToken = 1024
)

// An AdminListener configures a service's admin listener: its address and its token. It is part of the services'
// configurations.
type AdminListener struct {
	Admin          string `yaml:"admin" otherwise:"none" doc:"address of the service's own pages, /metrics, /healthz, /readyz and /debug/pprof; GET / lists them"`
	AdminTokenFile string `yaml:"admin_token_file" kind:"path" doc:"the file of the token for admin, with at least 16 bytes, sent as a bearer token or a password. /healthz and /readyz need none. Required unless admin is a loopback address"`
}

// Check reports every fault. It reads the token's file.
func (l AdminListener) Check(r *fields.Report, allowRemote bool) {
	if l.Admin != "" {
		CheckListener(r, "admin", l.Admin, allowRemote)
		if a, err := ParseAddress(l.Admin); err == nil && !a.Local() && l.AdminTokenFile == "" {
			r.Fault("admin_token_file", "is missing: any client of the admin listener could read profiles and metrics", "give --admin-token-file")
		}
	}
	_, err := l.token()
	r.Error("admin_token_file", err)
}

// token reads the token; nil is none.
func (l AdminListener) token() ([]byte, error) {
	if l.AdminTokenFile == "" {
		return nil, nil
	}
	token, err := secretfile.Read(l.AdminTokenFile)
	if err != nil {
		return nil, err
	}
	if n := len(token); n < minToken || n > maxToken {
		return nil, fmt.Errorf("%s: %d bytes; must have %d to %d", l.AdminTokenFile, n, minToken, maxToken)
	}
	return token, nil
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
