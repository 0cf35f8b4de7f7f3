package bot

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// exposed are the fields of answers that pages of other sites may read, beside those that any page may.
const exposed = "Retry-After, WWW-Authenticate, X-Dyno-Attempts, X-Dyno-Cache, X-Dyno-Id, X-Dyno-Queue-Seconds, X-Dyno-Upstream"

// preflightAge is for how long a browser need not ask once more, in seconds.
const preflightAge = "600"

// isOrigin tells whether text is an origin as browsers write it (RFC 6454, section 6.2). Extensions and apps have schemes of
// their own.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == text && text == strings.ToLower(text)
}

// allowsOrigin tells whether pages of an origin may read answers.
func (c *Config) allowsOrigin(origin string) bool {
	return origin != "" && (slices.Contains(c.AllowOrigins, origin) || slices.Contains(c.AllowOrigins, "*"))
}

// withCORS lets pages of other sites use the API, as AllowOrigins says (Fetch standard, section 3.2). Whoever asks shows a key
// or a token: browsers send none by themselves, and cookies mean nothing here.
func (g *Gateway) withCORS(next http.Handler) http.Handler {
	if len(g.cfg.AllowOrigins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, h := r.Header.Get("Origin"), w.Header()
		h.Add("Vary", "Origin") // also without one: requests with one get another answer
		if !g.cfg.allowsOrigin(origin) || !strings.HasPrefix(r.URL.Path, "/v1/") {
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
		if fields := r.Header.Get("Access-Control-Request-Headers"); fields != "" { // libraries have fields of their own
			h.Add("Vary", "Access-Control-Request-Headers")
			h.Set("Access-Control-Allow-Headers", fields)
		}
		h.Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
		g.stats.request("preflight", http.StatusNoContent, 0)
	})
}
