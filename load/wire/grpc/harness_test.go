package grpc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"

	"dyno/load/wire"
)

// unary returns a call that takes one message and answers with one.
func unary(message string) Call {
	return Call{Scheme: "http", Authority: "h", Path: "/p.S/M", Messages: [][]byte{[]byte(message)}}
}

func config(calls ...Call) Config {
	return Config{Calls: calls, Streams: 4, Optimistic: true}
}

func newClient(t testing.TB, c Config) *Client {
	t.Helper()
	template, err := NewTemplate(c)
	if err != nil {
		t.Fatal(err)
	}
	client := template.Client()
	client.Reset()
	return client
}

// A frames puts together what a server sends. Header fields are sent as literals, so that
// their bytes do not depend on what was sent before.
type frames struct{ b []byte }

const (
	endStream  = 1
	endHeaders = 4
)

func (f *frames) frame(kind, flags byte, stream uint32, payload []byte) *frames {
	n := len(payload)
	f.b = append(f.b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	f.b = binary.BigEndian.AppendUint32(f.b, stream)
	f.b = append(f.b, payload...)
	return f
}

func (f *frames) settings() *frames { return f.frame(4, 0, 0, nil) }

func (f *frames) header(stream uint32, end bool, pairs ...string) *frames {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSizeLimit(0)
	for i := 0; i < len(pairs); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1], Sensitive: true}); err != nil {
			panic(err)
		}
	}
	payload := block.Bytes()
	flags := byte(endHeaders)
	if end {
		flags |= endStream
	}
	return f.frame(1, flags, stream, payload)
}

func (f *frames) data(stream uint32, end bool, payload []byte) *frames {
	flags := byte(0)
	if end {
		flags = endStream
	}
	return f.frame(0, flags, stream, payload)
}

func (f *frames) reset(stream, code uint32) *frames {
	return f.frame(3, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// goodHead are the fields that begin a response.
var goodHead = []string{":status", "200", "content-type", "application/grpc"}

// answer is a good response of messages.
func (f *frames) answer(stream uint32, messages ...string) *frames {
	f.header(stream, false, goodHead...)
	for _, m := range messages {
		f.data(stream, false, AppendMessage(nil, []byte(m), false))
	}
	return f.header(stream, true, "grpc-status", "0")
}

// An outcome is an event as tests compare it.
type outcome struct {
	kind   wire.MuxEventKind
	id     uint32
	status int16
	err    string
	data   string
}

func (o outcome) String() string {
	return fmt.Sprintf("{kind %d id %d status %d err %q data %q}", o.kind, o.id, o.status, o.err, o.data)
}

// feed gives a client bytes, cut into pieces of a size, and returns the events but for
// headers.
func feed(t testing.TB, c wire.Mux, p []byte, piece int) (all []outcome) {
	t.Helper()
	for len(p) > 0 {
		part := slices.Clone(p[:min(piece, len(p))]) // so that what is kept of it shows
		p = p[len(part):]
		for {
			var e wire.MuxEvent
			n, err := c.Input(part, &e)
			if err != nil {
				return append(all, outcome{err: err.Error()})
			}
			if part = part[n:]; e.Kind == wire.MuxNothing {
				if len(part) > 0 {
					t.Fatalf("%d bytes are left without an event", len(part))
				}
				break
			}
			if e.Kind == wire.MuxHead {
				continue
			}
			o := outcome{kind: e.Kind, id: e.ID, status: e.Status, data: string(e.Data)}
			if e.Err != nil {
				o.err = e.Err.Error()
			}
			all = append(all, o)
		}
		clear(part[:cap(part)])
	}
	return all
}

func begin(t testing.TB, c wire.Mux, id uint32, request int, parts ...[]byte) {
	t.Helper()
	if err := c.Begin(id, request, parts); err != nil {
		t.Fatal(err)
	}
}

// A sentFrame is a frame that a client sent, its header block decoded.
type sentFrame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
	fields      []hpack.HeaderField
}

// split returns the frames that a client sent, without its preface.
func split(b []byte) (all []sentFrame) {
	b = bytes.TrimPrefix(b, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for len(b) > 0 {
		n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		f := sentFrame{kind: b[3], flags: b[4], stream: binary.BigEndian.Uint32(b[5:]), payload: b[9 : 9+n]}
		b = b[9+n:]
		all = append(all, f)
	}
	return all
}

// parse returns all frames that a client sent, with their fields.
func parse(t testing.TB, b []byte) []sentFrame {
	t.Helper()
	all := split(b)
	d := hpack.NewDecoder(4096, nil)
	for i, f := range all {
		if f.kind != 1 {
			continue
		}
		var err error
		if all[i].fields, err = d.DecodeFull(f.payload); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func (f sentFrame) field(name string) string {
	for _, h := range f.fields {
		if h.Name == name {
			return h.Value
		}
	}
	return "(none)"
}

// trailersFrame is the end of a response of gRPC-Web.
func trailersFrame(block string) []byte {
	b := []byte{flagTrailers}
	b = binary.BigEndian.AppendUint32(b, uint32(len(block)))
	return append(b, block...)
}

func text64(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }
