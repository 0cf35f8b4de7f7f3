package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// A Kind says what a step of a user does with its connection.
type Kind uint8

// The kinds of steps.
const (
	Ask    Kind = iota // sends a message and awaits one
	Send               // sends a message
	Listen             // awaits a message
	Open               // opens the connection by a handshake of its own
	Ping               // sends a ping and awaits its pong
	Close              // sends a close frame and awaits the server's
	Closed             // awaits the server's close frame
)

// A Step is what a user sends, and what it awaits. Its varying parts are, of Open, the handshake's, and of others the
// value and then the text.
type Step struct {
	Kind    Kind
	Request http1.Request // Open: the handshake's
	Text    []byte        // of the message or ping
	Varies  bool
	Binary  bool
	Code    uint16 // Close: 1000 to 4999

	// Until tells whether a message is one that is awaited; nil: each is. It is given a value, too.
	Until       func(message, value []byte) bool
	Value       []byte
	ValueVaries bool
	Count       int  // how many such messages are awaited; default 1
	Collect     bool // the content is a JSON array of all messages until then, rather than the last one
}

// SessionConfig is what all sessions of one template have in common.
type SessionConfig struct {
	Dial

	Steps []Step
}

// Validate reports everything that is wrong with the configuration.
func (c SessionConfig) Validate() error {
	faults := []error{c.validate()}
	for i, s := range c.Steps {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("step %d: "+format, append([]any{i + 1}, args...)...))
		}
		switch {
		case s.Kind == Open:
			if err := c.request(s.Request).Validate(); err != nil {
				fault("%w", err)
			}
		case s.Kind == Close && (s.Code < closeNormal || s.Code > closeLastApp):
			fault("close code %d: want 1000 to 4999", s.Code)
		case s.Kind == Ping && (s.Varies || len(s.Text) > maxControl):
			fault("a ping of %d bytes: want %d at most, the same each time", len(s.Text), maxControl)
		case s.Varies:
		case len(s.Text) > MaxMessage:
			fault("message of %d bytes: want %d at most", len(s.Text), MaxMessage)
		case !s.Binary && !utf8.Valid(s.Text):
			fault("the message is not UTF-8: send it as binary")
		}
	}
	return errors.Join(faults...)
}

// A SessionTemplate makes sessions of users who carry out the same steps: one template per worker. It and its sessions
// are for one goroutine at a time.
type SessionTemplate struct {
	*shared
	steps     []Step
	handshake []int // by step, which one it begins
	opens     bool  // steps open the connections
	prefixes  prefixes
	text      []byte // what was put together last
}

// NewSessionTemplate returns a template, or every fault of its configuration.
func NewSessionTemplate(c SessionConfig) (*SessionTemplate, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	t := &SessionTemplate{steps: slices.Clone(c.Steps)}
	var handshakes []http1.Request
	for i := range t.steps {
		s := &t.steps[i]
		s.Count = max(s.Count, 1)
		if s.Kind == Open {
			t.opens = true
			handshakes = append(handshakes, s.Request)
		}
		t.handshake = append(t.handshake, len(handshakes)) // the first one is the default
	}
	var err error
	if t.shared, err = newShared(c.Dial, true, handshakes...); err != nil {
		return nil, err
	}
	t.prefixes = newPrefixes(t.random)
	return t, nil
}

// Session returns a new session, ready for a connection.
func (t *SessionTemplate) Session() *Session {
	return &Session{conn: conn{s: t.shared}, t: t, opened: -1}
}

// A Session is one connection's side of WebSocket, of a user who carries out steps. The user has one step under way at
// a time. Messages that no step awaits are counted.
type Session struct {
	conn
	t *SessionTemplate

	step   *Step // under way; nil for none
	value  []byte
	prefix [prefixSize]byte // of ids
	sentID uint32           // the last one's number
	id     []byte           // that the awaited message repeats; empty for none
	left   int              // messages that are awaited
	size   int64            // bytes of those that came
	sent   bool             // the step has ended as soon as its message is sent
	within bool             // collected messages have begun

	pushed int64
	opened int      // the step that has opened the connection, so that it can be opened again; -1: none
	parts  [][]byte // its
}

var (
	_ wire.Mux     = (*Session)(nil)
	_ wire.Pinger  = (*Session)(nil)
	_ wire.Closer  = (*Session)(nil)
	_ wire.Renewer = (*Session)(nil)
	_ wire.Pusher  = (*Session)(nil)
)

// Reset begins another connection. It is opened as the one before it, unless a step is to open it.
func (s *Session) Reset() {
	s.reset()
	s.step, s.sent, s.pushed = nil, false, 0
	s.prefix = s.t.prefixes.next()
	switch {
	case !s.t.opens:
		s.dial(0, nil)
	case s.opened >= 0:
		s.dial(s.t.handshake[s.opened], s.parts)
	}
}

// Renews tells whether a step opens a connection although this one is open.
func (s *Session) Renews(request int) bool {
	renews := s.t.steps[request].Kind == Open && (s.opened >= 0 || s.open)
	if renews {
		s.opened = -1
	}
	return renews
}

// Free tells whether a step may begin.
func (s *Session) Free() int {
	switch {
	case s.step != nil || s.closed || !s.open && (!s.t.opens || s.opened >= 0):
		return 0
	case !s.open && s.over2 != nil:
		return s.over2.Free()
	}
	return 1
}

