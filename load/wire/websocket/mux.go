package websocket

import (
	"bytes"
	"cmp"
	cryptorand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// MaxMessage is the largest message that is sent or, if nothing else is configured, received: 16 MiB.
const MaxMessage = 16 << 20

// IDMark stands in a message for a text of its own that the answer repeats.
const IDMark = "{id}"

// Config is what all connections of one template have in common.
type Config struct {
	// Request is the handshake's: its target, host and header. The RFC's own fields are added.
	Request      http1.Request
	Subprotocols []string // offered, in this order
	Compress     bool     // offers compression

	// Messages are the prepared messages. Without any, there is one, which is made up: Payload bytes of text, other
	// ones each time. Its answer must be equal.
	Messages []Message
	Payload  int

	Exchanges  int   // messages of a connection that may await their answers at once; default 1
	Greetings  int   // messages that the server sends first, and that answer nothing
	Content    bool  // messages of the server are delivered
	MaxMessage int64 // bytes of a message of the server; default MaxMessage
	MaxHeader  int64 // bytes of the handshake's response; default wire.DefaultMaxHeader
}

// A Message is a prepared message.
type Message struct {
	Text   []byte
	Varies bool // the text is given with each exchange
	Binary bool
	// ByID finds the answer by the text that stands in IDMark's place. Without, messages are answered in their order.
	ByID bool
}

// maxExchanges bounds the messages of a connection that await answers: their numbers have 16 bits.
const maxExchanges = 1 << 16

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	faults := []error{c.request().Validate()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for i, m := range c.Messages {
		switch {
		case m.Varies:
		case len(m.Text) > MaxMessage:
			fault("message %d of %d bytes: want %d at most", i+1, len(m.Text), MaxMessage)
		case !m.Binary && !utf8.Valid(m.Text):
			fault("message %d: is not UTF-8: send it as binary", i+1)
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
	config     Config
	handshakes *http1.Template
	idle       []*http1.Client // of handshakes, while no connection needs them
	random     *rand.ChaCha8   // of masks and keys
	payloads   *payloads       // of made up messages; else nil
	byID       bool
	prefix     [8]byte // of ids
	opened     uint32  // connections so far
	deflater   deflater
	text       []byte // a message before it is compressed
	closings   map[uint16]*wire.Error
	refusals   map[error]*wire.Error // of handshakes
	reasons    wire.Refusals
	spare      wire.Buffers
	lent       []byte // the buffer of the message that was delivered last
}

// NewTemplate returns a template, or every fault of its configuration.
func NewTemplate(c Config) (*Template, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	c.Exchanges = cmp.Or(c.Exchanges, 1)
	c.MaxMessage = cmp.Or(c.MaxMessage, MaxMessage)
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // never fails
	t := &Template{config: c, random: rand.NewChaCha8(seed), closings: map[uint16]*wire.Error{}, refusals: map[error]*wire.Error{}}
	if len(c.Messages) == 0 {
		t.payloads = newPayloads(c.Payload, t.random)
	} else {
		t.byID = c.Messages[0].ByID
	}
	encodeHex(t.prefix[:], uint32(t.random.Uint64())) //nolint:gosec // its lower half
	var err error
	t.handshakes, err = http1.NewTemplate(http1.Config{
		Requests: []http1.Request{c.request()}, Fields: fieldNames, MaxHeader: c.MaxHeader,
		Accept: func(int) bool { return false },
	})
	if err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	return t, nil
}

// encodeHex writes a number as eight digits.
func encodeHex(dst []byte, n uint32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	hex.Encode(dst, b[:])
}

// Mux returns a new mux, ready for a connection.
func (t *Template) Mux() *Mux { return &Mux{t: t, slots: make([]slot, t.config.Exchanges)} }

// A Mux is one connection's side of WebSocket. Idle, it takes some 300 bytes.
type Mux struct {
	t         *Template
	handshake *http1.Client // while that is under way
	key       [keySize]byte
	in        reader
	out       []byte // to be written
	written   int    // how much of it was

	slots  []slot
	order  []uint32 // the exchanges that await an answer, in order; with abandoned set, nobody waits for it any more
	first  int      // where they begin
	inUse  int      // slots
	late   int      // answers that nobody waits for any more
	id     [16]byte // what the ids of this connection begin with
	pushed int64    // messages that answer nothing

	message []byte // the beginning of a message that is to be whole
	size    int64  // bytes of the message so far, as they were sent
	window  []byte // of the server's compression, if that goes on from message to message

	greetings int // that have not come yet
	pings     int // unanswered
	open      bool
	takeover  bool
	differs   bool // the answer under way is another one
	closed    bool
}

var (
	_ wire.Mux    = (*Mux)(nil)
	_ wire.Pinger = (*Mux)(nil)
	_ wire.Closer = (*Mux)(nil)
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

// maxPending bounds what may wait to be written in answers to pings, in bytes.
const maxPending = 64 << 10

// Reset begins the handshake.
func (m *Mux) Reset() {
	t := m.t
	m.in.reset(&t.spare)
	t.spare.GiveBack(m.out)
	t.spare.GiveBack(m.message)
	for i := range m.slots {
		m.slots[i].busy = false
	}
	handshake := m.handshake
	*m = Mux{t: t, slots: m.slots, order: m.order[:0], window: m.window[:0], greetings: t.config.Greetings, pushed: m.pushed}
	if m.handshake = handshake; handshake == nil {
		if n := len(t.idle); n > 0 {
			m.handshake, t.idle = t.idle[n-1], t.idle[:n-1]
		} else {
			m.handshake = t.handshakes.Client()
		}
	}
	m.handshake.Reset()
	t.opened++
	copy(m.id[:], t.prefix[:])
	encodeHex(m.id[8:], t.opened)
	var nonce [16]byte
	_, _ = t.random.Read(nonce[:])
	base64.StdEncoding.Encode(m.key[:], nonce[:])
	m.out = append(t.spare.Borrow(), m.handshake.Compose(0, [][]byte{m.key[:]})...)
}

// Output returns what is to be written.
func (m *Mux) Output() []byte { return m.out[m.written:] }

// Wrote tells that the first n bytes of Output were written.
func (m *Mux) Wrote(n int) {
	if m.written += n; m.written == len(m.out) && m.out != nil {
		m.t.spare.GiveBack(m.out)
		m.out, m.written = nil, 0
	}
}

// Free returns how many messages may be sent now.
func (m *Mux) Free() int {
	if !m.open || m.closed || m.late >= maxLate {
		return 0
	}
	return len(m.slots) - m.inUse
}

// Begin sends a message.
func (m *Mux) Begin(id uint32, request int, parts [][]byte) error {
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
	text, op := message.Text, opText
	if message.Varies {
		text = parts[0]
	}
	if message.Binary {
		op = opBinary
	}
	if message.ByID {
		text = m.identified(text, id, s.use)
	}
	m.send(op, text)
	return nil
}

// idSize is the length of an id: the connection's, the slot's and the use's digits.
const idSize = 16 + 4 + 4

// identified returns a text with the exchange's id in the marks' places. It is valid until the next call.
func (m *Mux) identified(text []byte, id uint32, use uint16) []byte {
	t := m.t
	t.text = t.text[:0]
	for {
		before, after, found := bytes.Cut(text, []byte(IDMark))
		t.text = append(t.text, before...)
		if !found {
			return t.text
		}
		t.text = append(t.text, m.id[:]...)
		t.text = append(t.text, "00000000"...)
		encodeHex(t.text[len(t.text)-8:], id<<16|uint32(use))
		text = after
	}
}

// send puts a frame into the output.
func (m *Mux) send(op opcode, payload []byte) {
	t := m.t
	compressed := m.in.deflates && !op.control()
	if compressed {
		payload = t.deflater.compress(payload)
	}
	if m.out == nil {
		m.out = t.spare.Borrow()
	}
	key := uint32(t.random.Uint64()) //nolint:gosec // its lower half
	m.out = appendHead(m.out, op, compressed, len(payload), key)
	begin := len(m.out)
	m.out = append(m.out, payload...)
	mask(m.out[begin:], key)
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
	m.t.spare.GiveBack(m.t.lent)
	m.t.lent = nil
	if !m.open {
		if n, err = m.shake(p); err != nil || !m.open {
			return n, err
		}
	}
	for {
		used, got, found, fault := m.in.next(p[n:], m.t.config.MaxMessage, &m.t.spare)
		n += used
		if fault == nil && found {
			switch got.op {
			case opPing:
				fault = m.answerPing(got.data)
			case opPong:
				m.pings = 0
			case opClose:
				fault = m.takeClose(got.data)
			default:
				var answered bool
				if answered, fault = m.take(got, e); answered {
					return n, nil
				}
			}
			m.in.giveBack(&m.t.spare)
		}
		if fault != nil {
			m.sayWhy(fault)
			return n, fault
		}
		if !found {
			return n, nil
		}
	}
}

// shake takes the answer to the handshake.
func (m *Mux) shake(p []byte) (n int, err error) {
	n, done, err := m.handshake.Response(p)
	switch {
	case err != nil && done:
		return n, m.t.refusal(err)
	case err != nil || !done:
		return n, err
	}
	agreed, fault := m.t.config.check(m.handshake.Fields(), m.key[:])
	if fault != nil {
		return n, fault
	}
	m.t.idle = append(m.t.idle, m.handshake)
	m.handshake = nil
	m.open, m.in.deflates, m.takeover = true, agreed.deflates, agreed.takeover
	return n, nil
}

// refusal returns the error of a handshake that was answered by another status.
func (t *Template) refusal(reason error) *wire.Error {
	e := t.refusals[reason]
	if e == nil {
		_, text, _ := strings.Cut(reason.Error(), ": ")
		e = &wire.Error{Kind: wire.Status, Text: "the server answered the handshake by " + text}
		t.refusals[reason] = e // http1 bounds their number
	}
	return e
}

// answerPing answers a ping by its own payload (RFC 6455, section 5.5.3).
func (m *Mux) answerPing(payload []byte) *wire.Error {
	if len(m.out)-m.written > maxPending && m.inUse == 0 {
		return ErrFlood
	}
	m.send(opPong, payload)
	return nil
}

// maxPings is how many pings may be unanswered.
const maxPings = 8

// Ping sends a ping.
func (m *Mux) Ping() bool {
	if !m.open || m.closed || m.pings == maxPings {
		return false
	}
	m.pings++
	m.send(opPing, nil)
	return true
}

// take takes a piece of a message. It tells whether that is the end of an answer.
func (m *Mux) take(got piece, e *wire.MuxEvent) (answered bool, err *wire.Error) {
	c := &m.t.config
	if m.t.payloads != nil && !got.deflated {
		m.compare(got.data)
	}
	m.size += int64(len(got.data))
	data := got.data
	if m.t.byID || c.Content || got.deflated {
		if !got.final && m.message == nil {
			m.message = m.t.spare.Borrow()
		}
		if m.message != nil {
			m.message = append(m.message, data...)
			data = m.message
		}
	}
	if !got.final {
		return false, nil
	}
	if got.deflated {
		if data, err = m.inflate(data, got.op); err != nil {
			return false, err
		}
		m.size = 0
		if m.t.payloads != nil {
			m.compare(data)
		}
		m.size = int64(len(data))
	}
	answered = m.answer(data, e)
	m.size, m.differs = 0, false
	m.t.lent, m.message = m.message, nil
	return answered, nil
}

// inflate decompresses a message.
func (m *Mux) inflate(data []byte, op opcode) ([]byte, *wire.Error) {
	plain, err := m.t.deflater.decompress(data, m.window, m.t.config.MaxMessage)
	if err != nil {
		return nil, err
	}
	if op == opText && !utf8.Valid(plain) {
		return nil, ErrUTF8
	}
	if m.takeover {
		m.window = slide(m.window, plain)
	}
	return plain, nil
}

// compare compares the next bytes of an answer with the message that they answer.
func (m *Mux) compare(p []byte) {
	if m.greetings > 0 || m.first == len(m.order) || m.order[m.first]&abandoned != 0 {
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
	case m.greetings > 0:
		m.greetings--
		return false
	case m.t.byID:
		id, found = m.identify(data)
	case m.first < len(m.order):
		id, found = m.order[m.first], true
		if m.first++; m.first == len(m.order) {
			m.order, m.first = m.order[:0], 0
		}
		if id&abandoned != 0 {
			m.late--
			return false
		}
	}
	if !found {
		m.pushed++
		return false
	}
	m.free(id)
	*e = wire.MuxEvent{Kind: wire.MuxEnded, Status: wire.NoStatus, ID: id, Bytes: m.size}
	if m.t.config.Content {
		e.Data = data
	}
	if m.differs || m.t.payloads != nil && m.size != int64(m.t.payloads.size) {
		e.Err = ErrEcho
	}
	return true
}

// identify returns the exchange that waits for an id in a message.
func (m *Mux) identify(data []byte) (id uint32, found bool) {
	at := bytes.Index(data, m.id[:])
	if at < 0 || len(data) < at+idSize {
		return 0, false
	}
	var digits [4]byte
	if _, err := hex.Decode(digits[:], data[at+16:at+idSize]); err != nil {
		return 0, false
	}
	id = uint32(binary.BigEndian.Uint16(digits[:]))
	if int(id) >= len(m.slots) || !m.slots[id].busy || m.slots[id].use != binary.BigEndian.Uint16(digits[2:]) {
		return 0, false
	}
	return id, true
}

// Waiting tells that nothing comes without bytes.
func (m *Mux) Waiting() bool { return false }

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

// Close tells the server that the connection is no longer needed.
func (m *Mux) Close() {
	if m.open && !m.closed {
		m.closed = true
		m.send(opClose, binary.BigEndian.AppendUint16(nil, closeNormal))
	}
}

// Pushed returns how many messages have come that answered nothing.
func (m *Mux) Pushed() int64 { return m.pushed }

// Codes of close frames (section 7.4.1).
const (
	closeNormal    = 1000
	closeProtocol  = 1002
	closeNoCode    = 1005 // is never sent
	closeInvalid   = 1007
	closeTooLarge  = 1009
	closeFirstLib  = 3000
	closeLastApp   = 4999
	closeLastKnown = 1014
)

var closeNames = map[uint16]string{
	closeNormal: "normal", 1001: "going away", closeProtocol: "protocol error", 1003: "unsupported data", closeNoCode: "without a code",
	closeInvalid: "invalid data", 1008: "policy violation", closeTooLarge: "message too big", 1010: "an extension is missing",
	1011: "internal error", 1012: "service restart", 1013: "try again later", 1014: "bad gateway",
}

// takeClose takes the server's close frame, answers it, and returns why it closes.
func (m *Mux) takeClose(payload []byte) *wire.Error {
	code, reason := uint16(closeNoCode), []byte(nil)
	switch {
	case len(payload) == 1:
		return ErrCloseSize
	case len(payload) > 1:
		code, reason = binary.BigEndian.Uint16(payload), payload[2:]
		if !(code >= closeNormal && code <= closeLastKnown && code != 1004 && code != closeNoCode && code != 1006 || code >= closeFirstLib && code <= closeLastApp) {
			return ErrCloseCode
		}
		if !utf8.Valid(reason) {
			return ErrCloseReason
		}
		payload = payload[:2]
	}
	if !m.closed {
		m.send(opClose, payload)
		m.closed = true
	}
	plain := m.t.closings[code]
	if plain == nil {
		name := closeNames[code]
		if name != "" {
			name = " (" + name + ")"
		}
		plain = &wire.Error{Kind: wire.Reset, Text: "the server closed the connection by code " + strconv.Itoa(int(code)) + name}
		if code == closeNoCode {
			plain.Text = "the server closed the connection without a code"
		}
		m.t.closings[code] = plain
	}
	return m.t.reasons.Error(plain, reason)
}

// sayWhy tells the server why the connection ends (section 7.1.7).
func (m *Mux) sayWhy(err *wire.Error) {
	if m.closed || !m.open {
		return
	}
	code := uint16(closeProtocol)
	switch err { //nolint:errorlint // these are values
	case ErrUTF8, ErrCloseReason, ErrDeflate:
		code = closeInvalid
	case ErrTooLarge:
		code = closeTooLarge
	}
	m.closed = true
	m.send(opClose, binary.BigEndian.AppendUint16(nil, code))
}
