package websocket

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"

	"dyno/load/wire"
)

// Config is what all connections of one template have in common.
type Config struct {
	Dial

	// Messages are the prepared messages. Without any, there is one, which is made up: Payload bytes of text, other
	// ones each time. Its answer must be equal.
	Messages []Message
	Payload  int

	Exchanges int // messages of a connection that may await their answers at once; default 1

	// Unanswered says that nothing answers the messages: an exchange has ended when its message is written.
	Unanswered bool
}

// A Message is a prepared message.
type Message struct {
	Text   []byte
	Binary bool
	// ByID finds the answer by the text that stands in IDMark's place. Without, messages are answered in their order.
	ByID bool
}

// validate tells whether the message can be sent.
func (m Message) validate() error {
	switch {
	case len(m.Text) > MaxMessage:
		return fmt.Errorf("%d bytes: want %d at most", len(m.Text), MaxMessage)
	case !m.Binary && !utf8.Valid(m.Text):
		return errors.New("is not UTF-8: send it as binary")
	}
	return nil
}

// maxExchanges bounds the messages of a connection that await answers: their numbers have 16 bits.
const maxExchanges = 1 << 16

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	faults := []error{c.validate()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for i, m := range c.Messages {
		switch err := m.validate(); {
		case err != nil:
			fault("message %d: %w", i+1, err)
		case m.ByID && !bytes.Contains(m.Text, []byte(IDMark)):
			fault("message %d: has no %s, by which its answer could be found", i+1, IDMark)
		}
		if m.ByID != c.Messages[0].ByID {
			fault("message %d: want %s in all messages or in none", i+1, IDMark)
		}
	}
	if len(c.Messages) == 0 && (c.Payload < 0 || c.Payload > MaxMessage) {
		fault("payload of %d bytes: want 0 to %d", c.Payload, MaxMessage)
	}
	if c.Exchanges < 0 || c.Exchanges > maxExchanges {
		fault("%d messages at once: want 1 to %d", c.Exchanges, maxExchanges)
	}
	return errors.Join(faults...)
}

// A Template makes muxes that send the same messages, and holds what they share: one template per worker. It and its
// muxes are for one goroutine at a time.
type Template struct {
	*shared
	config   Config
	payloads *payloads // of made up messages; else nil
	byID     bool
	prefixes prefixes
	text     []byte // a message with its id
}

// NewTemplate returns a template, or every fault of its configuration.
func NewTemplate(c Config) (*Template, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	c.Exchanges = cmp.Or(c.Exchanges, 1)
	t := &Template{config: c}
	if len(c.Messages) > 0 {
		t.byID = c.Messages[0].ByID
	}
	var err error
	if t.shared, err = newShared(c.Dial, t.byID); err != nil {
		return nil, err
	}
	if len(c.Messages) == 0 {
		t.payloads = newPayloads(c.Payload, t.random)
	}
	t.prefixes = newPrefixes(t.random)
	return t, nil
}

// Mux returns a new mux, ready for a connection.
func (t *Template) Mux() *Mux {
	return &Mux{conn: conn{s: t.shared}, t: t, slots: make([]slot, t.config.Exchanges)}
}

// A Mux is one connection's side of WebSocket.
type Mux struct {
	conn
	t *Template

	slots  []slot
	order  []uint32         // the exchanges that await an answer, in order; with abandoned set, nobody waits for it any more
	first  int              // where they begin
	inUse  int              // slots
	late   int              // answers that nobody waits for any more
	prefix [prefixSize]byte // of ids
	pushed int64            // messages that answer nothing

	size    int64 // bytes of the message so far
	differs bool  // the answer under way is another one
}

var (
	_ wire.Mux    = (*Mux)(nil)
	_ wire.Pinger = (*Mux)(nil)
	_ wire.Closer = (*Mux)(nil)
	_ wire.Pusher = (*Mux)(nil)
)

// A slot is a place for an exchange.
type slot struct {
	payload int32  // where a made up message begins
	use     uint16 // tells the exchanges apart that had the place
	busy    bool
}

// abandoned marks an exchange that was given up: its answer may still come.
const abandoned = 1 << 31

// maxLate is for how many late answers a connection waits before it takes no more exchanges.
const maxLate = 1024

// Reset begins another connection.
func (m *Mux) Reset() {
	m.reset()
	for i := range m.slots {
		m.slots[i].busy = false
	}
	m.order, m.first, m.inUse, m.late, m.pushed = m.order[:0], 0, 0, 0, 0
	m.size, m.differs = 0, false
	m.prefix = m.t.prefixes.next()
	m.dial(0, nil)
}

// Free returns how many messages may be sent now.
func (m *Mux) Free() int {
	if !m.isReady() || m.closed || m.late >= maxLate {
		return 0
	}
	return len(m.slots) - m.inUse
}

