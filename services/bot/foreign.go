package bot

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guarded refuses foreign requests at a gateway that asks nobody for a key. Sockets in the
// file system are not for browsers, and who uses the Handler alone has a guard of their
// own.
func (g *Gateway) guarded(next http.Handler) http.Handler {
	if g.open == nil || g.cfg.Listen == "" || strings.HasPrefix(g.cfg.Listen, "unix:") {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := foreign(r); refused != nil {
			refused.answer(w, g.cfg.WriteTimeout)
			g.stats.request("foreign", refused.status, 0)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign refuses what a browser sends on behalf of another site's page: the page would
// chat at the cost of whoever looks at it. It comes from the page's own origin, or by a
// name of the page's that was made to lead here (DNS rebinding).
func foreign(r *http.Request) *refusal {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if a, err := netip.ParseAddr(host); !strings.EqualFold(host, "localhost") && (err != nil || !a.IsLoopback()) {
		return refuse(http.StatusForbidden, "foreign_host", "host: %q: a gateway without API keys answers to this machine's own names only", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, "http://"+r.Host) {
		return refuse(http.StatusForbidden, "foreign_origin", "origin: %q: a gateway without API keys answers to no other site's page", origin)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return refuse(http.StatusForbidden, "foreign_origin", "sec-fetch-site: %s: a gateway without API keys answers to no other site's page", site)
	}
	return nil
}
