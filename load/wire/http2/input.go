package http2

import (
	"bytes"
	"encoding/binary"

	"dyno/load/wire"
)

// A reader is where a client is in the bytes that arrive.
type reader struct {
	phase phase
	frame frame

	// head is a frame's header that arrives in pieces. With it comes the padding's length of a padded
	// DATA frame.
	head    [frameHeader + 1]byte
	headLen int

	left    int    // bytes of the frame that have not arrived
	padding int    // of them, at the end of DATA
	want    int    // gathering: bytes of the payload that are of interest
	part    []byte // what has arrived of it
	block   block
}

// A phase is what the next byte belongs to.
type phase uint8

const (
	betweenFrames phase = iota // a frame's header
	gathering                  // a payload that is needed whole
	inData                     // DATA
	skipping                   // a payload that is not needed
)

// A frame is a frame's header.
type frame struct {
	length int
	number uint32
	kind   uint8
	flags  uint8
}

func parseFrame(h []byte) frame {
	_ = h[frameHeader-1]
	return frame{
		length: int(h[0])<<16 | int(h[1])<<8 | int(h[2]), kind: h[3], flags: h[4],
		number: binary.BigEndian.Uint32(h[5:]) & maxStreamNumber,
	}
}

// A block is a header block whose end has not arrived.
type block struct {
	number uint32 // the stream's; 0 when there is none
	end    bool   // the stream ends with it
	frames int    // CONTINUATION frames
	bytes  []byte
}

// Input consumes bytes that arrived, up to one event; see wire.Mux. Cut at any place, the same bytes
// give the same events. Only the pieces of content, and whether MuxHead stands alone, depend on cuts.
func (c *Client) Input(p []byte, e *wire.MuxEvent) (n int, err error) {
	c.t.fields = nil
	*e = wire.MuxEvent{}
	if c.err != nil {
		return 0, c.err
	}
	if c.waiting && c.await(e) {
		return 0, nil
	}
	var fault *wire.Error
	for fault == nil {
		if c.phase == betweenFrames && c.headLen == 0 && len(p)-n >= frameHeader {
			f := parseFrame(p[n:])
			if end := n + frameHeader + f.length; end <= len(p) {
				payload := p[n+frameHeader : end]
				if fault = c.admit(&f, p[n:]); fault == nil {
					n = end
					fault = c.handle(&f, payload, e)
				}
				if e.Kind != wire.MuxNothing && !c.endFollows(e, &f, p[n:]) || fault != nil {
					break
				}
				continue
			}
		}
		if n == len(p) && !c.complete() {
			break
		}
		n, fault = c.piece(p, n, e)
		if e.Kind != wire.MuxNothing && !c.endFollows(e, &c.frame, p[n:]) {
			break
		}
	}
	if fault != nil {
		c.t.fields = nil
		*e = wire.MuxEvent{}
		return n, fault
	}
	return n, nil
}

// complete tells whether all of a frame has arrived that the phase needs.
func (c *Client) complete() bool {
	switch c.phase {
	case betweenFrames:
		return false
	case gathering:
		return len(c.part) == c.want
	default:
		return c.left == 0
	}
}

// endFollows tells whether the next frame is whole, ends the response whose header is e, and cannot
// break the connection: then there is one event for both.
func (c *Client) endFollows(e *wire.MuxEvent, f *frame, p []byte) bool {
	if e.Kind != wire.MuxHead || len(p) < frameHeader {
		return false
	}
	next := parseFrame(p)
	return next.kind == frameData && next.number == f.number && next.flags&(flagEndStream|flagPadded) == flagEndStream &&
		len(p) >= frameHeader+next.length && next.length <= minMaxFrameSize && int64(next.length) <= c.receiveWindow &&
		c.phase == betweenFrames
}

