package http2

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Field is one header field of a request.
type Field struct {
	Name  string // sent in lower case
	Value string // none if it varies

	// Varies makes the value a part that is given with each exchange.
	Varies bool

	Indexing Indexing
}

// An Indexing says how a field is sent (RFC 7541, section 6.2).
type Indexing uint8

// The ways. By default a field that repeats itself is sent once on a connection and then
// by its number in the dynamic table, whatever it is: credentials in a load tool are the
// tool's own, and to send them whole each time would measure something else than what
// browsers and gRPC's libraries do.
const (
	Indexed      Indexing = iota // through the dynamic table; the name alone if the value varies
	Plain                        // whole each time
	NeverIndexed                 // whole each time, and marked so that no intermediary indexes it
)

// A Request is what is sent. Preparing it adds content-length where one belongs, and a
// user-agent unless Header has one.
type Request struct {
	Method    string  // a token; case matters
	Scheme    string  // "http" or "https"
	Authority string  // name or address, with the port unless it is the scheme's
	Path      string  // with the query; or * for OPTIONS; none if it varies
	Header    []Field // sent in this order
	Body      []byte  // must not change afterwards

	// What varies is a part that is given with each exchange: the path first, then the
	// fields that vary in the order of Header, then the body.
	VariesPath, VariesBody bool

	// CountOnly has the content of its responses only counted, whatever Config.Content says.
	CountOnly bool

	// NoLength leaves content-length out that would be added: a protocol on top that has
	// lengths of its own may have no such field.
	NoLength bool

	// BitByBit leaves the request open after its header: its body is given by Send.
	BitByBit bool
}

// Parts returns how many parts vary.
func (r Request) Parts() (n int) {
	for _, f := range r.Header {
		if f.Varies {
			n++
		}
	}
	if r.VariesPath {
		n++
	}
	if r.VariesBody {
		n++
	}
	return n
}

const (
	userAgent     = "dyno"    // sent when the request has none
	headMethod    = "HEAD"    // a response to it has no content
	tunnelMethod  = "CONNECT" // what follows a response to it is not HTTP
	optionsMethod = "OPTIONS" // may be of the server as a whole
)

// Validate reports everything that keeps the request from being sent as it is.
func (r Request) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	switch {
	case !isToken(r.Method):
		fault("method %q: want a token such as GET", r.Method)
	case r.Method == tunnelMethod:
		fault("method CONNECT: want another, as tunnels are not supported")
	}
	if r.Scheme != "http" && r.Scheme != "https" {
		fault("scheme %q: want http or https", r.Scheme)
	}
	if !isAuthority(r.Authority) {
		fault("authority %q: want a host name or address, with :port unless it is the scheme's", r.Authority)
	}
	switch {
	case r.VariesPath && r.Path != "":
		fault("path %q: want none, as it varies", r.Path)
	case !r.VariesPath && !isPath([]byte(r.Path)) && (r.Path != "*" || r.Method != optionsMethod):
		fault("path %q: want it to start with / and bytes other than printable ASCII, and #, percent-encoded", r.Path)
	}
	for i, f := range r.Header {
		for _, err := range r.fieldFaults(f) {
			faults = append(faults, fmt.Errorf("header %d %q: %w", i+1, f.Name, err))
		}
	}
	if n := r.count("content-length"); n > 1 {
		fault("content-length %d times: want it once", n)
	}
	switch {
	case r.BitByBit && (len(r.Body) > 0 || r.VariesBody):
		fault("body of a request that is sent bit by bit: want none, as it is given later")
	case r.VariesBody && len(r.Body) > 0:
		fault("body of %d bytes: want none, as it varies", len(r.Body))
	}
	return errors.Join(faults...)
}

func (r Request) fieldFaults(f Field) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !isToken(f.Name) {
		fault("want a token as the name")
		return faults
	}
	if !isSendable([]byte(f.Value)) {
		fault("value %q: want no control bytes, and no space around it", f.Value)
	}
	if f.Varies && f.Value != "" {
		fault("value %q: want none, as it varies", f.Value)
	}
	if f.Indexing > NeverIndexed {
		fault("indexing %d: want Indexed, Plain or NeverIndexed", f.Indexing)
	}
	switch strings.ToLower(f.Name) {
	case "host":
		fault("want it set as the request's authority")
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings":
		fault("want none, as HTTP/2 has no such field")
	case "te":
		if f.Value != "trailers" {
			fault("value %q: want trailers, as HTTP/2 has no other", f.Value)
		}
	case "content-length":
		switch {
		case f.Varies || r.VariesBody:
			fault("want none, as it is added when the body varies")
		case !r.BitByBit && f.Value != strconv.Itoa(len(r.Body)):
			fault("value %q: want %d, the body's length, or no such field", f.Value, len(r.Body))
		}
	}
	return faults
}

// count returns how many fields have a name, given in lower case.
func (r Request) count(name string) (n int) {
	for _, f := range r.Header {
		if strings.EqualFold(f.Name, name) {
			n++
		}
	}
	return n
}

// needsLength tells whether content-length is added: with a body, and where the server
// expects it even without a body (RFC 9110, section 8.6).
func (r Request) needsLength() bool {
	if r.BitByBit || r.NoLength || r.count("content-length") > 0 {
		return false
	}
	return len(r.Body) > 0 || r.VariesBody || slices.Contains([]string{"POST", "PUT", "PATCH"}, r.Method)
}

// isToken tells whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if b := s[i]; !isLetterOrDigit(b) && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return s != ""
}

func isLetterOrDigit(b byte) bool { return b|0x20-'a' < 26 || b-'0' < 10 }

// isAuthority tells whether s can be a host and port: letters, digits and the
// punctuation of names, addresses, IPv6 literals and ports.
func isAuthority(s string) bool {
	for i := range len(s) {
		if b := s[i]; !isLetterOrDigit(b) && strings.IndexByte("-._~%!$&'()*+,;=:[]", b) < 0 {
			return false
		}
	}
	return s != ""
}

// isPath tells whether p can be sent as :path.
func isPath(p []byte) bool {
	for _, b := range p {
		if b <= ' ' || b >= 0x7f || b == '#' {
			return false
		}
	}
	return len(p) > 0 && p[0] == '/'
}

// isSendable tells whether v can be sent as a field's value: what every recipient
// takes, without control bytes but for the tab.
func isSendable(v []byte) bool {
	for _, b := range v {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return len(v) == 0 || !isSpace(v[0]) && !isSpace(v[len(v)-1])
}
