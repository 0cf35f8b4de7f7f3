// Package page has the gateway's pages, which web/ builds: a chat for users, and keys, budgets and usage for
// operators. They are static files. Their data comes from the gateway's API, by the token in the browser's tab.
package page

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
)

//go:embed assets
var assets embed.FS

// Policy allows a page only its own files and its own gateway: no script or style in the HTML, no frame around it,
// nothing from other hosts (Content Security Policy Level 3). No text can become HTML in it (Trusted Types).
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}

// file serves one file. Browsers must not cache it: it is small, and changes with the gateway.
func file(name, kind string) http.Handler {
	text, err := fs.ReadFile(assets, "assets/"+name+"."+kind)
	if err != nil {
		panic(fmt.Sprintf("page: %v: scripts/web.sh builds it", err)) // it is part of the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Headers(w.Header())
		w.Header().Set("Content-Type", types[kind])
		_, _ = w.Write(text) // a client that has gone needs no page
	})
}

// Headers sets the header fields of all files of a page.
func Headers(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Chat adds the page to chat in to a mux, at its root.
func Chat(mux *http.ServeMux) {
	mux.Handle("GET /{$}", file("chat", "html"))
	mux.Handle("GET /page.js", file("page", "js"))
	mux.Handle("GET /page.css", file("page", "css"))
}

// Keys returns the operator's page, to be served below a path that ends in a slash. It gets its data from list.
func Keys(path string, list http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+path+"{$}", file("keys", "html"))
	mux.Handle("GET "+path+"page.js", file("page", "js"))
	mux.Handle("GET "+path+"page.css", file("page", "css"))
	mux.Handle("GET "+path+"list", list)
	return mux
}
