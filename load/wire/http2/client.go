// Package http2 is the client's side of HTTP/2 (RFC 9113) without I/O, with its header
// compression, HPACK (RFC 7541): it makes the bytes of requests and understands the bytes
// of responses, however they are cut into pieces. The engine carries the bytes.
//
// Requests are prepared once, in a Template, which also holds what the connections of one
// worker share; each connection has a Client. A request that repeats itself is a handful
// of bytes; what varies from exchange to exchange is given as parts. Content is
// counted or delivered; of headers, the fields that were asked for are delivered.
//
// It is strict. Where RFC 9113 allows an error or leniency, each doubt is an error of its own: of the
// exchange where the connection is unharmed, of the connection otherwise. Nothing that a peer sends, or
// does not read, makes a client grow beyond its limits.
package http2

import (
	"encoding/binary"

	"dyno/load/wire"
)

// A Client is one connection's side of HTTP/2. It is for one goroutine at a time,
// together with the other clients of its template.
type Client struct {
	t       *Template
	encoder encoder
	decoder decoder

	// Output. The first sent bytes of out are; the connection wrote written bytes before them.
	out     []byte
	sent    int
	written uint64
	replies replies

	streams  []stream // by the caller's number
	byNumber streamTable
	open     int
	next     uint32 // the number of the next stream
	queue    queue  // of the streams that have content to send and a window for it

	sendWindow    int64 // of the connection
	receiveWindow int64 // of the connection; what the peer may still send

	// The peer's settings.
	peerStreams  int // MAX_CONCURRENT_STREAMS
	peerWindow   int64
	peerMaxFrame int

	allowed  int    // exchanges at once, as both sides have it; 0 before and after
	last     uint32 // GOAWAY: the last stream that the peer accepts
	gone     *wire.Error
	goneAway bool // GOAWAY came

	reader
	forgotten     []uint32 // streams that were given up, the oldest at forgottenNext
	forgottenNext int
	trusted       uint32 // streams up to this may have been given up, too

	settled  bool // the peer's SETTINGS came
	connects bool // they permit extended CONNECTs
	acked    bool // the peer acknowledged ours
	waiting  bool // there may be events that need no more bytes, of exchanges from scan on
	ended    bool // the peer closed its side
	scan     int
	useless  int
	pings    int // of ours that are unanswered
	err      *wire.Error
}

var _ wire.Pinger = (*Client)(nil)

// A stream is an exchange under way.
type stream struct {
	number  uint32 // on the wire; 0 when the place is free
	state   streamState
	status  int16
	interim uint16       // 1xx responses
	codings wire.Codings // of the content

	receiveWindow int64
	sendWindow    int64 // what WINDOW_UPDATE gave less what was sent; the peer's initial window comes on top
	left          int64 // of content-length; -1 without
	got           int64 // content so far

	body         []byte // content that waits to be sent
	buffer       []byte // what holds it, if it is borrowed
	newer, older int32  // in the queue
}

// A streamState holds what has happened on a stream.
type streamState uint16

const (
	hasHead   streamState = 1 << iota // the final response's header came
	noContent                         // the response has no content: HEAD, 204, 304
	localEnd                          // END_STREAM was put into the output
	endsAfter                         // it follows the content that waits
	bitByBit                          // more content may come by Send
	queued                            // it is in the queue
	wantsRoom                         // Send did not take all
	hasRoom                           // an event is to say that it would now
	rejected                          // the status was not accepted
	delivers                          // the content is delivered
)

const maxStreamNumber = 1<<31 - 1

// Client returns a new client, ready for a connection.
func (t *Template) Client() *Client {
	c := &Client{t: t}
	c.encoder = encoder{dict: &t.dict, places: make([]uint8, len(t.dict.entries))}
	c.byNumber = newStreamTable(t.streams)
	c.Reset()
	return c
}

// Reset forgets everything about an earlier connection. The connection's preface is then
// in Output, unless it begins in HTTP/1.1.
func (c *Client) Reset() {
	for i := range c.streams {
		if s := &c.streams[i]; s.number != 0 {
			c.release(uint32(i), s)
		}
	}
	c.dropOutput()
	c.dropPart()
	c.dropBlock()
	c.encoder.reset()
	c.decoder.reset()
	*c = Client{
		t: c.t, encoder: c.encoder, decoder: c.decoder, streams: c.streams, byNumber: c.byNumber, forgotten: c.forgotten[:0],
		next: 1, queue: emptyQueue, sendWindow: initialWindow, receiveWindow: int64(c.t.settings.ConnectionWindow),
		peerStreams: maxStreams, peerWindow: initialWindow, peerMaxFrame: minMaxFrameSize, last: maxStreamNumber,
	}
	c.makeRoom(len(c.t.preface))
	c.out = append(c.out, c.t.preface...)
	c.allow()
}

