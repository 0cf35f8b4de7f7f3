package plan

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/load/scenario"
	"dyno/load/wire/http1"
)

// HTTP is the protocol of requests over HTTP/1.1 and HTTP/2.
const HTTP = "http"

var httpProtocol = protocol{
	name: HTTP, title: "HTTP", validator: HTTPLoad{},
	groups: []string{Loaded, withURL, exchanges, scripted, requests, statuses},
}

// An HTTPLoad is what a load has for HTTP.
type HTTPLoad struct {
	Request *Request `yaml:"request" default:"{}" doc:"the request that is repeated"`
}

// When HTTP/2 is spoken.
const (
	HTTP2Auto   = "auto"   // with https, if the server chooses it
	HTTP2Always = "always" // with http by prior knowledge, with https if the server agrees and else not at all
	HTTP2Never  = "never"  // HTTP/1.1
)

// An HTTP2 says when HTTP/2 is spoken, and how. A window of 0 is that without it, much as
// browsers have.
type HTTP2 struct {
	Use              string `yaml:"use" oneof:"auto always never" default:"auto" doc:"when; auto: with https, if the server chooses it, and always for gRPC, but not for gRPC-Web; always: with http by prior knowledge, with https or not at all; never"`
	Streams          int    `yaml:"streams" range:"1..10000" default:"1" flag:"streams" doc:"HTTP/2: requests under way at once on a connection, if the server lets it"`
	StreamWindow     int    `yaml:"stream_window" kind:"size" range:"1..2147483647" otherwise:"4MiB" flag:"stream-window" doc:"HTTP/2: bytes of one response that may be under way"`
	ConnectionWindow int    `yaml:"connection_window" kind:"size" range:"65535..2147483647" otherwise:"16MiB" flag:"connection-window" doc:"HTTP/2: bytes of all responses that may be under way on a connection"`
}

// A TLS says how connections to an https target are secured. Empty fields have the defaults
// of crypto/tls, except for the groups.
type TLS struct {
	Insecure     bool     `yaml:"insecure" flag:"insecure,k" doc:"https: do not check the server's certificate"`
	ServerName   string   `yaml:"server_name" flag:"server-name" otherwise:"the URL's host" doc:"https: the name that is asked for, and that the certificate must be for"`
	CA           string   `yaml:"ca" kind:"path" flag:"cacert" otherwise:"the system's" doc:"https: a file of authorities to trust, PEM"`
	Certificate  string   `yaml:"certificate" kind:"path" flag:"cert" doc:"https: a file with this side's certificate, for servers that ask for one"`
	Key          string   `yaml:"key" kind:"path" flag:"key" doc:"https: the file with the certificate's key"`
	MinVersion   string   `yaml:"min_version" oneof:"1.2 1.3" otherwise:"1.2" flag:"tls-min" doc:"https: the oldest version"`
	MaxVersion   string   `yaml:"max_version" oneof:"1.2 1.3" otherwise:"1.3" flag:"tls-max" doc:"https: the newest version"`
	CipherSuites []string `yaml:"cipher_suites" most:"100" otherwise:"those of crypto/tls" doc:"of TLS 1.2, by IANA's names or OpenSSL's"`
	Groups       []string `yaml:"groups" most:"100" otherwise:"x25519 and secp256r1" doc:"of the key exchange"`
	Tickets      bool     `yaml:"tickets" flag:"tls-tickets" doc:"https: resume sessions by tickets"`
}

// A Request is the one HTTP request repeated.
type Request struct {
	Method   string            `yaml:"method" like:"token" otherwise:"GET, or POST with a body" flag:"method,X" doc:"request method"`
	Path     string            `yaml:"path" otherwise:"those of target.url" doc:"path and query"`
	Headers  []scenario.Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of each request, in this order"`
	Body     string            `yaml:"body,orfile" kind:"word" flag:"body" doc:"the request's content"`
	BodyFile string            `yaml:"body_file" kind:"path" doc:"the file with the content, relative to this one, in place of body; templates in it are not replaced"`
	Follow   bool              `yaml:"follow_redirects" flag:"location,L" doc:"follow redirects on the same host, at most 10 in a row; the response time runs until the last byte of the final response"`
}

