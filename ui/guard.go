package ui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/texts"
)

// pagePolicy allows the page only its own files: no script or style in the HTML, no frame
// around it, nothing from other hosts (Content Security Policy Level 3). Text cannot
// become HTML in it (Trusted Types).
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// reportPolicy is the policy of a report, which contains its script and style. The report has its own
// policy in addition. The sandbox gives it an origin of its own: whatever a run contains, it reaches
// neither the token nor the API.
const reportPolicy = "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A guard decides which requests are answered.
type guard struct {
	token []byte
	hosts []string // allowed values of Host
}

// newGuard makes a token that cannot be guessed.
func newGuard() *guard {
	b := make([]byte, 24)
	rand.Read(b) // never fails, says its documentation
	return &guard{token: []byte(base64.RawURLEncoding.EncodeToString(b))}
}

// listening sets the names under which the listener may be addressed.
func (g *guard) listening(at netip.AddrPort) {
	g.hosts = []string{at.String(), "localhost:" + strconv.Itoa(int(at.Port()))}
}

// refuses returns why a request is not answered at all, or nil. Requests without Origin
// and Sec-Fetch-Site do not come from a browser, or are a browser's own navigation. Names
// that resolve to loopback but are not the listener's are an attack (DNS rebinding).
func (g *guard) refuses(r *http.Request) error {
	if !slices.Contains(g.hosts, r.Host) {
		return texts.NewError("refused.host")
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return texts.NewError("refused.site", "name", "origin")
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "" || site == "same-origin":
	case site == "none" && (r.Method == http.MethodGet || r.Method == http.MethodHead): // typed, or from a bookmark
	default:
		return texts.NewError("refused.site", "name", "sec-fetch-site")
	}
	return nil
}

// knows reports whether a request has the token.
func (g *guard) knows(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), g.token) == 1
}

// key opens the report of one run, and nothing else. It is in a URL, where more people
// see it than the token.
func (g *guard) key(id string) string {
	m := hmac.New(sha256.New, g.token)
	m.Write([]byte("report\x00" + id))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:18])
}

// opens reports whether a key belongs to the run's report.
func (g *guard) opens(key, id string) bool {
	return subtle.ConstantTimeCompare([]byte(key), []byte(g.key(id))) == 1
}

// headers sets the headers of every answer.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
