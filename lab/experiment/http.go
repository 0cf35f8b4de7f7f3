package experiment

import (
	"fmt"
	"os"
	"strings"

	"dyno/load/wire/http1"
)

// HTTP is the protocol of requests over HTTP/1.1.
const HTTP = "http"

// An HTTPLoad is what a load has for HTTP.
type HTTPLoad struct {
	Request *Request `yaml:"request" default:"{}" doc:"the request that is repeated"`
}

// A Request is the one HTTP request repeated.
type Request struct {
	Method   string   `yaml:"method" like:"token" default:"GET" flag:"method,X" doc:"request method"`
	Path     string   `yaml:"path" otherwise:"those of target.url" doc:"path and query"`
	Headers  []Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of each request, in this order"`
	Body     string   `yaml:"body,orfile" kind:"word" flag:"body" doc:"the request's content"`
	BodyFile string   `yaml:"body_file" kind:"path" doc:"the file with the content, relative to this one, in place of body; templates in it are not replaced"`
}

// A Header is one field line.
type Header struct {
	Name  string `yaml:",key"`
	Value string `yaml:",short" kind:"word"`
}

// judge judges the one request of an HTTP load.
func (HTTPLoad) judge(i *inspector, _ *Experiment, v *Variant) {
	const path = "load.request"
	r, started := v.Load.Request, len(v.Target.Start) > 0
	if r == nil {
		i.fault(path, "is missing", "")
		return
	}
	if r.Path != "" && (r.Path[0] != '/' && r.Path != "*" || strings.ContainsFunc(placeholders(r.Path), notInTarget)) {
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

// codecs makes clients that repeat the request.
func (HTTPLoad) codecs(v *Variant, _ uint64, _ int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	r := v.Load.Request
	request := http1.Request{Method: r.Method, Target: end.Target, Host: end.Host, Body: []byte(r.Body)}
	if r.Path != "" {
		request.Target = r.Path
	}
	addHeaders(&request, r.Headers)
	if r.BodyFile != "" {
		if request.Body, err = os.ReadFile(r.BodyFile); err != nil {
			return c, fmt.Errorf("load.request.body_file: %w", err)
		}
	}
	encoded, err := request.Encode()
	if err != nil {
		return c, fmt.Errorf("load.request: %w", err)
	}
	c.Clients, err = perWorker(alike(http1.Config{Request: encoded, Limits: http1.DefaultLimits()}), http1.NewTemplate, (*http1.Template).Client)
	return c, err
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