// piece consumes the next bytes of a frame that has not arrived whole.
func (c *Client) piece(p []byte, n int, e *wire.MuxEvent) (int, *wire.Error) {
	switch c.phase {
	case betweenFrames:
		if c.headLen < frameHeader {
			k := copy(c.head[c.headLen:frameHeader], p[n:])
			n += k
			if c.headLen += k; c.headLen < frameHeader {
				if string(c.head[:min(c.headLen, 5)]) == "HTTP/" && !c.settled {
					return n, c.fatal(ProtocolError, ErrHTTP1)
				}
				return n, nil
			}
			c.frame = parseFrame(c.head[:])
			if fault := c.admit(&c.frame, c.head[:]); fault != nil {
				return n, fault
			}
		}
		if c.frame.kind == frameData && c.frame.flags&flagPadded != 0 {
			if n == len(p) {
				return n, nil
			}
			c.head[frameHeader] = p[n]
			n++
		}
		c.headLen = 0
		return n, c.start(e)

	case gathering:
		k := min(len(p)-n, c.want-len(c.part))
		payload := p[n : n+k]
		n += k
		if k < c.want {
			if c.part == nil {
				c.part = c.t.spare.Borrow()
			}
			c.part = append(c.part, payload...)
			payload = c.part
		}
		if len(payload) < c.want {
			return n, nil
		}
		c.skip(c.frame.length - c.want)
		fault := c.handle(&c.frame, payload, e)
		c.dropPart()
		return n, fault

	case inData:
		k := min(len(p)-n, c.left-c.padding)
		content := p[n : n+k]
		n += k
		c.left -= k
		if c.left == c.padding {
			k = min(len(p)-n, c.left)
			n += k
			c.left -= k
			c.padding -= k
		}
		if c.left == 0 {
			c.phase = betweenFrames
		}
		if id, s := c.find(c.frame.number); s != nil {
			c.deliver(id, s, content, c.left == 0 && c.frame.flags&flagEndStream != 0, e)
		}
		return n, nil

	default:
		k := min(len(p)-n, c.left)
		c.skip(c.left - k)
		return n + k, nil
	}
}

// start begins with the payload of a frame that has not arrived whole.
func (c *Client) start(e *wire.MuxEvent) *wire.Error {
	f := &c.frame
	switch f.kind {
	case frameData:
		c.phase, c.left, c.padding = inData, f.length, 0
		if f.flags&flagPadded != 0 {
			c.left--
			c.padding = int(c.head[frameHeader])
		}
		if c.padding > c.left {
			return c.fatal(ProtocolError, ErrPadding)
		}
		_, _, fault := c.data(f, c.left-c.padding, e)
		return fault
	case frameHeaders, frameContinuation, frameSettings, framePing, frameReset, frameWindowUpdate:
		c.want = f.length
	case frameGoAway:
		c.want = min(f.length, 8+len(tooManyPings))
	default:
		c.want = 0
	}
	c.phase = gathering
	return nil
}

// skip goes on to what follows after n bytes.
func (c *Client) skip(n int) {
	c.left = n
	c.phase = skipping
	if n == 0 {
		c.phase = betweenFrames
	}
}

func (c *Client) dropPart() {
	if c.part != nil {
		c.t.spare.GiveBack(c.part)
		c.part = nil
	}
}

func (c *Client) dropBlock() {
	if c.block.bytes != nil {
		c.t.spare.GiveBack(c.block.bytes)
	}
	c.block = block{}
}