// allow finds out how many exchanges there may be at once.
func (c *Client) allow() {
	c.allowed = 0
	if (c.settled || c.t.optimistic && !c.t.connects) && !c.goneAway && c.err == nil && !c.ended {
		c.allowed = min(c.t.streams, c.peerStreams)
	}
}

// Free returns how many exchanges may begin now.
func (c *Client) Free() int {
	if c.next > maxStreamNumber {
		return 0
	}
	return max(0, min(c.allowed-c.open, int(maxStreamNumber-c.next)/2+1))
}

// PeerStreams returns how many exchanges the peer allows at once; see wire.StreamLimiter.
func (c *Client) PeerStreams() int {
	if c.peerStreams >= maxStreams {
		return 0
	}
	return c.peerStreams
}

// Begin begins an exchange; see wire.Mux.
func (c *Client) Begin(id uint32, request int, parts [][]byte) error {
	switch {
	case c.Free() == 0:
		return ErrNotFree
	case uint(request) >= uint(len(c.t.requests)):
		return ErrRequest
	case id >= uint32(len(c.streams)):
		if id >= uint32(c.t.streams) {
			return ErrNumber
		}
		c.growStreams(int(id))
	}
	s := &c.streams[id]
	if s.number != 0 {
		return ErrNumber
	}
	p := &c.t.requests[request]
	if err := p.check(parts); err != nil {
		return err
	}
	body := p.body
	if p.request.VariesBody {
		body = parts[len(parts)-1]
	}
	*s = stream{number: c.next, left: -1, receiveWindow: int64(c.t.settings.StreamWindow)}
	if p.head {
		s.state = noContent
	}
	if c.t.content && !p.request.CountOnly {
		s.state |= delivers
	}
	c.next += 2
	c.open++
	c.byNumber.add(s.number, int(id))
	c.useless = 0
	c.appendHeaders(s, p, parts, len(body) == 0 && !p.request.BitByBit)
	switch {
	case p.request.BitByBit:
		s.state |= bitByBit
	case len(body) == 0:
		s.state |= localEnd
	case c.fits(s, len(body)):
		c.appendData(s, body, true)
	default:
		s.state |= endsAfter
		s.body = body
		if p.request.VariesBody {
			s.buffer = append(c.t.spare.Borrow(), body...)
			s.body = s.buffer
		}
		c.enqueue(id, s)
	}
	return nil
}

// Send sends more of a request that is sent bit by bit. With end it is complete. It takes as much of
// data as it has room for, and returns how much; it ends the request only if that is all. When it took
// less, the event MuxRoom says when there is room again. Data is not kept. Bytes that the windows allow
// go into Output; the rest, up to maxUnsent, waits here.
func (c *Client) Send(id uint32, data []byte, end bool) (n int, err error) {
	s := c.stream(id)
	switch {
	case c.err != nil:
		return 0, c.err
	case s == nil:
		return 0, ErrNoExchange
	case s.state&bitByBit == 0:
		return 0, ErrSendUnasked
	case s.state&(localEnd|endsAfter) != 0:
		return 0, ErrSendEnded
	}
	if len(s.body) == 0 && c.fits(s, len(data)) {
		if len(data) > 0 || end {
			c.appendData(s, data, end)
		}
		return len(data), nil
	}
	n = min(len(data), c.t.sendBuffer-len(s.body))
	s.keep(c.t, data[:n])
	switch {
	case n < len(data):
		s.state |= wantsRoom
	case end:
		s.state |= endsAfter
	}
	c.enqueue(id, s)
	return n, nil
}

// keep puts content after what waits already.
func (s *stream) keep(t *Template, data []byte) {
	if s.buffer == nil {
		s.buffer = t.spare.Borrow()
		s.body = s.buffer
	}
	if len(s.body)+len(data) > cap(s.body) && len(s.body)+len(data) <= cap(s.buffer) {
		s.body = append(s.buffer[:0], s.body...) // to the front of its buffer
	}
	if len(s.body)+len(data) > cap(s.body) {
		s.buffer = append(make([]byte, 0, 2*(len(s.body)+len(data))), s.body...)
		s.body = s.buffer
	}
	s.body = append(s.body, data...)
}

