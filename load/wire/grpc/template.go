package grpc

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
)

// A Template makes clients that send the same calls, and holds what they can share: one
// template per worker. It and its clients are for one goroutine at a time.
type Template struct {
	two *http2.Template // one of both is there
	one *http1.Template

	calls      []prepared
	web        Web
	maxMessage int
	check      func(call int, message []byte) error
	content    bool
	judged     bool
	plain      bool // no compression is offered
	step       int

	// names are by the number that a field has in the protocol below.
	names         []wanted
	fields        []wire.MuxField
	trailers      [][]byte // names of trailing metadata that were asked for
	firstTrailing int      // the number of the first of them

	failures map[*wire.Error]failure
	interned map[string]failure
	oversize map[int64]failure // of messages beyond the limit, by their size
	key      []byte

	// State between messages.
	shown     []byte // the last message that was put together, or expanded
	delivered []byte // what was made of it
	source    bytes.Reader
	gunzip    *gzip.Reader
	frame     []byte   // a message that varies, framed
	parts     [][]byte // with it

	spare wire.Buffers // for messages in pieces
}

// A prepared is a call that is ready to be sent.
type prepared struct {
	Call
	framed [][]byte // messages that are sent bit by bit, or by calls in turn
	count  uint32
	next   int  // in turn: which is next
	events bool // each message of the response is an event
	wants  bool // messages of the response are to be put together
}

// A wanted is a field of a response's header, or after its messages: what it is to the protocol,
// and which of those that were asked for.
type wanted struct {
	own      ownField
	asked    int // its place among them; none
	trailing int // its number among them if it is after the messages; none
}

type ownField uint8

const (
	notOwn ownField = iota
	ownStatus
	ownMessage
	ownDetails
	ownEncoding
	ownType
)

var ownNames = []string{ownStatus: nameStatus, ownMessage: nameMessage, ownDetails: nameDetails, ownEncoding: nameEncoding, ownType: nameType}

const none = -1

// NewTemplate returns a template of clients that speak HTTP/2, or every fault of its
// configuration.
func NewTemplate(c Config) (*Template, error) {
	t, names, err := newTemplate(c)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	below := http2.Config{
		Streams: c.Streams, Optimistic: c.Optimistic, Settings: c.Settings, Content: true, Fields: names, Accept: anyStatus,
		MaxHeader: c.MaxHeader,
	}
	for _, call := range c.Calls {
		below.Requests = append(below.Requests, http2.Request{
			Request: call.request(&c), Scheme: call.Scheme, BitByBit: call.ClientStream, NoLength: c.Web == Native,
		})
	}
	if t.two, err = http2.NewTemplate(below); err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	return t, nil
}

// NewWebTemplate returns a template of clients that speak gRPC-Web over HTTP/1.1, or every fault
// of its configuration.
func NewWebTemplate(c Config) (*Template, error) {
	if c.Web == Native {
		return nil, fmt.Errorf("grpc: form Native over HTTP/1.1: want Binary or Text, as gRPC needs HTTP/2")
	}
	t, names, err := newTemplate(c)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	below := http1.Config{Fields: names, Accept: anyStatus, MaxHeader: c.MaxHeader}
	for _, call := range c.Calls {
		below.Requests = append(below.Requests, call.request(&c))
	}
	if t.one, err = http1.NewTemplate(below); err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	return t, nil
}

// newTemplate returns a template without the protocol below, and the names of the fields that
// are asked of it.
func newTemplate(c Config) (*Template, []string, error) {
	if err := c.Validate(); err != nil {
		return nil, nil, fmt.Errorf("grpc: %w", err)
	}
	c = c.withDefaults()
	t := &Template{
		web: c.Web, maxMessage: c.MaxMessage, check: c.Check, content: c.Content, judged: c.Judged, plain: c.Plain,
		step: c.Step, firstTrailing: len(c.Fields),
		failures: map[*wire.Error]failure{}, interned: map[string]failure{},
	}
	var names []string
	want := func(own ownField, name string) {
		w := wanted{own, slices.Index(c.Fields, name), slices.Index(c.Trailers, name)}
		if w.trailing != none {
			w.trailing += t.firstTrailing
		}
		names, t.names = append(names, name), append(t.names, w)
	}
	for own := ownStatus; own <= ownType; own++ {
		want(own, ownNames[own])
	}
	for _, name := range slices.Concat(c.Fields, c.Trailers) {
		if !slices.Contains(names, name) {
			want(notOwn, name)
		}
	}
	for _, name := range c.Trailers {
		t.trailers = append(t.trailers, []byte(name))
	}
	for _, call := range c.Calls {
		p := prepared{
			Call: call, events: c.Content || call.ServerStream || call.Translate != nil, wants: c.Check != nil || c.Content || call.Translate != nil,
		}
		if p.Keep == 0 {
			p.Keep = DefaultKeep
		}
		if call.ClientStream || call.inTurn() {
			for _, m := range call.Messages {
				p.framed = append(p.framed, call.framed(m, c.Web))
			}
			p.next = c.First % max(1, len(p.framed))
		}
		if call.ClientStream {
			p.count = uint32(call.Count) //nolint:gosec // bounded by maxCount
			if call.Count == 0 {
				p.count = uint32(len(call.Messages)) //nolint:gosec // bounded by memory
			}
		}
		t.calls = append(t.calls, p)
	}
	return t, names, nil
}

// anyStatus accepts whatever HTTP status a response has: grpc-status says more.
func anyStatus(int) bool { return true }

