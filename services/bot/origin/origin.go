// Package origin decides which pages of other sites may use a gateway.
package origin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"dyno/services/bot/reply"
	"dyno/services/internal/serve"
)

// exposed are the response fields that pages of other sites may read: all, as upstreams have limits of many names. For
// requests with cookies, browsers take it for a field of that name (Fetch standard, section 3.3.3), but cookies are not
// allowed here.
const exposed = "*"

// preflightAge is for how long a browser may cache a preflight, in seconds.
const preflightAge = "600"

// Valid reports whether text is an origin as browsers write it (RFC 6454, section 6.2). Extensions and apps
// have schemes of their own.
func Valid(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == text && text == strings.ToLower(text)
}

// A Guard lets pages of some origins use a gateway, and those of no others.
type Guard struct {
	Allow   []string      // origins, or "*"
	Timeout time.Duration // of a refusal
	Count   func(route string, status int, took time.Duration)
}

// allows reports whether pages of an origin may read responses.
func (g Guard) allows(origin string) bool {
	return origin != "" && (slices.Contains(g.Allow, origin) || slices.Contains(g.Allow, "*"))
}

// Share lets pages of other sites use the API (Fetch standard, section 3.2). Each request needs a key or a token,
// which browsers do not send by themselves; cookies are ignored.
func (g Guard) Share(next http.Handler) http.Handler {
	if len(g.Allow) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, h := r.Header.Get("Origin"), w.Header()
		h.Add("Vary", "Origin") // always: requests with an origin get another response
		if !g.allows(origin) || !strings.HasPrefix(r.URL.Path, "/v1/") {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			h.Set("Access-Control-Expose-Headers", exposed)
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		if fields := r.Header.Get("Access-Control-Request-Headers"); fields != "" { // libraries add fields of their own
			h.Add("Vary", "Access-Control-Request-Headers")
			h.Set("Access-Control-Allow-Headers", fields)
		}
		h.Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
		g.Count("preflight", http.StatusNoContent, 0)
	})
}

// RefuseForeign refuses browsers' requests for other sites, except pages of allowed origins. It is for a gateway
// without keys.
func (g Guard) RefuseForeign(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve.Foreign(r); err != nil && (err.Header == "host" || !g.allows(r.Header.Get("Origin"))) {
			code := "foreign_origin"
			if err.Header == "host" {
				code = "foreign_host"
			}
			refused := reply.Refuse(http.StatusForbidden, code, "%v", err)
			refused.Answer(w, reply.FormOf(r.URL.Path), g.Timeout)
			g.Count("foreign", refused.Status, 0)
			return
		}
		next.ServeHTTP(w, r)
	})
}
