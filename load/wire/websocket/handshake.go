package websocket

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the RFC's choice; it proves nothing but that the server speaks WebSocket
	"encoding/base64"
	"net/http"
	"slices"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// guid is what servers append to a key (RFC 6455, section 1.3).
const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// keySize is the length of a key as it is sent.
const keySize = 24

const (
	extension       = "permessage-deflate"
	serverForgets   = "server_no_context_takeover"
	clientForgets   = "client_no_context_takeover"
	serverWindow    = "server_max_window_bits"
	maxWindowBits   = 15
	minWindowBits   = 8
	protocolVersion = "13"
)

// The fields of the response, by their numbers among those that are asked for.
const (
	fieldUpgrade = iota
	fieldConnection
	fieldAccept
	fieldExtensions
	fieldProtocol
)

var fieldNames = []string{"upgrade", "connection", "sec-websocket-accept", "sec-websocket-extensions", "sec-websocket-protocol"}

// request returns the request of a handshake (section 4.1). Its key varies.
func (d Dial) request(r http1.Request) http1.Request {
	r = d.extend(r)
	r.Upgrade = "websocket"
	r.Header = append(r.Header, http1.Field{Name: "Sec-WebSocket-Key", Varies: true})
	return r
}

// extend returns a request with what handshakes over any version of HTTP have in common.
func (d Dial) extend(r http1.Request) http1.Request {
	r.Method = http.MethodGet
	r.Header = slices.Clone(r.Header)
	add := func(name, value string) { r.Header = append(r.Header, http1.Field{Name: name, Value: value}) }
	add("Sec-WebSocket-Version", protocolVersion)
	if d.Compress {
		// Without contexts that last, a connection needs no memory between two messages.
		add("Sec-WebSocket-Extensions", extension+"; "+clientForgets+"; "+serverForgets)
	}
	if len(d.Subprotocols) > 0 {
		add("Sec-WebSocket-Protocol", joined(d.Subprotocols))
	}
	return r
}

func joined(words []string) string {
	text := words[0]
	for _, w := range words[1:] {
		text += ", " + w
	}
	return text
}

// acceptOf returns the proof that a server has read a key (section 4.2.2).
func acceptOf(key []byte) [28]byte {
	var answer [28]byte
	var text [keySize + len(guid)]byte
	copy(text[copy(text[:], key):], guid)
	sum := sha1.Sum(text[:]) //nolint:gosec // as above
	base64.StdEncoding.Encode(answer[:], sum[:])
	return answer
}

// agreed is what the handshake has agreed on.
type agreed struct {
	deflates bool // messages may be compressed
	takeover bool // the server's compression goes on from one message to the next
}

// check judges a response of status 101 by its fields.
func (d *Dial) check(fields []wire.MuxField, key []byte) (a agreed, err *wire.Error) {
	var upgraded, switched, accepted bool
	var subprotocol []byte
	for _, f := range fields {
		switch f.Name {
		case fieldUpgrade:
			upgraded = upgraded || hasWord(f.Value, "websocket")
		case fieldConnection:
			switched = switched || hasWord(f.Value, "upgrade")
		case fieldAccept:
			if d.HTTP2 {
				continue // a proxy may have it from a server behind it
			}
			want := acceptOf(key)
			if accepted = !accepted && bytes.Equal(f.Value, want[:]); !accepted {
				return a, ErrAccept
			}
		case fieldExtensions:
			if err := a.extend(d.Compress, f.Value); err != nil {
				return a, err
			}
		case fieldProtocol:
			if subprotocol != nil {
				return a, ErrSubprotocol
			}
			subprotocol = f.Value
		}
	}
	switch {
	case d.HTTP2 && (subprotocol == nil || slices.Contains(d.Subprotocols, string(subprotocol))):
		return a, nil // it has no fields of the other kinds
	case d.HTTP2:
		return a, ErrSubprotocol
	case !upgraded:
		return a, ErrNotUpgraded
	case !switched:
		return a, ErrNotSwitched
	case !accepted:
		return a, ErrAccept
	case subprotocol != nil && !slices.Contains(d.Subprotocols, string(subprotocol)):
		return a, ErrSubprotocol
	}
	return a, nil
}

// extend takes the extensions that the server uses (RFC 7692, section 7.1).
func (a *agreed) extend(offered bool, list []byte) *wire.Error {
	for one := range bytes.SplitSeq(list, []byte(",")) {
		name, parameters, _ := bytes.Cut(one, []byte(";"))
		if name = bytes.TrimSpace(name); len(name) == 0 && len(parameters) == 0 {
			continue
		}
		if !offered || a.deflates || !bytes.EqualFold(name, []byte(extension)) {
			return ErrExtension
		}
		a.deflates, a.takeover = true, true
		if len(parameters) == 0 {
			continue
		}
		seen := map[string]bool{}
		for p := range bytes.SplitSeq(parameters, []byte(";")) {
			name, value, _ := bytes.Cut(p, []byte("="))
			word := string(bytes.ToLower(bytes.TrimSpace(name)))
			value = bytes.Trim(bytes.TrimSpace(value), `"`)
			if seen[word] {
				return ErrParameter
			}
			seen[word] = true
			switch {
			case word == serverForgets && len(value) == 0:
				a.takeover = false
			case word == clientForgets && len(value) == 0:
			case word == serverWindow && isWindow(value):
			default:
				return ErrParameter
			}
		}
	}
	return nil
}

// isWindow tells whether a value is a number of bits of a window.
func isWindow(value []byte) bool {
	n := 0
	for _, b := range value {
		if b < '0' || b > '9' || n > maxWindowBits {
			return false
		}
		n = 10*n + int(b-'0')
	}
	return n >= minWindowBits && n <= maxWindowBits && value[0] != '0'
}

// hasWord tells whether a list has a word, in any case.
func hasWord(list []byte, word string) bool {
	for one := range bytes.SplitSeq(list, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(one), []byte(word)) {
			return true
		}
	}
	return false
}
