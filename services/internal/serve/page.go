package serve

import (
	"embed"
	"fmt"
	"net/http"
	"path"
)

// PagePolicy allows a page only its own files and its own server: no script or style in the HTML, no frame around it,
// nothing from other hosts (Content Security Policy Level 3). No text can become HTML in it (Trusted Types).
const PagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// PageFile serves a file of a page, from the folder assets. Browsers must not cache it: it is small, and changes with
// the program. Another program may use the address later.
func PageFile(assets embed.FS, name string) http.Handler {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(fmt.Sprintf("page: %v: scripts/web.sh builds it", err)) // it is part of the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Content-Security-Policy", PagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(text) // a client that has gone needs no page
	})
}
