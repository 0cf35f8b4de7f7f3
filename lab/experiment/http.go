package experiment

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
	"dyno/load/wire/tlslayer"
)

// HTTP is the protocol of requests over HTTP/1.1 and HTTP/2.
const HTTP = "http"

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
	Insecure     bool     `yaml:"insecure" flag:"insecure" doc:"https: do not check the server's certificate"`
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
	Method   string   `yaml:"method" like:"token" otherwise:"GET, or POST with a body" flag:"method,X" doc:"request method"`
	Path     string   `yaml:"path" otherwise:"those of target.url" doc:"path and query"`
	Headers  []Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of each request, in this order"`
	Body     string   `yaml:"body,orfile" kind:"word" flag:"body" doc:"the request's content"`
	BodyFile string   `yaml:"body_file" kind:"path" doc:"the file with the content, relative to this one, in place of body; templates in it are not replaced"`
	Follow   bool     `yaml:"follow_redirects" flag:"location,L" doc:"follow redirects on the same host, at most 10 in a row; the response time runs until the last byte of the final response"`
}

// A Header is one field line.
type Header struct {
	Name  string `yaml:",key"`
	Value string `yaml:",short" kind:"word"`
}

// judge judges the one request of an HTTP load, and how it is spoken.
func (HTTPLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.http2(&v.Target, v.Load.HTTP2)
	i.tls(&v.Target)
	i.proxy(&v.Target, v.Load.HTTP2)
	const path = "load.request"
	if v.Load.Scenario != nil {
		if !reflect.DeepEqual(v.Load.Request, DefaultVariant(HTTP).Load.Request) {
			i.fault(path, "request and scenario exclude each other", "move it into a step")
		}
		i.scenario(v, scenario.ParseStatus)
		return
	}
	r, started := v.Load.Request, len(v.Target.Start) > 0
	if r == nil {
		i.fault(path, "is missing", "")
		return
	}
	if r.Path != "" && (r.Path[0] != '/' && r.Path != "*" || strings.ContainsFunc(i.sent(r.Path), notInTarget)) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", clip(r.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
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

// overTLS tells whether the target's URL is one of https.
func (t *Target) overTLS() bool { return strings.HasPrefix(t.URL, "https://") }

// tls judges how connections are secured. What is in the files, the trial sees.
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
func (i *inspector) headers(path string, headers []Header, started bool) {
	for _, h := range headers {
		at := join(path+".headers", h.Name)
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

// notInTarget tells which characters a request target cannot hold.
func notInTarget(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }

// codecs makes what repeats the request, or sends those of users, in HTTP/1.1, in HTTP/2, or
// as the server chooses.
func (HTTPLoad) codecs(v *Variant, _ uint64, _ int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	one := http1.Config{Limits: v.Load.http1Limits()}
	two := v.Load.HTTP2.config()
	two.Limits = v.Load.http2Limits()
	var all []http1.Request
	if v.Load.Scenario != nil {
		if err := v.ready(&c); err != nil {
			return c, err
		}
		if all, err = requests(c.Scenario, end); err != nil {
			return c, err
		}
		// The steps say what is expected of responses.
		one.Requests, one.Fields, one.Accept = all, c.Scenario.HeaderNames(), anyStatus
		two.Fields, two.Accept = one.Fields, anyStatus
		two.Content = slices.ContainsFunc(c.Scenario.Steps(), func(i scenario.Info) bool { return i.WantsBody })
	} else {
		request, err := v.request(end)
		if err != nil {
			return c, err
		}
		if one.Request, err = request.Encode(); err != nil {
			return c, fmt.Errorf("load.request: %w", err)
		}
		all = []http1.Request{request}
		if v.Load.Request.Follow {
			all = request.Following()
			one.Request, one.Requests, one.Fields = nil, all, http1.LocationFields()
			two.Fields = one.Fields
			c.Follower = func(int) wire.Follower { return http1.NewRedirects(end, request) }
		}
	}
	for _, r := range all {
		two.Requests = append(two.Requests, inHTTP2(r, end))
	}
	if v.Target.Proxy != "" {
		if err := v.Target.through(&c, end, &one, all); err != nil {
			return c, err
		}
	}
	if c.Scenario != nil {
		for i, o := range c.Scenario.Outlines() {
			two.Requests[i].CountOnly = !c.Scenario.Steps()[o.Step].WantsBody
		}
	}
	return c, v.speak(&c, end, one, two)
}

// through has requests in HTTP/1.1 to an endpoint without TLS, and connections to one with TLS, go
// through the proxy.
func (t *Target) through(c *Codecs, end http1.Endpoint, one *http1.Config, all []http1.Request) error {
	proxy, err := http1.ParseProxy(t.Proxy)
	if err != nil {
		return fmt.Errorf("target.proxy: %w", err)
	}
	if end.Secure {
		tunnel := proxy.Tunnel(t.Address, http1.DefaultLimits())
		c.Tunnels, err = perWorker(alike(tunnel), http1.NewTemplate, func(t *http1.Template) wire.Client { return t.Client() })
		return err
	}
	if one.Request != nil {
		one.Request, err = proxy.Through(all[0], end).Encode()
		return err
	}
	one.Requests = nil
	for _, r := range all {
		one.Requests = append(one.Requests, proxy.Through(r, end))
	}
	return nil
}

// script says what a scenario's users do over HTTP.
func (HTTPLoad) script(v *Variant, _ bool) (script, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return script{}, err
	}
	host, _, _ := strings.Cut(end.Host, ":")
	if strings.HasPrefix(end.Host, "[") {
		host, _, _ = strings.Cut(end.Host, "]")
	}
	return script{
		spec: scenario.Spec{Cookies: v.Load.Scenario.Cookies, Host: host, Secure: end.Secure},
		step: func(st *Step, body string, to *scenario.Step) (err error) {
			to.Method, to.Path, to.Body = st.Method, cmp.Or(st.Path, end.Target), body
			to.Status, err = st.statuses(scenario.ParseStatus)
			return err
		},
		check: func(s *scenario.Scenario) error {
			_, err := requests(s, end)
			return err
		},
	}, nil
}

// anyStatus accepts whatever status a response has.
func anyStatus(int) bool { return true }

// speak makes the codecs for the versions of HTTP that may be spoken.
func (v *Variant) speak(c *Codecs, end http1.Endpoint, h1 http1.Config, h2 http2.Config) (err error) {
	h := v.Load.HTTP2
	two := h.Use == HTTP2Always
	one := !two
	if h.Use == HTTP2Auto {
		two = end.Secure // and the server chooses
	}
	var alpn []string
	if two {
		alpn = append(alpn, "h2")
		c.Exchanges = h.Streams
		c.Muxes, err = perWorker(alike(h2), http2.NewTemplate, func(t *http2.Template) wire.Mux { return t.Client() })
		if err != nil {
			return fmt.Errorf("load.request: %w", err)
		}
	}
	if one {
		alpn = append(alpn, "http/1.1")
		c.Clients, err = perWorker(alike(h1), http1.NewTemplate, func(t *http1.Template) wire.Client { return t.Client() })
		if err != nil {
			return err
		}
	}
	if end.Secure {
		c.TLS, err = v.Target.TLS.config(end, alpn)
	}
	return err
}

// method is the request's method: POST with a body where none is given, and else GET.
func (r *Request) method() string {
	switch {
	case r.Method != "":
		return r.Method
	case r.Body != "" || r.BodyFile != "":
		return "POST"
	}
	return "GET"
}

// request is the request that is repeated.
func (v *Variant) request(end http1.Endpoint) (http1.Request, error) {
	r := v.Load.Request
	request := http1.Request{Method: r.method(), Target: end.Target, Host: end.Host, Body: []byte(r.Body)}
	if r.Path != "" {
		request.Target = r.Path
	}
	addHeaders(&request, r.Headers)
	if r.BodyFile != "" {
		body, err := os.ReadFile(r.BodyFile)
		if err != nil {
			return request, fmt.Errorf("load.request.body_file: %w", err)
		}
		request.Body = body
	}
	return request, nil
}

// optimistic is up to how many streams a connection's first requests do not wait for the
// server's settings: servers are asked to allow no fewer (RFC 9113, section 6.5.2).
const optimistic = 100

// inHTTP2 says the same request in HTTP/2.
func inHTTP2(r http1.Request, end http1.Endpoint) http2.Request {
	request := http2.Request{
		Method: r.Method, Scheme: "http", Authority: r.Host, Path: r.Target, Body: r.Body, VariesPath: r.VariesTarget, VariesBody: r.VariesBody,
	}
	if end.Secure {
		request.Scheme = "https"
	}
	for _, f := range r.Header {
		request.Header = append(request.Header, http2.Field{Name: f.Name, Value: f.Value, Varies: f.Varies})
	}
	return request
}

// http1Limits bounds what is held of a response. Its content is counted and not held.
func (l *Load) http1Limits() http1.Limits {
	limits := http1.DefaultLimits()
	limits.HeaderBytes, limits.BodyBytes = int64(l.MaxHeader), math.MaxInt64
	return limits
}

// http2Limits is http1Limits for HTTP/2.
func (l *Load) http2Limits() http2.Limits {
	limits := http2.DefaultLimits()
	limits.HeaderBytes, limits.BodyBytes = int64(l.MaxHeader), math.MaxInt64
	return limits
}

// config says how HTTP/2 is spoken.
func (h *HTTP2) config() http2.Config {
	c := http2.Config{
		Streams: h.Streams, Optimistic: h.Streams <= optimistic, Settings: http2.DefaultSettings(),
	}
	c.Settings.StreamWindow = cmp.Or(h.StreamWindow, c.Settings.StreamWindow)
	c.Settings.ConnectionWindow = cmp.Or(h.ConnectionWindow, c.Settings.ConnectionWindow)
	return c
}

// config reads how connections are secured.
func (t *TLS) config(end http1.Endpoint, alpn []string) (*tlslayer.Config, error) {
	if t == nil {
		t = &TLS{}
	}
	name, _, err := net.SplitHostPort(end.Address)
	if err != nil {
		return nil, fmt.Errorf("target.url: %w", err)
	}
	name, _, _ = strings.Cut(name, "%") // a zone means something on this machine only
	c := &tlslayer.Config{
		ServerName: cmp.Or(t.ServerName, name), ALPN: alpn, Insecure: t.Insecure, Tickets: t.Tickets,
		MinVersion: t.MinVersion, MaxVersion: t.MaxVersion, CipherSuites: t.CipherSuites, Groups: t.Groups,
	}
	if len(c.Groups) == 0 {
		// crypto/tls would offer one with ML-KEM first, which costs the generator CPU time
		// even where the server does not know it.
		c.Groups = []string{"x25519", "secp256r1"}
	}
	for _, f := range []struct {
		field, name string
		to          *tlslayer.File
	}{
		{"ca", t.CA, &c.CA},
		{"certificate", t.Certificate, &c.Certificate},
		{"key", t.Key, &c.Key},
	} {
		if f.name == "" {
			continue
		}
		data, err := os.ReadFile(f.name)
		if err != nil {
			return nil, fmt.Errorf("target.tls.%s: %w", f.field, err)
		}
		*f.to = tlslayer.File{Name: f.name, Data: data}
	}
	if err := c.Validate(time.Now()); err != nil {
		return nil, fmt.Errorf("target.tls: %w", err)
	}
	return c, nil
}

// standard is config for requests to a target that are not part of the load.
func (t *TLS) standard(end http1.Endpoint, alpn []string) (*tls.Config, error) {
	c, err := t.config(end, alpn)
	if err != nil {
		return nil, err
	}
	standard, err := c.Standard(time.Now())
	if err != nil {
		return nil, fmt.Errorf("target.tls: %w", err)
	}
	return standard, nil
}

// addHeaders gives a request its fields. Host is one of its own.
func addHeaders(r *http1.Request, headers []Header) {
	for _, h := range headers {
		if strings.EqualFold(h.Name, "Host") {
			r.Host = h.Value
			continue
		}
		r.Header = append(r.Header, http1.Field{Name: h.Name, Value: h.Value})
	}
}
