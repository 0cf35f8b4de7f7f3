package http2

import (
	"bytes"
	"time"

	"dyno/experiments/subjects/grpcloop/hpack"
)

// A Request is the header of a call (gRPC over HTTP/2, "Requests").
type Request struct {
	// Method is the call's number in Config.Methods, from 1; 0 is one that is not there.
	Method int
	// POST is whether the method of HTTP is that of calls.
	POST bool
	// GRPC is whether the content type is application/grpc, alone or with +proto.
	GRPC bool
	// Encoding is the compression of messages.
	Encoding Encoding
	// AcceptsGzip is whether answers may be in gzip.
	AcceptsGzip bool
	// Timeout is the time that the call may take; 0 means that there is no end to it.
	Timeout time.Duration
	// TooLarge is whether the header list was longer than what a server accepts.
	TooLarge bool
	// Initial and Trailing are the values that come back with the answer. They are empty
	// without any, and belong to the stream.
	Initial, Trailing []byte

	malformed string // why the request is none
	seen      uint8  // pseudo-headers
	regular   bool   // a field that is no pseudo-header came
	size      int    // of the list
}

// An Encoding is how messages are compressed.
type Encoding uint8

// Encodings.
const (
	Identity Encoding = iota
	Gzip
	Unknown
)

// Meanings of fields: a kind, and what its value says.
const (
	meansNothing = iota
	meansMethod
	meansScheme
	meansPath
	meansAuthority
	meansContentType
	meansTE
	meansTimeout
	meansEncoding
	meansAccept
	meansInitial
	meansTrailing
	meansFault // the argument is the index of a sentence in faults
)

const kindBits = 4

func meaning(kind, argument int) hpack.Meaning { return hpack.Meaning(kind | argument<<kindBits) }

// faults are what makes a request malformed (section 8.2).
var faults = []string{
	"a pseudo-header that there is not",
	"a field of the connection",
	"TE other than trailers",
	"a name with a character that it may not have",
	"a value with a character that it may not have",
}

// mean returns a function that finds out what a field means.
func mean(methods []string) func(name, value []byte) hpack.Meaning {
	fault := func(i int) hpack.Meaning { return meaning(meansFault, i) }
	flag := func(kind int, b bool) hpack.Meaning {
		if b {
			return meaning(kind, 1)
		}
		return meaning(kind, 0)
	}
	return func(name, value []byte) hpack.Meaning {
		if bytes.ContainsAny(value, "\x00\r\n") {
			return fault(4)
		}
		switch string(name) {
		case ":method":
			return flag(meansMethod, string(value) == "POST")
		case ":scheme":
			return meaning(meansScheme, 0)
		case ":authority":
			return meaning(meansAuthority, 0)
		case ":path":
			for i, m := range methods {
				if string(value) == m {
					return meaning(meansPath, i+1)
				}
			}
			return meaning(meansPath, 0)
		case "content-type":
			kind, _, _ := bytes.Cut(value, []byte(";"))
			return flag(meansContentType, string(kind) == "application/grpc" || string(kind) == "application/grpc+proto")
		case "te":
			if string(value) != "trailers" {
				return fault(2)
			}
			return meaning(meansTE, 0)
		case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
			return fault(1)
		case "grpc-timeout":
			return meaning(meansTimeout, 0)
		case "grpc-encoding":
			switch string(value) {
			case "identity", "":
				return meaning(meansEncoding, int(Identity))
			case "gzip":
				return meaning(meansEncoding, int(Gzip))
			}
			return meaning(meansEncoding, int(Unknown))
		case "grpc-accept-encoding":
			return flag(meansAccept, bytes.Contains(value, []byte("gzip")))
		case "x-grpc-test-echo-initial":
			return meaning(meansInitial, 0)
		case "x-grpc-test-echo-trailing-bin":
			return meaning(meansTrailing, 0)
		}
		if len(name) > 0 && name[0] == ':' {
			return fault(0)
		}
		for _, b := range name {
			if b <= ' ' || b >= 0x7f || b == ':' || 'A' <= b && b <= 'Z' {
				return fault(3)
			}
		}
		if len(name) == 0 {
			return fault(3)
		}
		return meaning(meansNothing, 0)
	}
}

// clear makes the request empty and keeps its memory.
func (r *Request) clear() {
	*r = Request{Initial: r.Initial[:0], Trailing: r.Trailing[:0]}
}

// Field takes one field of the header.
func (r *Request) Field(m hpack.Meaning, name, value []byte) {
	if r.size += len(name) + len(value) + 32; r.size > maxHeaderList {
		r.TooLarge = true
		return
	}
	kind, argument := int(m)&(1<<kindBits-1), int(m)>>kindBits
	if kind >= meansMethod && kind <= meansAuthority {
		bit := uint8(1) << kind
		if r.regular || r.seen&bit != 0 {
			r.malformed = "a pseudo-header twice, or after another field"
		}
		r.seen |= bit
	} else {
		r.regular = true
	}
	switch kind {
	case meansMethod:
		r.POST = argument == 1
	case meansPath:
		r.Method = argument
	case meansContentType:
		r.GRPC = argument == 1
	case meansTimeout:
		d, ok := timeout(value)
		if !ok {
			r.malformed = "grpc-timeout is no time"
		}
		r.Timeout = d
	case meansEncoding:
		r.Encoding = Encoding(argument)
	case meansAccept:
		r.AcceptsGzip = argument == 1
	case meansInitial:
		r.Initial = joined(r.Initial, value)
	case meansTrailing:
		r.Trailing = joined(r.Trailing, value)
	case meansFault:
		r.malformed = faults[argument]
	}
}

// joined adds a value to those before it, as a list.
func joined(to, value []byte) []byte {
	if len(to) > 0 {
		to = append(to, ',')
	}
	return append(to, value...)
}

// check says what is wrong with the request, if anything is.
func (r *Request) check() string {
	const needed = 1<<meansMethod | 1<<meansScheme | 1<<meansPath
	if r.malformed == "" && !r.TooLarge && r.seen&needed != needed {
		return "a pseudo-header is missing"
	}
	return r.malformed
}

// timeout reads up to eight digits and a unit. A call whose time is over before it begins
// has the shortest time that there is.
func timeout(v []byte) (time.Duration, bool) {
	if len(v) < 2 || len(v) > 9 {
		return 0, false
	}
	n := time.Duration(0)
	for _, b := range v[:len(v)-1] {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(b-'0')
	}
	var unit time.Duration
	switch v[len(v)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	const longest = 1<<63 - 1
	if n > longest/unit {
		return longest, true
	}
	return max(n*unit, 1), true
}