// admit checks a frame by its header alone (RFC 9113, section 6).
func (c *Client) admit(f *frame, head []byte) *wire.Error {
	if !c.settled && (f.kind != frameSettings || f.flags&flagAck != 0) {
		if string(head[:5]) == "HTTP/" {
			return c.fatal(ProtocolError, ErrHTTP1)
		}
		return c.fatal(ProtocolError, ErrPreface)
	}
	if f.length > minMaxFrameSize {
		return c.fatal(FrameSizeError, ErrFrameTooLarge)
	}
	if c.block.number != 0 && (f.kind != frameContinuation || f.number != c.block.number) {
		return c.fatal(ProtocolError, ErrBlockInterrupted)
	}
	sized, onStream := true, true
	switch f.kind {
	case frameData:
		sized = f.length > 0 || f.flags&flagPadded == 0
	case frameHeaders:
		least := 0
		if f.flags&flagPadded != 0 {
			least = 1
		}
		if f.flags&flagPriority != 0 {
			least += 5
		}
		sized = f.length >= least
		if int64(f.length) > c.t.maxHeader+maxHeadersExtra {
			return c.fatal(EnhanceYourCalm, ErrBlockTooLarge)
		}
	case frameReset:
		sized = f.length == 4
	case frameWindowUpdate:
		sized = f.length == 4
		if f.number == 0 {
			onStream = false
		}
	case frameContinuation:
		if c.block.number == 0 {
			return c.fatal(ProtocolError, ErrContinuation)
		}
		if int64(len(c.block.bytes)+f.length) > c.t.maxHeader {
			return c.fatal(EnhanceYourCalm, ErrBlockTooLarge)
		}
	case frameSettings:
		onStream = false
		sized = f.length%6 == 0 && (f.length == 0 || f.flags&flagAck == 0)
		if f.length > 6*maxSettings {
			return c.fatal(EnhanceYourCalm, ErrSettingsTooMany)
		}
	case framePing:
		onStream = false
		sized = f.length == 8
	case frameGoAway:
		onStream = false
		sized = f.length >= 8
	case framePush:
		return c.fatal(ProtocolError, ErrPush)
	case framePriority:
		if f.number == 0 {
			return c.fatal(ProtocolError, ErrFrameStream)
		}
		return nil // streams may be idle, and the size is a matter of the stream
	default:
		return nil
	}
	switch {
	case onStream != (f.number != 0):
		return c.fatal(ProtocolError, ErrFrameStream)
	case onStream && (f.number >= c.next || f.number%2 == 0):
		return c.fatal(ProtocolError, ErrStreamIdle)
	case !sized:
		return c.fatal(FrameSizeError, ErrFrameSize)
	}
	return nil
}

// maxHeadersExtra is what a HEADERS frame may hold in addition to its part of the header
// block: padding with its length, and priority.
const maxHeadersExtra = 256 + 5

// handle handles a frame that was admitted, with as much of its payload as start wants.
// It either ends an exchange or returns an error, never both: otherwise an end could be
// reported twice.
func (c *Client) handle(f *frame, payload []byte, e *wire.MuxEvent) *wire.Error {
	switch f.kind {
	case frameData:
		if f.flags&flagPadded != 0 {
			padding := int(payload[0])
			if padding >= len(payload) {
				return c.fatal(ProtocolError, ErrPadding)
			}
			payload = payload[1 : len(payload)-padding]
		}
		id, s, fault := c.data(f, len(payload), e)
		if s != nil {
			c.deliver(id, s, payload, f.flags&flagEndStream != 0, e)
		}
		return fault
	case frameHeaders:
		return c.headers(f, payload, e)
	case framePriority:
		if id, s := c.find(f.number); s != nil && f.length != 5 {
			c.fail(id, s, FrameSizeError, ErrPrioritySize, e)
			return nil
		}
		return c.waste(ErrPriorityFlood)
	case frameReset:
		return c.reset(f.number, ErrorCode(binary.BigEndian.Uint32(payload)), e)
	case frameSettings:
		return c.settle(f, payload)
	case framePing:
		switch {
		case f.flags&flagAck != 0 && c.pings > 0 && string(payload) == pingData:
			c.pings--
			return nil
		case f.flags&flagAck == 0:
			if fault := c.acknowledge(framePing, payload); fault != nil {
				return c.fatal(EnhanceYourCalm, fault)
			}
		}
		return c.waste(ErrPingFlood)
	case frameGoAway:
		return c.goAway(binary.BigEndian.Uint32(payload)&maxStreamNumber, ErrorCode(binary.BigEndian.Uint32(payload[4:])), payload[8:], e)
	case frameWindowUpdate:
		return c.widen(f.number, int64(binary.BigEndian.Uint32(payload)&maxWindow), e)
	case frameContinuation:
		return c.continuation(f, payload, e)
	default:
		return c.waste(ErrUnknownFlood)
	}
}

