package protocols

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
	"dyno/load/wire/tlslayer"
)

// httpCodecs makes clients that repeat the request, or send users' requests, in HTTP/1.1, in HTTP/2, or
// as the server chooses.
func httpCodecs(ctx context.Context, v *plan.Variant, _ uint64, _ int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	one := http1.Config{MaxHeader: int64(v.Load.MaxHeader)}
	two := http2Config(&v.Load)
	var all []http1.Request
	if v.Load.Scenario != nil {
		if err := ready(ctx, v, &c, httpScript); err != nil {
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
		request, err := repeated(v.Load.Request, end)
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
	if v.Load.Traceparent {
		c.Traces = trace(all)
		one.Request, one.Requests = nil, all
	}
	scheme := "http"
	if end.Secure {
		scheme = "https"
	}
	for _, r := range all {
		two.Requests = append(two.Requests, http2.Request{Request: r, Scheme: scheme})
	}
	if v.Target.Proxy != "" {
		if err := through(&v.Target, &c, end, &one, all); err != nil {
			return c, err
		}
	}
	if c.Scenario != nil {
		for i, o := range c.Scenario.Outlines() {
			two.Requests[i].CountOnly = !c.Scenario.Steps()[o.Step].WantsBody
		}
	}
	return c, speak(v, &c, end, one, two)
}

// traceparent is the name of the field that W3C Trace Context has for trace ids.
const traceparent = "traceparent"

// trace gives requests a field for their trace ids, and returns where among their parts its
// value goes.
func trace(all []http1.Request) (places []int) {
	for i := range all {
		place := 0
		if all[i].VariesTarget {
			place = 1
		}
		all[i].Header = slices.Insert(slices.Clone(all[i].Header), 0, http1.Field{Name: traceparent, Varies: true})
		places = append(places, place)
	}
	return places
}

// through has requests in HTTP/1.1 to an endpoint without TLS, and connections to one with TLS, go
// through the proxy.
func through(t *plan.Target, c *Codecs, end http1.Endpoint, one *http1.Config, all []http1.Request) error {
	proxy, err := http1.ParseProxy(t.Proxy)
	if err != nil {
		return fmt.Errorf("target.proxy: %w", err)
	}
	if end.Secure {
		tunnel := proxy.Tunnel(t.Address)
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

// httpScript says what a scenario's users do over HTTP.
func httpScript(_ context.Context, v *plan.Variant, _ bool) (script, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return script{}, err
	}
	host, _, _ := strings.Cut(end.Host, ":")
	if strings.HasPrefix(end.Host, "[") {
		host, _, _ = strings.Cut(end.Host, "]")
	}
	return script{
		by: scenario.Protocol{Host: host, Secure: end.Secure},
		step: func(st *scenario.Step, content string) (scenario.StepRequest, error) {
			return scenario.StepRequest{Method: st.Method, Path: cmp.Or(st.Path, end.Target), Body: content, Timeout: st.Deadline}, nil
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
func speak(v *plan.Variant, c *Codecs, end http1.Endpoint, h1 http1.Config, h2 http2.Config) (err error) {
	h := v.Load.HTTP2
	two := h.Use == plan.HTTP2Always
	one := !two
	if h.Use == plan.HTTP2Auto {
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
		c.TLS, err = tlsConfig(v.Target.TLS, end, alpn)
	}
	return err
}

// repeated is the request that is repeated.
func repeated(r *plan.Request, end http1.Endpoint) (http1.Request, error) {
	request := http1.Request{Method: r.ActualMethod(), Target: end.Target, Host: end.Host, Body: []byte(r.Body)}
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

// http2Config says how HTTP/2 is spoken.
func http2Config(l *plan.Load) http2.Config {
	h := l.HTTP2
	c := http2.Config{
		Streams: h.Streams, Optimistic: h.Streams <= optimistic, Settings: http2.DefaultSettings(), MaxHeader: int64(l.MaxHeader),
	}
	c.Settings.StreamWindow = cmp.Or(h.StreamWindow, c.Settings.StreamWindow)
	c.Settings.ConnectionWindow = cmp.Or(h.ConnectionWindow, c.Settings.ConnectionWindow)
	return c
}

// tlsConfig reads how connections are secured.
func tlsConfig(t *plan.TLS, end http1.Endpoint, alpn []string) (*tlslayer.Config, error) {
	if t == nil {
		t = &plan.TLS{}
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
		// crypto/tls would offer a group with ML-KEM first. It costs the generator CPU time even where
		// the server does not know it.
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

// standardTLS is tlsConfig for requests to a target that are not part of the load.
func standardTLS(t *plan.TLS, end http1.Endpoint, alpn []string) (*tls.Config, error) {
	c, err := tlsConfig(t, end, alpn)
	if err != nil {
		return nil, err
	}
	standard, err := c.Standard(time.Now())
	if err != nil {
		return nil, fmt.Errorf("target.tls: %w", err)
	}
	return standard, nil
}

// addHeaders gives a request its fields. Host has a field of its own.
func addHeaders(r *http1.Request, headers []scenario.Header) {
	for _, h := range headers {
		if strings.EqualFold(h.Name, "Host") {
			r.Host = h.Value
			continue
		}
		r.Header = append(r.Header, http1.Field{Name: h.Name, Value: h.Value})
	}
}