// Begin sends a message.
func (m *Mux) Begin(id uint32, request int, _ [][]byte) error {
	t, s := m.t, &m.slots[id]
	s.busy = true
	s.use++
	m.inUse++
	if !t.byID {
		m.order = append(m.order, id)
	}
	if t.payloads != nil {
		s.payload = t.payloads.next()
		m.send(opText, t.payloads.at(s.payload))
		return nil
	}
	message := &t.config.Messages[request]
	text := message.Text
	if message.ByID {
		t.text = appendWithID(t.text[:0], text, m.prefix, id<<16|uint32(s.use))
		text = t.text
	}
	m.say(text, message.Binary)
	return nil
}

// Cancel gives an exchange up.
func (m *Mux) Cancel(id uint32) {
	if !m.slots[id].busy {
		return
	}
	m.free(id)
	if m.t.byID {
		return // its late answer has an id that nobody has
	}
	for i := m.first; i < len(m.order); i++ {
		if m.order[i] == id {
			m.order[i] |= abandoned
			m.late++
			return
		}
	}
}

func (m *Mux) free(id uint32) {
	m.slots[id].busy = false
	m.inUse--
}

// Input consumes bytes that arrived; see wire.Mux.
func (m *Mux) Input(p []byte, e *wire.MuxEvent) (n int, err error) {
	*e = wire.MuxEvent{}
	for m.Waiting() {
		if id, waits := m.oldest(); waits {
			m.free(id)
			*e = wire.MuxEvent{Kind: wire.MuxEnded, Status: wire.NoStatus, ID: id}
			return 0, nil
		}
	}
	for {
		used, got, found, err := m.next(p[n:])
		n += used
		if !found || err != nil {
			return n, err
		}
		if m.t.payloads != nil {
			m.compare(got.data)
		}
		m.size += int64(len(got.data))
		if !got.final {
			continue
		}
		answered := m.answer(got.data, e)
		m.size, m.differs = 0, false
		if answered {
			return n, nil
		}
	}
}

// compare compares the next bytes of an answer with the message that they answer.
func (m *Mux) compare(p []byte) {
	if m.first == len(m.order) || m.order[m.first]&abandoned != 0 {
		return
	}
	sent := m.t.payloads.at(m.slots[m.order[m.first]].payload)
	if m.size+int64(len(p)) > int64(len(sent)) || !bytes.Equal(sent[m.size:m.size+int64(len(p))], p) {
		m.differs = true
	}
}

// answer finds which exchange a whole message answers, and tells whether there is one.
func (m *Mux) answer(data []byte, e *wire.MuxEvent) bool {
	id, found := uint32(0), false
	switch {
	case m.t.config.Unanswered:
	case m.t.byID:
		id, found = m.identify(data)
	case m.first < len(m.order):
		if id, found = m.oldest(); !found {
			return false // its answer is late
		}
	}
	if !found {
		m.pushed++
		return false
	}
	m.free(id)
	*e = wire.MuxEvent{Kind: wire.MuxEnded, Status: wire.NoStatus, ID: id, Bytes: m.size}
	if m.differs || m.t.payloads != nil && m.size != int64(m.t.payloads.size) {
		e.Err = ErrEcho
	}
	return true
}

// oldest takes the exchange that was begun first of those in order, and tells whether it was not given up.
func (m *Mux) oldest() (id uint32, waits bool) {
	id = m.order[m.first]
	if m.first++; m.first == len(m.order) {
		m.order, m.first = m.order[:0], 0
	}
	if id&abandoned != 0 {
		m.late--
		return 0, false
	}
	return id, true
}

// identify returns the exchange that waits for an id in a message.
func (m *Mux) identify(data []byte) (id uint32, found bool) {
	at := bytes.Index(data, m.prefix[:])
	if at < 0 || len(data) < at+idSize {
		return 0, false
	}
	var digits [4]byte
	if _, err := hex.Decode(digits[:], data[at+prefixSize:at+idSize]); err != nil {
		return 0, false
	}
	id = uint32(binary.BigEndian.Uint16(digits[:]))
	if int(id) >= len(m.slots) || !m.slots[id].busy || m.slots[id].use != binary.BigEndian.Uint16(digits[2:]) {
		return 0, false
	}
	return id, true
}

// Waiting tells whether messages are written that nothing answers.
func (m *Mux) Waiting() bool {
	return m.t.config.Unanswered && m.first < len(m.order) && m.out == nil
}

// Fields returns nothing: messages have no fields.
func (m *Mux) Fields() []wire.MuxField { return nil }

// End tells how one of the open exchanges ends with the connection.
func (m *Mux) End() wire.MuxEvent {
	m.closed = true
	for id := range m.slots {
		if m.slots[id].busy {
			m.free(uint32(id))                                                                                //nolint:gosec // bounded by maxExchanges
			return wire.MuxEvent{Kind: wire.MuxFailed, Status: wire.NoStatus, ID: uint32(id), Err: ErrClosed} //nolint:gosec // as above
		}
	}
	return wire.MuxEvent{}
}

// Pushed returns how many messages have come that answered nothing.
func (m *Mux) Pushed() int64 { return m.pushed }