// waste counts a frame that brings nothing.
func (c *Client) waste(flood *wire.Error) *wire.Error {
	if c.useless++; c.useless > maxUseless {
		return c.fatal(EnhanceYourCalm, flood)
	}
	return nil
}

// fail ends an exchange with an error of its stream (RFC 9113, section 5.4.2).
func (c *Client) fail(id uint32, s *stream, code ErrorCode, err *wire.Error, e *wire.MuxEvent) {
	*e = wire.MuxEvent{Kind: wire.MuxFailed, ID: id, Status: s.status, Bytes: s.got, Err: err}
	c.abandon(id, s, code)
}

// data accounts for a DATA frame with n bytes of content, and returns its exchange; none if
// it has failed by it or was given up before.
func (c *Client) data(f *frame, content int, e *wire.MuxEvent) (uint32, *stream, *wire.Error) {
	length := int64(f.length)
	if c.receiveWindow -= length; c.receiveWindow < 0 {
		return 0, nil, c.fatal(FlowControlError, ErrWindowExceeded)
	}
	id, s := c.find(f.number)
	if s == nil && !c.wasForgotten(f.number) {
		return 0, nil, c.fatal(StreamClosed, ErrStreamClosed)
	}
	c.restore(0, &c.receiveWindow, int64(c.t.settings.ConnectionWindow), c.t.threshold[1])
	end := f.flags&flagEndStream != 0
	if content == 0 && (s == nil || !end) {
		if fault := c.waste(ErrDataFlood); fault != nil {
			return 0, nil, fault
		}
	}
	if s == nil {
		return 0, nil, nil
	}
	if content > 0 {
		c.useless = 0
	}
	switch {
	case s.state&hasHead == 0:
		c.fail(id, s, ProtocolError, ErrDataBeforeHeader, e)
	case s.receiveWindow < length:
		c.fail(id, s, FlowControlError, ErrStreamExceeded, e)
	case content > 0 && s.state&noContent != 0:
		c.fail(id, s, ProtocolError, ErrBodyUnexpected, e)
	case s.left >= 0 && int64(content) > s.left:
		c.fail(id, s, ProtocolError, ErrBodyLength, e)
	default:
		s.receiveWindow -= length
		if s.left >= 0 {
			s.left -= int64(content)
		}
		// More window than remaining content would be useless.
		if !end && (s.left < 0 || s.left > s.receiveWindow) {
			c.restore(s.number, &s.receiveWindow, int64(c.t.settings.StreamWindow), c.t.threshold[0])
		}
		return id, s, nil
	}
	return 0, nil, nil
}

// deliver hands over content, and the end of the exchange if it is the last.
func (c *Client) deliver(id uint32, s *stream, content []byte, end bool, e *wire.MuxEvent) {
	s.got += int64(len(content))
	if s.state&rejected != 0 && len(content) > 0 {
		c.hear(s, content)
	}
	wanted := s.state&delivers != 0
	switch {
	case end:
		c.finish(id, s, e)
		if wanted {
			e.Data = content
		}
	case wanted && len(content) > 0:
		*e = wire.MuxEvent{Kind: wire.MuxData, ID: id, Status: s.status, Bytes: s.got, Data: content}
	}
}

// finish ends an exchange whose response has ended.
func (c *Client) finish(id uint32, s *stream, e *wire.MuxEvent) {
	if s.left > 0 {
		c.fail(id, s, ProtocolError, ErrBodyLength, e)
		return
	}
	*e = wire.MuxEvent{Kind: wire.MuxEnded, ID: id, Status: s.status, Bytes: s.got, Err: c.failure(s)}
	if s.state&localEnd == 0 {
		// The response came before the request was sent whole; the peer no longer needs the rest (RFC
		// 9113, section 8.1).
		c.appendReset(s.number, NoError)
	}
	c.release(id, s)
}

