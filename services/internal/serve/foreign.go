package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// A ForeignError is why a request is another site's.
type ForeignError struct {
	Header, Value string
}

func (e *ForeignError) Error() string {
	if e.Header == "host" {
		return fmt.Sprintf("host: %q: a listener that asks for no secret answers to this machine's own names only", e.Value)
	}
	return fmt.Sprintf("%s: %q: a listener that asks for no secret answers to no other site's page", e.Header, e.Value)
}

// Foreign returns an error for a browser's request for another site's page, which could read local users' data. The
// request names the page's origin, or comes by a name of the page that leads here (DNS rebinding). It is for
// listeners on loopback that ask for no secret.
func Foreign(r *http.Request) *ForeignError {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if a, err := netip.ParseAddr(host); !strings.EqualFold(host, "localhost") && (err != nil || !a.Unmap().IsLoopback()) {
		return &ForeignError{"host", r.Host}
	}
	own := "http://" + r.Host
	if r.TLS != nil {
		own = "https://" + r.Host
	}
	if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, own) {
		return &ForeignError{"origin", origin}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return &ForeignError{"sec-fetch-site", site}
	}
	return nil
}

// Guarded reports whether a listener without secrets must refuse foreign requests: if it is on loopback. Browsers cannot
// reach sockets in the file system, and other sites' pages reach what is not local anyway.
func Guarded(listen string) bool {
	a, err := ParseAddress(listen)
	return err == nil && a.Network == "tcp" && a.Local()
}

// homely refuses foreign requests.
func homely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Foreign(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
