// Package console is the control plane's page for people: files for a browser, embedded. The page gets its data from
// the API at the same address, with the token that its user has entered. It sends no other requests. Its sources are
// in web/src/console; scripts/web.sh builds it.
package console

import (
	"bytes"
	"embed"
	"net/http"
	"time"
)

//go:embed assets
var assets embed.FS

// Path is where the page is.
const Path = "/console/"

// policy allows the page only its own files: no script or style in the HTML, no frame
// around it, nothing from other hosts (Content Security Policy Level 3). Text cannot
// become HTML in it (Trusted Types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Files returns the handlers of GET requests, by patterns of http.ServeMux.
func Files() map[string]http.Handler {
	return map[string]http.Handler{
		"/console":           http.RedirectHandler(Path, http.StatusTemporaryRedirect),
		Path + "{$}":         file("page.html"),
		Path + "console.js":  file("console.js"),
		Path + "console.css": file("console.css"),
	}
}

// file serves one of the assets. Browsers must not cache it: another program may use the address later.
func file(name string) http.Handler {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it was there when this was compiled
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	})
}
