package engine_test

import (
	"bufio"
	"compress/flate"
	"crypto/sha1" //nolint:gosec // the RFC's choice
	"encoding/base64"
	"encoding/binary"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	ours "dyno/load/wire/websocket"
)

// A socketFault is what a server does against a rule.
type socketFault struct {
	name  string // of the variable in package websocket
	err   *wire.Error
	cases []faultCase
}

// A faultCase is one way of breaking a rule.
type faultCase struct {
	head  map[string]string // fields of the handshake's response other than usual; "" leaves one out
	frame string            // that follows the first message, in place of its echo
	do    func(net.Conn)    // in place of frame
	code  uint16            // of the close frame that the client sends; 0: none
}

// socketFaults has an entry for each fault that package websocket knows.
func socketFaults() []socketFault {
	frames := func(code uint16, frames ...string) (cases []faultCase) {
		for _, f := range frames {
			cases = append(cases, faultCase{frame: f, code: code})
		}
		return cases
	}
	heads := func(name string, values ...string) (cases []faultCase) {
		for _, v := range values {
			cases = append(cases, faultCase{head: map[string]string{name: v}})
		}
		return cases
	}
	say := func(text ...string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, strings.Join(text, "")) }
	}
	const extensions, subprotocol = "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"
	deflates := map[string]string{extensions: "permessage-deflate"}
	long := deflated(strings.Repeat("a", 1001))
	return []socketFault{
		{"ErrNotUpgraded", ours.ErrNotUpgraded, heads("Upgrade", "", "h2c")},
		{"ErrNotSwitched", ours.ErrNotSwitched, heads("Connection", "", "keep-alive")},
		{"ErrAccept", ours.ErrAccept, heads("Sec-WebSocket-Accept", "", "dGhlIHNhbXBsZSBub25jZQ==")},
		{"ErrExtension", ours.ErrExtension, heads(extensions, "x-webkit-deflate-frame", "permessage-deflate, permessage-deflate")},
		{"ErrParameter", ours.ErrParameter, heads(extensions, "permessage-deflate; client_max_window_bits=9", "permessage-deflate; server_max_window_bits=16")},
		{"ErrSubprotocol", ours.ErrSubprotocol, heads(subprotocol, "other")},

		{"ErrReserved", ours.ErrReserved, frames(1002, "\xc1\x00", "\xa1\x00", "\x91\x00", "\xc9\x00")},
		{"ErrOpcode", ours.ErrOpcode, frames(1002, "\x83\x00", "\x87\x00", "\x8b\x00", "\x8f\x00")},
		{"ErrMasked", ours.ErrMasked, frames(1002, "\x81\x81\x00\x00\x00\x00a")},
		{"ErrLength", ours.ErrLength, frames(1002, "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00")},
		{"ErrMinimal", ours.ErrMinimal, frames(1002, "\x82\x7e\x00\x7d", "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff")},
		{"ErrControlSize", ours.ErrControlSize, frames(1002, "\x89\x7e\x00\x7e", "\x88\x7e\x01\x00")},
		{"ErrControlParts", ours.ErrControlParts, frames(1002, "\x09\x00", "\x0a\x00", "\x08\x00")},
		{"ErrContinuation", ours.ErrContinuation, frames(1002, "\x80\x01a", "\x00\x01a")},
		{"ErrInterleaved", ours.ErrInterleaved, frames(1002, "\x01\x01a\x81\x01b", "\x02\x01a\x89\x00\x02\x01b")},

		{"ErrUTF8", ours.ErrUTF8, append(frames(1007, "\x81\x01\xff", "\x01\x02\xc3\xc3", "\x81\x02\xe2\x82", "\x81\x03\xed\xa0\x80"),
			faultCase{head: deflates, frame: "\xc1\x07" + "\x00\x01\x00\xfe\xff\xff\x00", code: 1007})}, // stored, then an empty block
		{"ErrCloseSize", ours.ErrCloseSize, frames(1002, "\x88\x01\x03")},
		{"ErrCloseCode", ours.ErrCloseCode, frames(1002, "\x88\x02\x00\x00", "\x88\x02\x03\xe7", "\x88\x02\x03\xec", "\x88\x02\x03\xed", "\x88\x02\x03\xee", "\x88\x02\x03\xf7", "\x88\x02\x13\x88")},
		{"ErrCloseReason", ours.ErrCloseReason, frames(1007, "\x88\x03\x03\xe8\xff")},
		{"ErrDeflate", ours.ErrDeflate, []faultCase{{head: deflates, frame: "\xc1\x01\xff", code: 1007}}},

		{"ErrTooLarge", ours.ErrTooLarge, append(frames(1009, "\x82\x7e\x03\xe9", "\x02\x7e\x03\xe8"+strings.Repeat("a", 1000)+"\x80\x01a"),
			faultCase{head: deflates, frame: "\xc2" + string(rune(len(long))) + long, code: 1009})},
		{"ErrFlood", ours.ErrFlood, []faultCase{{do: func(c net.Conn) {
			pings := []byte(strings.Repeat("\x89\x7d"+strings.Repeat("p", 125), 1000))
			for err := error(nil); err == nil; { // and reads nothing
				_, err = c.Write(pings)
			}
		}}}},
		{"ErrEcho", ours.ErrEcho, []faultCase{{do: say("\x81\x05other")}, {do: say("\x81\x00")}, {do: say("\x81\x0b", strings.Repeat("a", 11))}}},
		{"ErrClosed", ours.ErrClosed, []faultCase{{do: func(net.Conn) {}}}},
	}
}

