package plan

import (
	"net"
	"reflect"
	"slices"
	"strings"

	"dyno/internal/fields"
	"dyno/load/scenario"
)

// A protocol is what a target may speak. To add one is to write a file like tcp.go: a struct with the
// protocol's fields of a load, embedded in Load. The tags declare the fields, and the method validate
// judges them. Then add a line to protocols (types.go). Package protocols makes its load. Programs outside this module
// add theirs by Register.
type protocol struct {
	name   string   // in a file
	title  string   // of its targets, in messages
	groups []string // by which tags name it together with others
	validator

	over     string                                            // what reports write before the version of HTTP
	statuses func(text string) ([]scenario.StatusRange, error) // reads what a step expects; nil: as HTTP has them
	added    reflect.Type                                      // the struct of one that a program has added
}

// A validator reports faults across the fields of a variant and of the plan, which their tags cannot
// express.
type validator interface {
	validate(i *inspector, e *Experiment, v *Variant)
}

// The groups of protocols.
const (
	Loaded    = "loaded"    // the target is loaded, rather than run
	withURL   = "url"       // it has a URL, and connections begin with HTTP
	exchanges = "exchanges" // each request has one response
	scripted  = "scripted"  // users carry out scenarios
	requests  = "requests"  // whose steps are requests of HTTP
	messages  = "messages"  // whose steps send messages
	statuses  = "statuses"  // responses have statuses
	asScheme  = "scheme"    // URLs whose scheme is the protocol's name stand for it
)

// protocolNamed returns the protocol of a name; for any other name one that has nothing.
func protocolNamed(name string) protocol {
	if at := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == name }); at >= 0 {
		return protocols[at]
	}
	return protocol{}
}

// is tells whether a tag that names a protocol or a group means this one.
func (p protocol) is(name string) bool { return p.name == name || slices.Contains(p.groups, name) }

// Protocols returns the names of all there are.
func Protocols() []string {
	var names []string
	for _, p := range protocols {
		names = append(names, p.name)
	}
	return names
}

// Has tells whether targets of a protocol have the field at a path.
func Has(protocol, path string) bool {
	for ; path != ""; path = fields.Parent(path) {
		if !DeclaredAt(path).Of(protocol) {
			return false
		}
	}
	return true
}

// HasURL tells whether targets of a protocol are named by a URL, rather than by an address.
func HasURL(protocol string) bool { return protocolNamed(protocol).is(withURL) }

// Over writes what connections of a load speak over a version of HTTP, such as gRPC over HTTP/2. With muxed, they carry
// many requests at once.
func Over(v *Variant, muxed bool) string {
	p, version := protocolNamed(v.Target.Protocol), "HTTP/1.1"
	if v.Target.Protocol == WS {
		muxed = v.Load.WebSocket.HTTP2 // messages are many over any version
	}
	if muxed {
		version = "HTTP/2"
	}
	return p.over + version
}

// OfURLs returns the protocols that URLs can name: HTTP, and those whose name is a scheme.
func OfURLs() (names []string) {
	for _, p := range protocols {
		if p.name == HTTP || p.is(asScheme) {
			names = append(names, p.name)
		}
	}
	return names
}

// OfURL returns the protocol that the scheme of a URL names, and the rest of the URL. Any other URL is one
// of HTTP.
func OfURL(url string) (protocol, where string) {
	scheme, rest, found := strings.Cut(url, "://")
	if secure, ok := strings.CutPrefix(scheme, WS); ok && found && (secure == "" || secure == "s") {
		return WS, url
	}
	if found && protocolNamed(scheme).is(asScheme) {
		return scheme, rest
	}
	return HTTP, url
}

// CutUser returns a URL without the user and the password in it, and these as they are written.
func CutUser(url string) (without, user string, found bool) {
	scheme, rest, _ := strings.Cut(url, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 || strings.ContainsAny(scheme, "/?#") {
		return url, "", false
	}
	return scheme + "://" + rest[at+1:], rest[:at], true
}

// Complete fills in a missing address from the URL or the command, and a missing URL from the address.
// A program needs neither.
func (t *Target) Complete() {
	p := protocolNamed(t.Protocol)
	if rest, ok := strings.CutPrefix(t.URL, "ws"); ok && t.Protocol == WS { // ws://, wss://
		t.URL = "http" + rest
	}
	if t.Address == "" && p.is(withURL) {
		url, _, _ := CutUser(t.URL)
		authority, ok := strings.CutPrefix(url, "http://")
		port := ":80"
		if !ok {
			authority, ok = strings.CutPrefix(url, "https://")
			port = ":443"
		}
		if ok {
			if end := strings.IndexAny(authority, "/?#"); end >= 0 {
				authority = authority[:end]
			}
			t.Address = authority
			if _, _, err := net.SplitHostPort(placeholders(authority)); err != nil && authority != "" {
				t.Address += port
			}
		}
	}
	if t.Address == "" && p.is(Loaded) && len(t.Start) > 0 {
		t.Address = "127.0.0.1:{{port}}"
		if t.Agent != "" {
			t.Address = "{{host}}:{{port}}"
		}
	}
	if !p.is(withURL) || t.URL != "" || t.Address == "" {
		return
	}
	t.URL = "http://" + t.Address + "/"
	if strings.HasPrefix(t.Address, "unix:") {
		t.URL = "http://localhost/"
	}
}