// Cancel gives an exchange up. Later bytes of it are passed over, and returned to the connection's
// window.
func (c *Client) Cancel(id uint32) {
	s := c.stream(id)
	if s == nil {
		return
	}
	c.abandon(id, s, Cancel)
}

// abandon ends a stream from this side, before the peer has.
func (c *Client) abandon(id uint32, s *stream, code ErrorCode) {
	c.forget(s.number)
	if c.err == nil {
		c.appendReset(s.number, code)
	}
	c.release(id, s)
}

// Ping puts a PING into the output (RFC 9113, section 6.7); see wire.Pinger.
func (c *Client) Ping() bool {
	if c.err != nil || c.ended || c.pings == maxPings {
		return false
	}
	c.pings++
	c.makeRoom(frameHeader + len(pingData))
	c.out = append(appendFrameHeader(c.out, len(pingData), framePing, 0, 0), pingData...)
	return true
}

// pingData is what a PING of ours holds, and the answer to it.
const pingData = "dynoping"

// stream returns an exchange under way by the caller's number.
func (c *Client) stream(id uint32) *stream {
	if id < uint32(len(c.streams)) && c.streams[id].number != 0 {
		return &c.streams[id]
	}
	return nil
}

// find returns an exchange under way by its number on the wire, and the caller's.
func (c *Client) find(number uint32) (uint32, *stream) {
	if id := c.byNumber.find(c.streams, number); id >= 0 {
		return uint32(id), &c.streams[id]
	}
	return 0, nil
}

// release makes an exchange's place free.
func (c *Client) release(id uint32, s *stream) {
	c.dequeue(s)
	if s.buffer != nil {
		c.t.spare.GiveBack(s.buffer)
	}
	if s.state&rejected != 0 {
		of := response{c, s.number}
		if said := c.t.contents[of]; said != nil {
			c.t.spare.GiveBack(said)
			delete(c.t.contents, of)
		}
	}
	c.byNumber.remove(s.number, int(id))
	s.number, s.body, s.buffer = 0, nil, nil
	c.open--
}

func (c *Client) growStreams(id int) {
	larger := make([]stream, min(c.t.streams, max(id+1, 2*len(c.streams))))
	copy(larger, c.streams)
	c.streams = larger
}

// forget takes note of a stream that was given up, so that its late frames are no error. Forgetting one
// stream pushes out the oldest. From then on it, and those before it, are trusted to have been given
// up.
func (c *Client) forget(number uint32) {
	if len(c.forgotten) < maxRemembered {
		c.forgotten = append(c.forgotten, number)
		return
	}
	c.trusted = max(c.trusted, c.forgotten[c.forgottenNext])
	c.forgotten[c.forgottenNext] = number
	c.forgottenNext = (c.forgottenNext + 1) % maxRemembered
}

// wasForgotten tells whether a stream that is not open may have been given up.
func (c *Client) wasForgotten(number uint32) bool {
	if number <= c.trusted {
		return true
	}
	for _, n := range c.forgotten {
		if n == number {
			return true
		}
	}
	return false
}

// Fields returns the fields that were asked for; see wire.Mux.
func (c *Client) Fields() []wire.MuxField { return c.t.fields }

// Waiting tells whether Input may have an event without more bytes; see wire.Mux.
func (c *Client) Waiting() bool { return c.waiting }

// notice has Input look for events that need no more bytes.
func (c *Client) notice() { c.waiting, c.scan = true, 0 }

// End tells that the peer has closed its side, or that the connection is given up after an error; see
// wire.Mux.
func (c *Client) End() (e wire.MuxEvent) {
	c.t.fields = nil
	if !c.ended {
		c.ended, c.scan = true, 0
		c.allow()
	}
	for ; c.scan < len(c.streams); c.scan++ {
		id, s := uint32(c.scan), &c.streams[c.scan]
		if s.number == 0 {
			continue
		}
		e = wire.MuxEvent{Kind: wire.MuxFailed, ID: id, Status: s.status, Bytes: s.got}
		switch {
		case s.number > c.last:
			e.Kind, e.Err = s.refused(), ErrRefusedLast
		case c.err != nil:
			e.Err = c.err
		case c.gone != nil:
			e.Err = c.gone
		case s.state&hasHead != 0:
			e.Err = ErrClosedBody
		case s.interim > 0 || c.block.number == s.number:
			e.Err = ErrClosedHeader
		default:
			e.Err = ErrClosedEarly
		}
		c.release(id, s)
		return e
	}
	return wire.MuxEvent{}
}

