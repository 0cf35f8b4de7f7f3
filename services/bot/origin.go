package bot

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"dyno/services/bot/reply"
	"dyno/services/internal/serve"
)

// exposed are the response fields that pages of other sites may read, besides the usual ones.
const exposed = "Retry-After, WWW-Authenticate, X-Dyno-Attempts, X-Dyno-Cache, X-Dyno-Id, X-Dyno-Queue-Seconds, X-Dyno-Upstream"

// preflightAge is for how long a browser may cache a preflight, in seconds.
const preflightAge = "600"

// validOrigin reports whether text is an origin as browsers write it (RFC 6454, section 6.2). Extensions and apps
// have schemes of their own.
func validOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == text && text == strings.ToLower(text)
}

// An originGuard decides which pages of other sites may use a gateway.
type originGuard struct {
	allow   []string      // origins, or "*"
	timeout time.Duration // of a refusal
	count   func(route string, status int, took time.Duration)
}

// allows reports whether pages of an origin may read responses.
func (g originGuard) allows(origin string) bool {
	return origin != "" && (slices.Contains(g.allow, origin) || slices.Contains(g.allow, "*"))
}

// share lets pages of other sites use the API (Fetch standard, section 3.2). Each request needs a key or a token,
// which browsers do not send by themselves; cookies are ignored.
func (g originGuard) share(next http.Handler) http.Handler {
	if len(g.allow) == 0 {
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
		g.count("preflight", http.StatusNoContent, 0)
	})
}

// refuseForeign refuses browsers' requests for other sites, except pages of allowed origins. It is for a gateway
// without keys.
func (g originGuard) refuseForeign(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve.Foreign(r); err != nil && (err.Header == "host" || !g.allows(r.Header.Get("Origin"))) {
			code := "foreign_origin"
			if err.Header == "host" {
				code = "foreign_host"
			}
			refused := reply.Refuse(http.StatusForbidden, code, "%v", err)
			refused.Answer(w, g.timeout)
			g.count("foreign", refused.Status, 0)
			return
		}
		next.ServeHTTP(w, r)
	})
}