// deflated is a compressed message (RFC 7692, section 7.2.1).
func deflated(text string) string {
	var b strings.Builder
	w, _ := flate.NewWriter(&b, flate.BestSpeed) // never fails, as the next ones
	_, _ = io.WriteString(w, text)
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

// socketFaultsElsewhere says which faults no answer to a message can show.
var socketFaultsElsewhere = map[string]string{
	"ErrUnasked": "users send their handshake as soon as they are connected: the codec's own tests have it",
	"ErrCut":     "TestSocketCut has it",
}

// TestSocketFaults: a server that breaks a rule is named in the result, and is told why by the code that the RFC has for it.
func TestSocketFaults(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, fault := range socketFaults() {
		tested[fault.name] = true
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range fault.cases {
				checkFault(t, fault.err, tt)
			}
		})
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../wire/websocket/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, name := range spec.Names {
				if tested[name.Name] == (socketFaultsElsewhere[name.Name] != "") {
					t.Errorf("%s: want a server that has the fault, or a reason why there is none", name.Name)
				}
			}
		}
		return true
	})
}

func checkFault(t *testing.T, want *wire.Error, tt faultCase) {
	t.Helper()
	var connections atomic.Int64
	codes := make(chan uint16, 16)
	address := listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		// The first connection is a good one for a message, so that handshakes fail within the load.
		if connections.Add(1) == 1 {
			if !shakeHands(in, c, map[string]string{}) {
				return
			}
			if _, payload, err := readFrame(in); err == nil {
				_, _ = c.Write(append([]byte{0x81, byte(len(payload))}, payload...))
				_, _, _ = readFrame(in) // the second message
			}
			return
		}
		if !shakeHands(in, c, tt.head) {
			return
		}
		if tt.frame != "" || tt.do != nil {
			if _, _, err := readFrame(in); err != nil {
				return
			}
		}
		if tt.do != nil {
			tt.do(c)
			return
		}
		_, _ = io.WriteString(c, tt.frame)
		for {
			op, payload, err := readFrame(in)
			if err != nil || op == 8 && len(payload) < 2 {
				return
			}
			if op == 8 {
				select {
				case codes <- binary.BigEndian.Uint16(payload):
				default:
				}
				return
			}
		}
	})
	codec := ours.Config{Dial: ours.Dial{
		Request: http1.Request{Target: "/", Host: address}, Subprotocols: []string{"chat"}, Compress: true, MaxMessage: 1000,
	}, Payload: 10}
	r, err := engine.Run(t.Context(), config.Config{
		Address: address, Connections: 1, Streams: 1, Standing: true, Requests: 4, Window: hang,
		NewMuxes: func(int) func() wire.Mux {
			template, err := ours.NewTemplate(codec)
			if err != nil {
				panic(err)
			}
			return func() wire.Mux { return template.Mux() }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	n := r.Failures[want.Kind.String()+": "+want.Text]
	if n == 0 || n > r.Counts.ByKind[want.Kind] {
		t.Errorf("%+v: failures %v, want %v", tt, r.Failures, want)
	}
	if tt.code == 0 {
		return
	}
	select {
	case code := <-codes:
		if code != tt.code {
			t.Errorf("%+v: close code %d, want %d", tt, code, tt.code)
		}
	case <-time.After(hang):
		t.Errorf("%+v: no close frame", tt)
	}
}

// shakeHands answers a handshake, with other fields than usual.
func shakeHands(in *bufio.Reader, out io.Writer, other map[string]string) bool {
	request, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	sum := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	fields := map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": base64.StdEncoding.EncodeToString(sum[:])}
	for name, value := range other {
		fields[name] = value
	}
	head := "HTTP/1.1 101 Switching Protocols\r\n"
	for name, value := range fields {
		if value != "" {
			head += name + ": " + value + "\r\n"
		}
	}
	_, err = io.WriteString(out, head+"\r\n")
	return err == nil
}

// readFrame reads a frame of a client, of less than 64 KiB.
func readFrame(in io.Reader) (op byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, nil, err
	}
	if head[1] < 0x80 || head[1] == 0xff {
		return 0, nil, errors.New("no mask, or a long frame")
	}
	size := int(head[1] & 0x7f)
	if size == 126 {
		length := make([]byte, 2)
		if _, err := io.ReadFull(in, length); err != nil {
			return 0, nil, err
		}
		size = int(binary.BigEndian.Uint16(length))
	}
	key := make([]byte, 4+size)
	if _, err := io.ReadFull(in, key); err != nil {
		return 0, nil, err
	}
	payload = key[4:]
	for i := range payload {
		payload[i] ^= key[i%4]
	}
	return head[0] & 0x0f, payload, nil
}

// serveFault has one user open a connection to a server and close it, over and over, and returns what failed.
func serveFault(t *testing.T, do func(net.Conn)) map[string]uint64 {
	t.Helper()
	address := listen(t, do)
	open := ours.Step{Kind: ours.Open, Request: http1.Request{Target: "/", Host: address}}
	codec := ours.SessionConfig{Dial: ours.Dial{Request: open.Request}, Steps: []ours.Step{open, {Kind: ours.Close, Code: 1000}}}
	r, err := engine.Run(t.Context(), config.Config{
		Address: address, Connections: 1, Owned: true, Window: hang, Requests: 4, Users: &users.Config{Scenario: socketScript(t, 2)},
		NewMuxes: func(int) func() wire.Mux {
			template, err := ours.NewSessionTemplate(codec)
			if err != nil {
				panic(err)
			}
			return func() wire.Mux { return template.Session() }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Failures
}

// TestSocketCut: a server that answers a close frame by ending the connection is named.
func TestSocketCut(t *testing.T) {
	failures := serveFault(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if shakeHands(in, c, nil) {
			_, _, _ = readFrame(in)
		}
	})
	if failures["reset: "+ours.ErrCut.Text] == 0 {
		t.Errorf("failures %v", failures)
	}
}
