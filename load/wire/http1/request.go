package http1

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Field is one header field.
type Field struct {
	Name  string
	Value string // none if it varies

	// Varies makes the value a part that is given with each exchange.
	Varies bool
}

// A Request is what is sent. Encode adds Host, Content-Length where one belongs,
// and a User-Agent unless Header has one.
type Request struct {
	Method string  // a token; case matters
	Target string  // path and query as they go on the wire, or * for OPTIONS; none if it varies
	Host   string  // the Host field: name or address, with the port unless it is 80
	Header []Field // sent in this order, names as they are spelt
	Body   []byte
	Origin string // what stands before the target: http://host for forward proxies, else nothing

	// Upgrade is the protocol that the connection is to speak after status 101, which is a final response then (RFC
	// 9110, section 7.8); "" is none. The fields Upgrade and Connection are added.
	Upgrade string

	// Varying parts are given with each exchange: the target first, then the fields that vary in the
	// order of Header, then the body. They are not checked.
	VariesTarget, VariesBody bool
}

// Parts returns how many parts vary.
func (r Request) Parts() (n int) {
	for _, f := range r.Header {
		if f.Varies {
			n++
		}
	}
	if r.VariesTarget {
		n++
	}
	if r.VariesBody {
		n++
	}
	return n
}

const (
	userAgent    = "dyno"    // sent when the request has none
	headMethod   = "HEAD"    // a response to it has no body
	tunnelMethod = "CONNECT" // what follows a response to it is not HTTP
)

// Validate reports everything that keeps the request from being sent as it is.
func (r Request) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	switch {
	case !isToken([]byte(r.Method)):
		fault("method %q: want a token such as GET", r.Method)
	case r.Method == tunnelMethod:
		fault("method CONNECT: want another, as tunnels are not supported")
	}
	switch err := checkTarget(r.Method, r.Target); {
	case r.VariesTarget && r.Target != "":
		fault("target %q: want none, as it varies", r.Target)
	case !r.VariesTarget && err != nil:
		faults = append(faults, err)
	}
	if r.VariesBody && len(r.Body) > 0 {
		fault("body of %d bytes: want none, as it varies", len(r.Body))
	}
	if !isHost(r.Host) {
		fault("host %q: want a host name or address, with :port unless it is 80", r.Host)
	}
	lengths := 0
	for i, f := range r.Header {
		at := fmt.Sprintf("header %d %q", i+1, f.Name)
		if !isToken([]byte(f.Name)) {
			fault("%s: want a token as the name", at)
			continue
		}
		if checkText([]byte(f.Value)) != nil {
			fault("%s: value %q: want no control bytes", at, f.Value)
		}
		if f.Varies && f.Value != "" {
			fault("%s: value %q: want none, as it varies", at, f.Value)
		}
		switch strings.ToLower(f.Name) {
		case "host":
			fault("%s: want it set as the request's host", at)
		case "transfer-encoding":
			fault("%s: want none, as the body is sent whole with its content-length", at)
		case "upgrade":
			fault("%s: want none, as no other protocol can be switched to", at)
		case "connection":
			switch {
			case f.Varies:
				fault("%s: want it the same each time", at)
			case r.Upgrade != "":
				fault("%s: want none, as it is added", at)
			}
		case "content-length":
			if lengths++; lengths > 1 {
				fault("%s: want it once", at)
			}
			switch {
			case f.Varies || r.VariesBody:
				fault("%s: want none, as it is added when the body varies", at)
			case f.Value != strconv.Itoa(len(r.Body)):
				fault("%s: value %q: want %d, the body's length, or no such field", at, f.Value, len(r.Body))
			}
		}
	}
	return errors.Join(faults...)
}

// Encode returns the bytes of a request in which nothing varies, or every fault that
// Validate finds.
func (r Request) Encode() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("http1 request: %w", err)
	}
	if n := r.Parts(); n > 0 {
		return nil, fmt.Errorf("http1 request: %d parts vary: want none, or a template that has it prepared", n)
	}
	return r.prepare().texts[0], nil
}

// A prepared is a request that is encoded but for what varies.
type prepared struct {
	texts      [][]byte // what stands around the parts: one more than there are, but for a body that varies
	variesBody bool
	closes     bool // it says Connection: close
	headOnly   bool // the response has no body, as the method is HEAD
}

// prepare encodes a request that is sound.
func (r Request) prepare() prepared {
	p := prepared{variesBody: r.VariesBody, headOnly: r.Method == headMethod}
	var b []byte
	part := func() { p.texts, b = append(p.texts, b), nil }
	field := func(name, value string) { b = append(b, name+": "+value+"\r\n"...) }
	b = append(b, r.Method+" "+r.Origin...)
	if r.VariesTarget {
		part()
	}
	b = append(b, r.Target+" HTTP/1.1\r\n"...)
	field("Host", r.Host)
	if !r.Has("User-Agent") {
		field("User-Agent", userAgent)
	}
	if r.Upgrade != "" {
		field("Connection", "Upgrade")
		field("Upgrade", r.Upgrade)
	}
	for _, f := range r.Header {
		if f.Varies {
			b = append(b, f.Name+": "...)
			part()
			b = append(b, "\r\n"...)
			continue
		}
		field(f.Name, f.Value)
	}
	if r.NeedsLength() && !r.VariesBody && !r.Has("Content-Length") {
		field("Content-Length", strconv.Itoa(len(r.Body)))
	}
	p.closes = asksToClose(append(slices.Concat(slices.Concat(p.texts...), b), "\r\n"...))
	if r.VariesBody {
		b = append(b, "Content-Length: "...)
	} else {
		b = append(append(b, "\r\n"...), r.Body...)
	}
	part()
	return p
}

// append appends the request with its parts.
func (p *prepared) append(b []byte, parts [][]byte) []byte {
	for i, text := range p.texts {
		if b = append(b, text...); i < len(p.texts)-1 {
			b = append(b, parts[i]...)
		}
	}
	if p.variesBody {
		body := parts[len(parts)-1]
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n\r\n"...)
		b = append(b, body...)
	}
	return b
}

// Has tells whether there is a field of a name.
func (r Request) Has(name string) bool {
	return slices.ContainsFunc(r.Header, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// NeedsLength tells whether the server expects the body's length, be it 0 (RFC 9110,
// section 8.6).
func (r Request) NeedsLength() bool {
	return len(r.Body) > 0 || slices.Contains([]string{"POST", "PUT", "PATCH"}, r.Method)
}

func checkTarget(method, target string) error {
	if target == "*" && method == "OPTIONS" {
		return nil
	}
	if !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "http://") {
		return fmt.Errorf("target %q: want a path that starts with /", target)
	}
	for i := range len(target) {
		if b := target[i]; b <= ' ' || b >= 0x7f || b == '#' {
			return fmt.Errorf("target %q: byte %d is %q: want it percent-encoded", target, i+1, b)
		}
	}
	return nil
}

// isHost tells whether s can stand in a Host field: letters, digits and the
// punctuation of names, addresses, IPv6 literals and ports.
func isHost(s string) bool {
	for i := range len(s) {
		if b := s[i]; !tokenByte[b] && strings.IndexByte(":[]();=,", b) < 0 {
			return false
		}
	}
	return s != ""
}