// ErrNotOpen says that a step needs a connection that no step has opened.
var ErrNotOpen = &wire.Error{Kind: wire.Generator, Text: "no step has opened the connection: the first step needs a path"}

// Begin begins a step; see wire.Mux.
func (s *Session) Begin(_ uint32, request int, parts [][]byte) error {
	step := &s.t.steps[request]
	if !s.open && step.Kind != Open {
		return ErrNotOpen
	}
	s.step, s.left, s.size, s.within = step, step.Count, 0, false
	if step.Kind == Open {
		s.opened, s.parts = request, s.parts[:0]
		for _, p := range parts {
			s.parts = append(s.parts, bytes.Clone(p))
		}
		s.dial(s.t.handshake[request], s.parts)
		return nil
	}
	s.value = append(s.value[:0], step.Value...)
	if step.ValueVaries {
		s.value, parts = append(s.value[:0], parts[0]...), parts[1:]
	}
	text := step.Text
	if step.Varies {
		text = parts[0]
	}
	s.id = s.id[:0]
	if bytes.Contains(text, []byte(IDMark)) {
		s.sentID++
		s.id = appendID(s.id, s.prefix, s.sentID)
		s.t.text = appendWithID(s.t.text[:0], text, s.prefix, s.sentID)
		text = s.t.text
	}
	switch step.Kind {
	case Ask, Send:
		s.say(text, step.Binary)
		s.sent = step.Kind == Send
	case Ping:
		s.asked = true
		s.send(opPing, text)
	case Close:
		s.close(step.Code)
	}
	return nil
}

// Cancel gives the step under way up.
func (s *Session) Cancel(uint32) { s.step, s.sent, s.asked = nil, false, false }

// Waiting tells whether a step has ended that awaits nothing.
func (s *Session) Waiting() bool { return s.sent }

// Input consumes bytes that arrived; see wire.Mux.
func (s *Session) Input(p []byte, e *wire.MuxEvent) (n int, err error) {
	*e = wire.MuxEvent{}
	switch {
	case s.sent:
		s.sent = false
		s.end(e, wire.NoStatus)
		return 0, nil
	case s.code != 0:
		return len(p), nil // the server has closed the connection, and nothing follows that counts
	case !s.open:
		if n, err = s.answered(p, e); err != nil || !s.open || e.Kind != wire.MuxNothing {
			return n, err
		}
	}
	for {
		used, got, found, err := s.next(p[n:])
		n += used
		switch {
		case err != nil && s.code != 0 && (s.awaits(Close) || s.awaits(Closed)):
			s.end(e, int16(s.code)) //nolint:gosec // takeClose has checked it
			return n, nil
		case err != nil || !found:
			return n, err
		case got.op == opPong:
			s.end(e, wire.NoStatus)
			return n, nil
		case s.take(got.data, e):
			return n, nil
		}
	}
}

// awaits tells whether a step of a kind is under way.
func (s *Session) awaits(kind Kind) bool { return s.step != nil && s.step.Kind == kind }

// answered takes the answer to the handshake. The step that has sent it sees its status.
func (s *Session) answered(p []byte, e *wire.MuxEvent) (n int, err error) {
	n, err = s.shake(p)
	switch {
	case !s.awaits(Open):
	case wire.KindOf(err) == wire.Status:
		s.closed = true
		s.end(e, int16(s.status)) //nolint:gosec // of three digits
		return n, nil
	case err == nil && s.open:
		s.end(e, http.StatusSwitchingProtocols)
	}
	return n, err
}

// take takes a message, and tells whether it makes an event.
func (s *Session) take(data []byte, e *wire.MuxEvent) bool {
	step := s.step
	if !s.awaits(Ask) && !s.awaits(Listen) {
		s.pushed++
		return false
	}
	s.size += int64(len(data))
	if bytes.Contains(data, s.id) && (step.Until == nil || step.Until(data, s.value)) {
		s.left--
	} else {
		s.pushed++
	}
	switch {
	case step.Collect:
		t := s.t
		t.text = append(t.text[:0], '[')
		if s.within {
			t.text[0] = ','
		}
		s.within = true
		if t.text = append(t.text, data...); s.left == 0 {
			t.text = append(t.text, ']')
		}
		data = t.text
	case s.left > 0:
		return false
	}
	if *e = (wire.MuxEvent{Kind: wire.MuxMessage, Status: wire.NoStatus, Bytes: s.size}); s.left == 0 {
		s.end(e, wire.NoStatus)
	}
	e.Data = data
	return true
}

// end ends the step under way.
func (s *Session) end(e *wire.MuxEvent, status int16) {
	*e = wire.MuxEvent{Kind: wire.MuxEnded, Status: status, Bytes: s.size}
	s.step = nil
}

// Fields returns nothing: messages have no fields.
func (s *Session) Fields() []wire.MuxField { return nil }

// End tells how the step under way ends with the connection.
func (s *Session) End() wire.MuxEvent {
	s.closed = true
	if s.step == nil {
		return wire.MuxEvent{}
	}
	why := ErrClosed
	if s.awaits(Close) || s.awaits(Closed) {
		why = ErrCut
	}
	s.step = nil
	return wire.MuxEvent{Kind: wire.MuxFailed, Status: wire.NoStatus, Err: why}
}

// Pushed returns how many messages have come that no step awaited.
func (s *Session) Pushed() int64 { return s.pushed }