// read takes what the fields of a header, or of a trailer section, say.
func (k *call) read(t *Template, fields []wire.MuxField, trailers bool) {
	var (
		s         callStatus
		isGRPC    bool
		encodings = callState(0)
	)
	for _, f := range fields {
		switch t.names[f.Name].own {
		case ownStatus:
			s.code = f.Value
		case ownMessage:
			s.message = f.Value
		case ownDetails:
			s.details = f.Value
		case ownType:
			isGRPC = t.isType(f.Value)
		case ownEncoding:
			switch string(f.Value) {
			case "identity", "":
			case "gzip":
				if encodings = encoded; t.plain {
					encodings = foreign
				}
			default:
				encodings = foreign
			}
		}
	}
	if s.code != nil {
		k.noteStatus(t, s)
	}
	if trailers {
		return
	}
	if k.state&settled != 0 {
		k.state |= early
	}
	k.state |= headed | encodings
	if k.status != 200 || !isGRPC {
		k.state |= opaque
	}
}

// isType tells whether a content-type belongs to the form of gRPC in use, whatever encodes its
// messages.
func (t *Template) isType(value []byte) bool {
	want := contentTypes[t.web]
	if string(value) == want {
		return true
	}
	bare := []byte("application/grpc")
	switch t.web {
	case Binary:
		bare = []byte("application/grpc-web")
	case Text:
		bare = []byte("application/grpc-web-text")
	}
	rest, ok := bytes.CutPrefix(value, bare)
	return ok && (len(rest) == 0 || rest[0] == '+' || rest[0] == ';')
}

// A section says where fields stand.
type section uint8

const (
	initial  section = iota // the header
	trailing                // what is after the messages
	only                    // the one section that a response has, which is both
)

// list returns the requested fields.
func (t *Template) list(fields []wire.MuxField, of section) []wire.MuxField {
	t.fields = t.fields[:0]
	for _, f := range fields {
		w := &t.names[f.Name]
		if w.asked != none && of != trailing {
			t.fields = append(t.fields, wire.MuxField{Name: w.asked, Value: f.Value})
		}
		if w.trailing != none && of != initial {
			t.fields = append(t.fields, wire.MuxField{Name: w.trailing, Value: f.Value})
		}
	}
	return t.fields
}

// take judges a message of a response that is complete.
func (t *Template) take(k *call, message []byte) (f failure) {
	if k.messages > 1 && !t.calls[k.request].ServerStream {
		return errMessages
	}
	if t.check != nil {
		if err := t.check(int(k.request), message); err != nil {
			return t.refuse(err)
		}
	}
	return f
}

// translated makes the delivered form of a message. It is valid until the next one.
func (t *Template) translated(k *call, message []byte) (delivered []byte, f failure) {
	p := &t.calls[k.request]
	t.delivered = t.delivered[:0]
	if p.ServerStream {
		separator := byte(',')
		if k.messages == 1 {
			separator = '['
		}
		t.delivered = append(t.delivered, separator)
	}
	var err error
	if t.delivered, err = p.Translate(t.delivered, message); err != nil {
		return nil, t.refuse(err)
	}
	return t.delivered, f
}

// The ends of an array of messages, and of one without any.
var (
	endOfArray = []byte("]")
	emptyArray = []byte("[]")
)

// rest returns what is delivered after the messages of a response.
func (t *Template) rest(k *call) []byte {
	switch p := &t.calls[k.request]; {
	case p.Translate == nil || !p.ServerStream:
		return nil
	case k.messages == 0:
		return emptyArray
	}
	return endOfArray
}

// refuse returns the failure of a message that the check refuses. As with statuses, past a
// number of different ones there is one for all.
func (t *Template) refuse(err error) failure {
	text := "message refused: " + wire.OneLine(err.Error())
	if f, found := t.interned[text]; found {
		return f
	}
	if len(t.interned) == maxInterned {
		return errRefusedMessage
	}
	f := newFailure(wire.Assertion, Internal, text)
	t.interned[text] = f
	return f
}

var errRefusedMessage = newFailure(wire.Assertion, Internal, "message refused")

// conclude says how a response ended that is complete, as far as the protocol below can tell. A failure
// of kind Status belongs to a complete response.
func (t *Template) conclude(k *call) (f failure) {
	k.judge(false)
	switch {
	case k.state&(settled|opaque) == opaque:
		if k.status != 200 {
			return httpFailures()[min(max(k.status, 0), 999)]
		}
		return errContentType
	case k.state&settled == 0:
		return errNoStatus
	case k.state&rejected != 0:
		return k.end
	case k.got > 0 || k.grouped > 0 || k.state&inside != 0:
		return errCutShort
	case k.messages == 0 && !t.calls[k.request].ServerStream:
		return errNoMessage
	}
	return k.end
}

// compose puts together the parts of a call whose message varies, or is the next in turn.
func (t *Template) compose(p *prepared, parts [][]byte) [][]byte {
	if p.inTurn() {
		t.parts = append(append(t.parts[:0], parts...), p.framed[p.next])
		p.next = (p.next + t.step) % len(p.framed)
		return t.parts
	}
	if !p.Varies || len(parts) == 0 {
		return parts
	}
	message := parts[len(parts)-1]
	if p.Gzip || t.web == Text {
		t.frame = append(t.frame[:0], p.Call.framed(message, t.web)...)
	} else {
		t.frame = AppendMessage(t.frame[:0], message, false)
	}
	t.parts = append(append(t.parts[:0], parts[:len(parts)-1]...), t.frame)
	return t.parts
}