// refused returns what becomes of a stream that the peer says it has not processed: who
// has answered has done so all the same.
func (s *stream) refused() wire.MuxEventKind {
	if s.state&hasHead != 0 {
		return wire.MuxFailed
	}
	return wire.MuxRefused
}

// whole tells whether all content of the response has come, as far as its header says how much that is.
func (s *stream) whole() bool { return s.state&hasHead != 0 && (s.left == 0 || s.state&noContent != 0) }

// failure returns the error of a complete response: nil if its status was accepted.
func (c *Client) failure(s *stream) *wire.Error {
	if s.state&rejected == 0 {
		return nil
	}
	return c.t.refusals.Decoded(wire.StatusError(int(s.status)), c.t.contents[response{c, s.number}], s.codings)
}

// hear keeps the beginning of the content of a response whose status was not accepted: it may say
// why. There are few such responses at once, so that streams need no place for it.
func (c *Client) hear(s *stream, content []byte) {
	of := response{c, s.number}
	said := c.t.contents[of]
	if said == nil {
		said = c.t.spare.Borrow()
	}
	c.t.contents[of] = append(said, content[:min(len(content), wire.MaxRefusal-len(said))]...)
}

// A streamTable finds the open streams by their numbers on the wire. As streams are numbered one after
// another, nearly every one has a place of its own. An exchange that lasted long may find its place
// taken. Then all streams are searched for it.
type streamTable struct {
	places    []uint16 // the callers' numbers plus 1
	displaced int      // streams that have no place
}

// newStreamTable returns a table of twice as many places as streams, or more.
func newStreamTable(streams int) streamTable {
	size := 2
	for size < 2*streams {
		size *= 2
	}
	return streamTable{places: make([]uint16, size)}
}

func (t *streamTable) place(number uint32) *uint16 {
	return &t.places[int(number>>1)&(len(t.places)-1)]
}

func (t *streamTable) find(streams []stream, number uint32) int {
	if id := int(*t.place(number)) - 1; id >= 0 && streams[id].number == number {
		return id
	}
	if t.displaced > 0 {
		for id := range streams {
			if streams[id].number == number {
				return id
			}
		}
	}
	return -1
}

func (t *streamTable) add(number uint32, id int) {
	if place := t.place(number); *place == 0 {
		*place = uint16(id + 1)
		return
	}
	t.displaced++
}

func (t *streamTable) remove(number uint32, id int) {
	if place := t.place(number); int(*place) == id+1 {
		*place = 0
		return
	}
	t.displaced--
}

// A queue holds the streams that take turns at sending, by the callers' numbers.
type queue struct{ head, tail int32 }

const noStream = -1

var emptyQueue = queue{noStream, noStream}

// enqueue puts a stream with content to send at the end of the queue. The stream must have a window,
// and must not be queued yet.
func (c *Client) enqueue(id uint32, s *stream) {
	if s.state&queued != 0 || len(s.body) == 0 || c.peerWindow+s.sendWindow <= 0 {
		return
	}
	s.state |= queued
	s.older, s.newer = c.queue.tail, noStream
	if c.queue.tail == noStream {
		c.queue.head = int32(id)
	} else {
		c.streams[c.queue.tail].newer = int32(id)
	}
	c.queue.tail = int32(id)
}

func (c *Client) dequeue(s *stream) {
	if s.state&queued == 0 {
		return
	}
	s.state &^= queued
	if s.older == noStream {
		c.queue.head = s.newer
	} else {
		c.streams[s.older].newer = s.newer
	}
	if s.newer == noStream {
		c.queue.tail = s.older
	} else {
		c.streams[s.newer].older = s.older
	}
}

// replies counts the replies that the peer has not read yet, in two generations: those
// put into the output before mark, and those since.
type replies struct {
	before, since int
	mark          uint64
}

// reply counts a reply, and tells whether there are too many.
func (c *Client) reply() *wire.Error {
	r := &c.replies
	r.since++
	if c.written >= r.mark {
		r.before, r.since = r.since, 0
		r.mark = c.written + uint64(len(c.out)-c.sent)
	}
	if r.before+r.since > maxReplies {
		return ErrReplyFlood
	}
	return nil
}

// The frames of HTTP/2 (RFC 9113, section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9
)

// Their flags.
const (
	flagEndStream  = 0x01
	flagAck        = 0x01
	flagEndHeaders = 0x04
	flagPadded     = 0x08
	flagPriority   = 0x20
)

const frameHeader = 9

func appendFrameHeader(b []byte, length int, kind, flags uint8, number uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(b, number)
}
