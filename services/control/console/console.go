// Package console is the control plane's page for people: files for a browser, embedded. The page gets its data from
// the API at the same address, with the token that its user has entered. It sends no other requests. Its sources are
// in web/src/console; scripts/web.sh builds it.
package console

import (
	"embed"
	"net/http"

	"dyno/services/internal/serve"
)

//go:embed assets
var assets embed.FS

// Path is where the page is.
const Path = "/console/"

// Files returns the handlers of GET requests, by patterns of http.ServeMux.
func Files() map[string]http.Handler {
	return map[string]http.Handler{
		"/console":           http.RedirectHandler(Path, http.StatusTemporaryRedirect),
		Path + "{$}":         serve.PageFile(assets, "page.html"),
		Path + "console.js":  serve.PageFile(assets, "console.js"),
		Path + "console.css": serve.PageFile(assets, "console.css"),
	}
}
