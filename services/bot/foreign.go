package bot

import (
	"net/http"
	"strings"

	"dyno/services/internal/serve"
)

// guarded refuses foreign requests at a gateway that asks nobody for a key, but for those of pages that AllowOrigins names. Sockets in the
// file system are not for browsers, and who uses the Handler alone has a guard of their
// own.
func (g *Gateway) guarded(next http.Handler) http.Handler {
	if g.open == nil || g.cfg.Listen == "" || strings.HasPrefix(g.cfg.Listen, "unix:") {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve.Foreign(r); err != nil && (err.Header == "host" || !g.cfg.allowsOrigin(r.Header.Get("Origin"))) {
			code := "foreign_origin"
			if err.Header == "host" {
				code = "foreign_host"
			}
			refused := refuse(http.StatusForbidden, code, "%v", err)
			refused.answer(w, g.cfg.WriteTimeout)
			g.stats.request("foreign", refused.status, 0)
			return
		}
		next.ServeHTTP(w, r)
	})
}
