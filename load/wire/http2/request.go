package http2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dyno/load/wire/http1"
)

// A Request is what is sent: to its Host as the authority, for its Target as the path. A connection
// sends any repeated field once, then by its number in the dynamic table (RFC 7541, section 6.2). This
// includes credentials, which in a load tool are its own. Browsers and gRPC's libraries do so, and
// sending them whole each time would measure something else.
type Request struct {
	http1.Request        // without an Origin
	Scheme        string // "http" or "https"

	// CountOnly has the content of its responses only counted, whatever Config.Content says.
	CountOnly bool

	// NoLength leaves content-length out that would be added: a protocol on top that has
	// lengths of its own may have no such field.
	NoLength bool

	// Protocol makes an extended CONNECT of the request, which has the server speak this protocol on the stream (RFC
	// 8441), whatever the Method. It waits until the server's settings permit that. "" is none.
	Protocol string

	// BitByBit leaves the request open after its header: its body is given by Send.
	BitByBit bool
}

const headMethod = "HEAD" // a response to it has no content

// Validate reports everything that keeps the request from being sent as it is.
func (r Request) Validate() error {
	faults := []error{r.Request.Validate()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if r.Scheme != "http" && r.Scheme != "https" {
		fault("scheme %q: want http or https", r.Scheme)
	}
	if strings.HasPrefix(r.Target, "http") {
		fault("target %q: want a path that starts with /", r.Target)
	}
	for i, f := range r.Header {
		at := fmt.Sprintf("header %d %q", i+1, f.Name)
		if f.Value != strings.Trim(f.Value, " \t") {
			fault("%s: value %q: want no space around it", at, f.Value)
		}
		switch strings.ToLower(f.Name) {
		case "connection", "keep-alive", "proxy-connection", "http2-settings":
			fault("%s: want none, as HTTP/2 has no such field", at)
		case "te":
			if f.Value != "trailers" {
				fault("%s: value %q: want trailers, as HTTP/2 has no other", at, f.Value)
			}
		}
	}
	return errors.Join(faults...)
}

// needsLength tells whether content-length is added.
func (r Request) needsLength() bool {
	if r.BitByBit || r.NoLength || r.Has("content-length") {
		return false
	}
	return r.VariesBody || r.NeedsLength()
}

// allFields returns the fields to be sent, but for the length of a body that varies.
func (r Request) allFields() []http1.Field {
	fields := slices.Clone(r.Header)
	if !r.Has("user-agent") {
		fields = slices.Insert(fields, 0, http1.Field{Name: "user-agent", Value: "dyno"})
	}
	if r.needsLength() && !r.VariesBody {
		fields = append(fields, http1.Field{Name: "content-length", Value: fmt.Sprint(len(r.Body))})
	}
	return fields
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