// headers handles a HEADERS frame.
func (c *Client) headers(f *frame, payload []byte, e *wire.MuxEvent) *wire.Error {
	padding := 0
	if f.flags&flagPadded != 0 {
		padding = int(payload[0])
		payload = payload[1:]
	}
	if f.flags&flagPriority != 0 {
		payload = payload[5:]
	}
	if padding > len(payload) {
		return c.fatal(ProtocolError, ErrPadding)
	}
	payload = payload[:len(payload)-padding]
	if int64(len(payload)) > c.t.maxHeader {
		return c.fatal(EnhanceYourCalm, ErrBlockTooLarge)
	}
	end := f.flags&flagEndStream != 0
	if f.flags&flagEndHeaders != 0 {
		return c.headerBlock(f.number, end, payload, e)
	}
	c.block = block{number: f.number, end: end, bytes: append(c.t.spare.Borrow(), payload...)}
	return nil
}

// continuation handles a CONTINUATION frame.
func (c *Client) continuation(f *frame, payload []byte, e *wire.MuxEvent) *wire.Error {
	b := &c.block
	if b.frames++; b.frames > maxContinuations {
		return c.fatal(EnhanceYourCalm, ErrContinuationFlood)
	}
	b.bytes = append(b.bytes, payload...)
	if f.flags&flagEndHeaders == 0 {
		return nil
	}
	b.number = 0
	fault := c.headerBlock(f.number, b.end, b.bytes, e)
	c.dropBlock()
	return fault
}

// headerBlock handles a whole header block: an informational response, the header of the
// final one, or a trailer section (RFC 9113, section 8.1).
func (c *Client) headerBlock(number uint32, end bool, encoded []byte, e *wire.MuxEvent) *wire.Error {
	id, s := c.find(number)
	if s == nil && !c.wasForgotten(number) {
		return c.fatal(StreamClosed, ErrStreamClosed)
	}
	section, fault := c.decoder.read(encoded, c.t)
	if fault != nil {
		return c.fatal(CompressionError, fault)
	}
	if s == nil {
		c.t.fields = nil
		return c.waste(ErrHeadersFlood)
	}
	c.useless = 0
	switch malformed := section.malformed(s, end); {
	case malformed != nil:
		c.t.fields = nil
		c.fail(id, s, ProtocolError, malformed, e)
	case s.state&hasHead != 0:
		c.finish(id, s, e)
		e.Trailers = e.Kind == wire.MuxEnded
	case section.status >= 200:
		c.final(id, s, section, end, e)
	default:
		c.t.fields = nil
		if s.interim++; s.interim > wire.MaxInformational {
			c.fail(id, s, EnhanceYourCalm, ErrInformational, e)
		}
	}
	return nil //nolint:nilerr // what is malformed is the response, and the connection goes on
}

// final handles the header of the final response.
func (c *Client) final(id uint32, s *stream, section *section, end bool, e *wire.MuxEvent) {
	s.state |= hasHead
	s.status = section.status
	if s.status == 204 || s.status == 304 {
		s.state |= noContent
	}
	if !c.t.accepted[s.status] {
		s.state |= rejected
		s.codings = section.codings
	}
	if s.state&noContent == 0 {
		s.left = section.length
	}
	if end {
		c.finish(id, s, e)
		return
	}
	*e = wire.MuxEvent{Kind: wire.MuxHead, ID: id, Status: s.status}
}

// reset handles RST_STREAM.
func (c *Client) reset(number uint32, code ErrorCode, e *wire.MuxEvent) *wire.Error {
	id, s := c.find(number)
	if s == nil {
		return c.waste(ErrResetFlood)
	}
	*e = wire.MuxEvent{Kind: wire.MuxFailed, ID: id, Status: s.status, Bytes: s.got, Err: ResetError(code)}
	switch {
	case code == RefusedStream:
		e.Kind, e.Err = s.refused(), ErrRefused
	case code == NoError && s.whole():
		// The peer needs no more of the request, and has answered (RFC 9113, section 8.1).
		e.Kind, e.Err = wire.MuxEnded, c.failure(s)
	}
	c.release(id, s)
	return nil
}