// validate judges the one request of an HTTP load, and how it is spoken.
func (HTTPLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.http2(&v.Target, v.Load.HTTP2)
	i.tls(&v.Target)
	i.proxy(&v.Target, v.Load.HTTP2)
	i.traces(&v.Load)
	const path = "load.request"
	if v.Load.Scenario != nil {
		if !reflect.DeepEqual(v.Load.Request, DefaultVariant(HTTP).Load.Request) {
			i.fault(path, "request and scenario exclude each other", "move it into a step")
		}
		i.scenario(v)
		return
	}
	r, started := v.Load.Request, len(v.Target.Start) > 0
	if r == nil {
		i.fault(path, "is missing", "")
		return
	}
	if r.Path != "" && (r.Path[0] != '/' && r.Path != "*" || strings.ContainsFunc(i.sent(r.Path), notInTarget)) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", nearest.Clip(r.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
	}
	if r.Body != "" && r.BodyFile != "" {
		i.fault(path+".body_file", "body and body_file exclude each other", "keep one of them")
	}
	i.headers(path, r.Headers, started)
	if !started {
		i.ownPorts(path+".path", r.Path)
		i.ownPorts(path+".body", r.Body)
	}
}

// overTLS tells whether the target's URL is an https URL.
func (t *Target) overTLS() bool { return strings.HasPrefix(t.URL, "https://") }

// tls judges how connections are secured. The trial reads the files.
func (i *inspector) tls(t *Target) {
	s := t.TLS
	if s == nil {
		return
	}
	const path = "target.tls"
	// Without TLS no certificate is checked: insecure alone asks for nothing else.
	if !t.overTLS() && !reflect.DeepEqual(s, &TLS{Insecure: true}) {
		i.fault(path, "is only for https", "write https:// in target.url, or remove it")
	}
	switch {
	case s.Certificate == "" && s.Key != "":
		i.fault(path+".certificate", "is missing", "the key needs its certificate")
	case s.Certificate != "" && s.Key == "":
		i.fault(path+".key", "is missing", "the certificate needs its key")
	}
}

// proxy judges by which proxy the target is reached.
func (i *inspector) proxy(t *Target, h *HTTP2) {
	if t.Proxy == "" {
		return
	}
	if _, err := http1.ParseProxy(placeholders(t.Proxy)); err != nil {
		i.fault("target.proxy", "is not the URL of a proxy", err.Error())
	}
	byURL := Target{Protocol: t.Protocol, URL: t.URL}
	if byURL.Complete(); byURL.Address != t.Address {
		i.fault("target.proxy", "the proxy looks for the target by its URL, and not at its address", "remove target.address, or --unix, or the proxy")
	}
	if h != nil && !t.overTLS() && h.Use == HTTP2Always {
		i.fault("target.proxy", "HTTP/2 without TLS goes through no proxy", "use https, or HTTP/1.1")
	}
}

// Peer is the address that connections are opened to: the proxy's, or the target's own.
func (t *Target) Peer() string {
	if proxy, err := http1.ParseProxy(t.Proxy); err == nil {
		return proxy.Address
	}
	return t.Address
}

// http2 judges when HTTP/2 is spoken, and how.
func (i *inspector) http2(t *Target, h *HTTP2) {
	const path = "load.http2"
	switch {
	case h == nil:
		i.fault(path, "is missing", "")
	case h.Streams > 1 && (h.Use == HTTP2Never || h.Use == HTTP2Auto && !t.overTLS()):
		i.fault(path+".streams", fmt.Sprintf("%d requests at once take HTTP/2", h.Streams), "ask for HTTP/2 (use: always, --http2), or leave it out")
	}
}

// headers judges the fields of a request that dyno completes.
func (i *inspector) headers(path string, headers []scenario.Header, started bool) {
	for _, h := range headers {
		at := fields.Join(path+".headers", h.Name)
		switch name := strings.ToLower(h.Name); {
		case name == "content-length" || name == "transfer-encoding":
			i.fault(at, "dyno sets it itself, from the body", "remove it")
		case strings.ContainsAny(h.Value, "\r\n\x00"):
			i.fault(at, "the value holds a line break", "remove it")
		}
		if !started {
			i.ownPorts(at, h.Value)
		}
	}
}

// traces judges how requests are traced.
func (i *inspector) traces(l *Load) {
	const path = "load.trace_url"
	switch link, err := url.Parse(strings.ReplaceAll(l.TraceURL, "{id}", "0")); {
	case l.TraceURL == "":
	case !l.Traceparent:
		i.fault(path, "requests have no trace ids", "add traceparent: true (--traceparent)")
	case err != nil || link.Scheme != "http" && link.Scheme != "https" || link.Host == "" || !strings.Contains(l.TraceURL, "{id}"):
		i.fault(path, fmt.Sprintf("%q is no URL of traces", nearest.Clip(l.TraceURL)), "such as http://jaeger:16686/trace/{id}")
	}
}

// notInTarget tells which characters a request target cannot hold.
func notInTarget(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }

// ActualMethod is the method that is sent: POST with a body where none is given, and else GET.
func (r *Request) ActualMethod() string {
	switch {
	case r.Method != "":
		return r.Method
	case r.Body != "" || r.BodyFile != "":
		return "POST"
	}
	return "GET"
}
