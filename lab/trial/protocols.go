package trial

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
	"dyno/load/wire/tcp"
	"dyno/load/wire/tlslayer"
)

// A speaker completes an engine's configuration by what its connections say.
type speaker func(v *experiment.Variant, seed uint64, c *engine.Config) error

// protocols are those that can be spoken, by their names in plans.
func protocols() map[string]speaker {
	return map[string]speaker{
		experiment.HTTP: speakHTTP,
		experiment.TCP:  speakTCP,
		experiment.SSE:  speakSSE,
	}
}

// framings are the ways to exchange messages over TCP, by their names in plans.
func framings() map[string]speaker {
	return map[string]speaker{
		experiment.FramingEcho: func(v *experiment.Variant, seed uint64, c *engine.Config) (err error) {
			c.NewClients, err = perWorker(tcp.EchoConfig{Size: v.Load.Payload, Seed: seed}, tcp.NewEcho,
				func(t *tcp.EchoTemplate) wire.Client { return t.Client() })
			return err
		},
		experiment.FramingLine: func(v *experiment.Variant, _ uint64, c *engine.Config) (err error) {
			line := strings.Repeat("x", max(0, v.Load.Payload-1)) // the line's end is one byte of the payload
			c.NewClients, err = perWorker(tcp.DefaultLine(line), tcp.NewLine, func(t *tcp.LineTemplate) wire.Client { return t.Client() })
			return err
		},
		experiment.FramingLength: func(v *experiment.Variant, _ uint64, c *engine.Config) (err error) {
			c.NewClients, err = perWorker(tcp.DefaultPrefixed(make([]byte, v.Load.Payload)), tcp.NewPrefixed,
				func(t *tcp.PrefixedTemplate) wire.Client { return t.Client() })
			return err
		},
	}
}

func speakTCP(v *experiment.Variant, seed uint64, c *engine.Config) error {
	speak, ok := framings()[v.Load.Framing]
	if !ok {
		return fmt.Errorf("load.framing: %q is not spoken", v.Load.Framing)
	}
	return speak(v, seed, c)
}

func speakSSE(v *experiment.Variant, _ uint64, c *engine.Config) (err error) {
	c.NewClients, err = publishers(v, c.Workers)
	return err
}

// perWorker makes a template for each worker and codecs from it. The first template is
// made now, to see whether the configuration is right.
func perWorker[Config, Template, Codec any](c Config, newTemplate func(Config) (*Template, error),
	newCodec func(*Template) Codec,
) (func(int) func() Codec, error) {
	if _, err := newTemplate(c); err != nil {
		return nil, err
	}
	return func(int) func() Codec {
		t, err := newTemplate(c)
		if err != nil {
			panic(err) // the same configuration was right a moment ago
		}
		return func() Codec { return newCodec(t) }
	}, nil
}

// speakHTTP speaks HTTP/1.1, HTTP/2, or what the server chooses.
func speakHTTP(v *experiment.Variant, _ uint64, c *engine.Config) error {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return err
	}
	h := v.Load.HTTP2
	if h == nil {
		h = experiment.DefaultHTTP2()
	}
	request, err := httpRequest(v, end)
	if err != nil {
		return err
	}
	two := h.Use == experiment.HTTP2Always || h.Use == experiment.HTTP2Upgrade
	one := !two
	if h.Use == experiment.HTTP2Auto {
		two = end.Secure // and the server chooses
	}
	var alpn []string
	if two {
		alpn = append(alpn, "h2")
		c.Streams = h.Streams
		c.NewMuxes, err = perWorker(http2Config(request, end, h), http2.NewTemplate, func(t *http2.Template) wire.Mux { return t.Client() })
		if err != nil {
			return fmt.Errorf("load.request: %w", err)
		}
	}
	if one {
		alpn = append(alpn, "http/1.1")
		encoded, err := request.Encode()
		if err != nil {
			return fmt.Errorf("load.request: %w", err)
		}
		c.NewClients, err = perWorker(http1.Config{Request: encoded, Limits: http1.DefaultLimits()}, http1.NewTemplate,
			func(t *http1.Template) wire.Client { return t.Client() })
		if err != nil {
			return err
		}
	}
	if end.Secure {
		c.TLS, err = tlsConfig(v.Target.TLS, end, alpn)
	}
	return err
}

// httpRequest is the request that is repeated.
func httpRequest(v *experiment.Variant, end http1.Endpoint) (http1.Request, error) {
	r := v.Load.Request
	request := http1.Request{Method: r.Method, Target: end.Target, Host: end.Host, Body: []byte(r.Body)}
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

// http2Config says the same request in HTTP/2.
func http2Config(r http1.Request, end http1.Endpoint, h *experiment.HTTP2) http2.Config {
	request := http2.Request{Method: r.Method, Scheme: "http", Authority: r.Host, Path: r.Target, Body: r.Body}
	if end.Secure {
		request.Scheme = "https"
	}
	for _, f := range r.Header {
		request.Header = append(request.Header, http2.Field{Name: f.Name, Value: f.Value})
	}
	c := http2.Config{
		Requests: []http2.Request{request}, Streams: h.Streams, Optimistic: h.Streams <= optimistic,
		Upgrade: h.Use == experiment.HTTP2Upgrade, Settings: http2.DefaultSettings(),
	}
	c.Settings.StreamWindow = cmp.Or(h.StreamWindow, c.Settings.StreamWindow)
	c.Settings.ConnectionWindow = cmp.Or(h.ConnectionWindow, c.Settings.ConnectionWindow)
	return c
}

// tlsConfig reads how connections are secured.
func tlsConfig(t *experiment.TLS, end http1.Endpoint, alpn []string) (*tlslayer.Config, error) {
	if t == nil {
		t = &experiment.TLS{}
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

// addHeaders gives a request its fields. Host is one of its own.
func addHeaders(r *http1.Request, headers []experiment.Header) {
	for _, h := range headers {
		if strings.EqualFold(h.Name, "Host") {
			r.Host = h.Value
			continue
		}
		r.Header = append(r.Header, http1.Field{Name: h.Name, Value: h.Value})
	}
}
