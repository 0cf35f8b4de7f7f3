// Package page has the gateway's pages, which web/ builds: a chat for users, and keys, limits, deployments, usage and
// audit for operators. They are static files. Their data comes from the gateway's API, by the token in the browser's tab.
package page

import (
	"embed"
	"net/http"

	"dyno/services/internal/serve"
)

//go:embed assets
var assets embed.FS

// Chat adds the page to chat in to a mux, at its root.
func Chat(mux *http.ServeMux) { handle(mux, "/", "chat.html") }

// Keys returns the operator's page, to be served below a path that ends in a slash.
func Keys(path string) http.Handler {
	mux := http.NewServeMux()
	handle(mux, path, "keys.html")
	return mux
}

// handle adds a page and its script and style to a mux.
func handle(mux *http.ServeMux, path, page string) {
	mux.Handle("GET "+path+"{$}", serve.PageFile(assets, page))
	mux.Handle("GET "+path+"page.js", serve.PageFile(assets, "page.js"))
	mux.Handle("GET "+path+"page.css", serve.PageFile(assets, "page.css"))
}