// settle handles SETTINGS (RFC 9113, section 6.5).
func (c *Client) settle(f *frame, payload []byte) *wire.Error {
	if f.flags&flagAck != 0 {
		if c.acked {
			return c.fatal(ProtocolError, ErrSettingsAck)
		}
		c.acked = true
		return nil
	}
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingHeaderTableSize:
			c.encoder.limit(value)
		case settingEnablePush:
			if value != 0 {
				return c.fatal(ProtocolError, ErrEnablePush)
			}
		case settingMaxConcurrentStreams:
			c.peerStreams = int(min(value, maxStreams))
		case settingInitialWindowSize:
			if value > maxWindow {
				return c.fatal(FlowControlError, ErrInitialWindow)
			}
			c.peerWindow = int64(value)
			if !c.moveWindows() {
				return c.fatal(FlowControlError, ErrWindowOverflow)
			}
		case settingMaxFrameSize:
			if value < minMaxFrameSize || value > maxMaxFrameSize {
				return c.fatal(ProtocolError, ErrMaxFrameSize)
			}
			c.peerMaxFrame = int(value)
		case settingEnableConnect:
			c.connects = value == 1
		}
	}
	if c.t.connects && !c.connects {
		return c.fatal(NoError, ErrNoConnect)
	}
	c.settled = true
	c.allow()
	if fault := c.acknowledge(frameSettings, nil); fault != nil {
		return c.fatal(EnhanceYourCalm, fault)
	}
	return c.waste(ErrSettingsFlood)
}

// moveWindows has the open streams' windows follow the peer's initial one, and tells
// whether all of them can be.
func (c *Client) moveWindows() bool {
	for id := range c.streams {
		s := &c.streams[id]
		switch window := c.peerWindow + s.sendWindow; {
		case s.number == 0:
		case window > maxWindow:
			return false
		case window <= 0:
			c.dequeue(s)
		default:
			c.enqueue(uint32(id), s)
		}
	}
	return true
}

// widen handles WINDOW_UPDATE.
func (c *Client) widen(number uint32, by int64, e *wire.MuxEvent) *wire.Error {
	if number == 0 {
		c.sendWindow += by
		switch {
		case by == 0:
			return c.fatal(ProtocolError, ErrWindowUpdate)
		case c.sendWindow > maxWindow:
			return c.fatal(FlowControlError, ErrWindowOverflow)
		}
	} else if id, s := c.find(number); s != nil {
		s.sendWindow += by
		switch {
		case by == 0:
			c.fail(id, s, ProtocolError, ErrStreamWindow, e)
			return nil
		case c.peerWindow+s.sendWindow > maxWindow:
			c.fail(id, s, FlowControlError, ErrStreamOverflow, e)
			return nil
		}
		c.enqueue(id, s)
	}
	return c.waste(ErrWindowFlood)
}

// goAway handles GOAWAY. The exchanges above its last stream are refused one by one, by
// events of their own.
func (c *Client) goAway(last uint32, code ErrorCode, debug []byte, e *wire.MuxEvent) *wire.Error {
	if last > c.last {
		return c.fatal(ProtocolError, ErrGoAwayRaised)
	}
	c.last = last
	c.goneAway = true
	c.notice()
	switch {
	case code == EnhanceYourCalm && bytes.HasPrefix(debug, []byte(tooManyPings)):
		c.gone = ErrTooManyPings
	case code != NoError:
		c.gone = GoAwayError(code)
	}
	c.allow()
	*e = wire.MuxEvent{Kind: wire.MuxGoAway, Err: c.gone}
	return c.waste(ErrGoAwayFlood)
}

// await finds the next event that needs no more bytes.
func (c *Client) await(e *wire.MuxEvent) bool {
	for ; c.scan < len(c.streams); c.scan++ {
		id, s := uint32(c.scan), &c.streams[c.scan]
		switch {
		case s.number == 0:
		case s.number > c.last:
			*e = wire.MuxEvent{Kind: s.refused(), ID: id, Status: s.status, Bytes: s.got, Err: ErrRefusedLast}
			c.forget(s.number)
			c.release(id, s)
			return true
		case s.state&hasRoom != 0:
			s.state &^= hasRoom
			*e = wire.MuxEvent{Kind: wire.MuxRoom, ID: id, Status: s.status, Bytes: s.got}
			return true
		}
	}
	c.waiting = false
	return false
}
