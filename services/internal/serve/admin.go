package serve

import (
	"fmt"
	"html"
	"net/http"
	"net/http/pprof"

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
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := state(h.state.Load())
		if s != ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, s)
	})
	return mux
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
