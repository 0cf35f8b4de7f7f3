package http2

import (
	"encoding/binary"
	"slices"

	"dyno/experiments/subjects/grpcloop/hpack"
)

// A Handler carries out calls. Its methods are called while the connection reads its input. They may call
// methods of the Conn, also to end the stream. The Conn does not touch a stream that has ended.
type Handler interface {
	// Open is called when a call's header is there.
	Open(s *Stream)
	// Received is given the next bytes of a call. They are valid during the call of
	// Received. Until Consumed is called for them, the client may send no more than
	// a window. With Stream.Ended they are the last; there may be none.
	Received(s *Stream, data []byte)
	// Writable is called when a stream that waits may send again.
	Writable(s *Stream)
	// Closed is called when the client or the connection has ended a stream.
	Closed(s *Stream)
	// Now is the time in nanoseconds since some moment.
	Now() int64
}

// Config is what all connections have in common.
type Config struct {
	// Methods are the paths of calls. A call's number is its place here, from 1.
	Methods []string
	// MaxStreams bounds the calls at once on a connection.
	MaxStreams int
	// StreamWindow and ConnWindow are how many bytes a client may send ahead, for a
	// stream and in all. At least 65,535 for the latter.
	StreamWindow, ConnWindow int
}

// Shared is what the connections of one loop share. It belongs to one goroutine, and so do
// they.
type Shared struct {
	config     Config
	handler    Handler
	dictionary *hpack.Dictionary
	free       []*Stream
	settings   []byte // what the server's side begins with
	block      []byte // scratch for header blocks that are sent
}

// maxFree bounds the streams that are kept for later calls.
const maxFree = 4096

// NewShared prepares for connections whose calls go to a handler.
func NewShared(config Config, handler Handler) *Shared {
	sh := &Shared{config: config, handler: handler, dictionary: hpack.NewDictionary(mean(config.Methods))}
	b := appendHead(nil, 4*6, frameSettings, 0, 0)
	for _, s := range [][2]int{
		{settingStreams, config.MaxStreams},
		{settingWindow, config.StreamWindow},
		{settingHeaderListMax, maxHeaderList},
		{settingTableSize, hpack.TableSize},
	} {
		b = binary.BigEndian.AppendUint16(b, uint16(s[0]))
		b = binary.BigEndian.AppendUint32(b, uint32(s[1]))
	}
	if more := config.ConnWindow - firstWindow; more > 0 {
		b = appendHead(b, 4, frameWindow, 0, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(more))
	}
	sh.settings = b
	return sh
}

// A Conn is one connection. Use Init.
type Conn struct {
	// Out is what is to be written. The owner of the connection writes it and then empties it, or replaces it by
	// other empty memory.
	Out []byte
	// Key is what Init was given, for the owner to find the connection by.
	Key uint64

	shared  *Shared
	decoder hpack.Decoder
	streams streams
	waiting queue  // streams with data to send
	greeted bool   // the preface is there
	settled bool   // and the first settings
	goAway  bool   // no new streams
	gone    bool   // the connection has ended
	last    uint32 // highest number of a stream
	send    int    // window for what the server sends
	recv    int    // window for what the client sends
	first   int    // window that streams begin with, for what the server sends
	frame   int    // longest frame that the client takes
	credit  int    // frames in vain that the client may still send
	since   int64  // when credit was last given by time
	encoder encoder

	// A header block that is not complete.
	block     []byte
	pieces    int
	blockID   uint32
	blockEnds bool // with its end the client has ended its side
	collects  bool
}

// Init begins a connection. Its settings are in Out.
func (c *Conn) Init(shared *Shared, key uint64) {
	out := c.Out[:0]
	*c = Conn{
		Out: append(out, shared.settings...), Key: key, shared: shared,
		send: firstWindow, first: firstWindow, frame: MaxFrame,
		recv: max(firstWindow, shared.config.ConnWindow), credit: credit, since: shared.handler.Now(),
	}
	c.decoder.Init(shared.dictionary)
	c.encoder.limit = hpack.TableSize
}

// Feed takes input and returns how much it has used. The rest comes again, followed by
// more. It stops early while much output waits. After an error the connection is
// over: Out is to be written, and the connection closed.
func (c *Conn) Feed(in []byte) (used int, err error) {
	if c.gone {
		return len(in), nil
	}
	if !c.greeted {
		n := min(len(in), len(Preface))
		if string(in[:n]) != Preface[:n] {
			return 0, c.fail(ProtocolError, "the preface is not that of HTTP/2")
		}
		if n < len(Preface) {
			return 0, nil
		}
		c.greeted = true
		used = n
	}
	for {
		rest := in[used:]
		if len(rest) < frameHead || c.Crowded() {
			return used, nil
		}
		head := binary.BigEndian.Uint64(rest)
		length := int(head >> 40)
		if length > MaxFrame {
			return used, c.fail(FrameSize, "a frame is longer than 16,384 bytes")
		}
		if len(rest) < frameHead+length {
			return used, nil
		}
		id := binary.BigEndian.Uint32(rest[5:]) & (1<<31 - 1)
		used += frameHead + length
		if err := c.take(uint8(head>>32), uint8(head>>24), id, rest[frameHead:frameHead+length]); err != nil {
			return used, err
		}
	}
}

// take takes in one frame.
func (c *Conn) take(kind, flags uint8, id uint32, b []byte) error {
	if !c.settled {
		if kind != frameSettings || flags&flagAck != 0 {
			return c.fail(ProtocolError, "the first frame is not the settings")
		}
		c.settled = true
	}
	if c.collects && (kind != frameContinuation || id != c.blockID) {
		return c.fail(ProtocolError, "another frame within a header block")
	}
	switch kind {
	case frameData:
		return c.takeData(flags, id, b)
	case frameHeaders:
		return c.takeHeaders(flags, id, b)
	case frameWindow:
		return c.takeWindow(id, b)
	case framePing:
		if len(b) != 8 {
			return c.fail(FrameSize, "a ping has not 8 bytes")
		}
		if id != 0 {
			return c.fail(ProtocolError, "a ping on a stream")
		}
		if flags&flagAck == 0 {
			c.Out = append(appendHead(c.Out, 8, framePing, flagAck, 0), b...)
		}
		return c.charge("pings")
	case frameSettings:
		return c.takeSettings(flags, id, b)
	case frameReset:
		return c.takeReset(id, b)
	case framePriority:
		if id == 0 {
			return c.fail(ProtocolError, "a priority on the connection")
		}
		if len(b) != 5 {
			return c.fail(FrameSize, "a priority has not 5 bytes")
		}
		return c.charge("priorities")
	case frameContinuation:
		return c.takeContinuation(flags, b)
	case framePush:
		return c.fail(ProtocolError, "a client pushes")
	case frameGoAway:
		if id != 0 {
			return c.fail(ProtocolError, "a GOAWAY on a stream")
		}
		if len(b) < 8 {
			return c.fail(FrameSize, "a GOAWAY has less than 8 bytes")
		}
	}
	return c.charge("frames that say nothing") // kinds that are not known are ignored
}

// charge takes a credit for a frame without use.
func (c *Conn) charge(what string) error {
	if c.credit--; c.credit >= 0 {
		return nil
	}
	now := c.shared.handler.Now()
	const second = 1_000_000_000
	c.credit = int(min((now-c.since)/(second/refill), credit))
	c.since = now
	if c.credit > 0 {
		return nil
	}
	return c.fail(EnhanceYourCalm, "too many "+what)
}

// unpad takes the padding from a frame.
func (c *Conn) unpad(flags uint8, b []byte) ([]byte, error) {
	if flags&flagPadded == 0 {
		return b, nil
	}
	if len(b) == 0 {
		return nil, c.fail(FrameSize, "a padded frame is empty")
	}
	n := int(b[0])
	if n > len(b)-1 {
		return nil, c.fail(ProtocolError, "a frame's padding is longer than the frame")
	}
	return b[1 : len(b)-n], nil
}

func (c *Conn) takeData(flags uint8, id uint32, b []byte) error {
	if id == 0 {
		return c.fail(ProtocolError, "data on the connection")
	}
	size := len(b)
	b, err := c.unpad(flags, b)
	if err != nil {
		return err
	}
	// The connection's window is given back at once: a call that takes nothing holds up
	// itself only. What a stream may hold is bounded by its own. More than half of the
	// window is always open, so that no frame can be too long for it.
	c.recv -= size
	if full := c.shared.config.ConnWindow; c.recv < full/2 {
		c.grant(0, full-c.recv)
		c.recv = full
	}
	s := c.streams.get(id)
	if s == nil {
		if id&1 == 0 || id > c.last {
			if c.goAway && id&1 == 1 {
				return c.charge("data on streams that are refused")
			}
			return c.fail(ProtocolError, "data on a stream that is not open")
		}
		return c.charge("data on streams that have ended")
	}
	if s.ended {
		return c.reset(s, StreamClosed, "data after the end of a stream")
	}
	if s.recv -= size; s.recv < 0 {
		return c.reset(s, FlowControl, "more data than a stream's window")
	}
	s.consumed += size - len(b)
	s.ended = flags&flagEndStream != 0
	if len(b) == 0 && !s.ended {
		return c.charge("frames without data")
	}
	c.shared.handler.Received(s, b)
	return nil
}

// grant gives the client more of a window.
func (c *Conn) grant(id uint32, n int) {
	c.Out = appendHead(c.Out, 4, frameWindow, 0, id)
	c.Out = binary.BigEndian.AppendUint32(c.Out, uint32(n))
}

// Consumed tells that the handler has done with n bytes of a stream.
func (c *Conn) Consumed(s *Stream, n int) {
	s.consumed += n
	if s.consumed >= c.shared.config.StreamWindow/2 && !s.ended {
		c.grant(s.id, s.consumed)
		s.recv += s.consumed
		s.consumed = 0
	}
}

// Expect makes a stream's window so large that n more bytes may come.
func (c *Conn) Expect(s *Stream, n int) {
	if more := n - s.recv; more > 0 && !s.ended {
		c.grant(s.id, more)
		s.recv += more
		// What was given ahead is not given again.
		s.consumed -= more
	}
}

func (c *Conn) takeHeaders(flags uint8, id uint32, b []byte) error {
	if id&1 == 0 {
		return c.fail(ProtocolError, "a stream whose number is no client's")
	}
	b, err := c.unpad(flags, b)
	if err != nil {
		return err
	}
	if flags&flagPriority != 0 {
		if len(b) < 5 {
			return c.fail(FrameSize, "a header has no room for its priority")
		}
		b = b[5:]
	}
	ends := flags&flagEndStream != 0
	if flags&flagEndHeaders != 0 {
		return c.open(id, ends, b)
	}
	c.collects, c.blockID, c.blockEnds, c.pieces = true, id, ends, 0
	c.block = append(c.block[:0], b...)
	return nil
}

func (c *Conn) takeContinuation(flags uint8, b []byte) error {
	if !c.collects {
		return c.fail(ProtocolError, "a continuation of nothing")
	}
	// Pieces of a few bytes are as bad as many bytes.
	if c.pieces++; len(c.block)+len(b) > maxBlock || c.pieces > 64 {
		return c.fail(EnhanceYourCalm, "a header block is too long")
	}
	c.block = append(c.block, b...)
	if flags&flagEndHeaders == 0 {
		return nil
	}
	c.collects = false
	block := c.block
	c.block = nil // seldom needed, so not kept
	return c.open(c.blockID, c.blockEnds, block)
}

// open takes in a complete header block: that of a new stream, or trailers.
func (c *Conn) open(id uint32, ends bool, block []byte) error {
	if id <= c.last {
		return c.trailers(id, ends, block)
	}
	sh := c.shared
	s := c.newStream()
	r := &s.Request
	r.clear()
	if err := c.decoder.Decode(block, r); err != nil {
		c.discard(s)
		return c.fail(Compression, err.Error())
	}
	if c.goAway {
		c.discard(s)
		return c.charge("calls after a GOAWAY")
	}
	c.last = id
	if c.streams.count >= sh.config.MaxStreams {
		c.discard(s)
		c.sendReset(id, RefusedStream)
		return c.charge("calls at once")
	}
	if why := r.check(); why != "" {
		c.discard(s)
		c.sendReset(id, ProtocolError)
		return c.charge("malformed requests: " + why)
	}
	s.Conn, s.id, s.ended = c, id, ends
	s.headers, s.stalled, s.consumed, s.send, s.recv = false, false, 0, c.first, sh.config.StreamWindow
	c.streams.put(s)
	sh.handler.Open(s)
	return nil
}

// trailers takes in a second header block of a stream, which ends it. Its fields say
// nothing to gRPC.
func (c *Conn) trailers(id uint32, ends bool, block []byte) error {
	var ignored Request
	if err := c.decoder.Decode(block, &ignored); err != nil {
		return c.fail(Compression, err.Error())
	}
	s := c.streams.get(id)
	if s == nil {
		return c.charge("headers of streams that have ended")
	}
	if s.ended {
		return c.reset(s, StreamClosed, "headers after the end of a stream")
	}
	if !ends {
		return c.reset(s, ProtocolError, "headers within a stream")
	}
	s.ended = true
	c.shared.handler.Received(s, nil)
	return nil
}

func (c *Conn) newStream() *Stream {
	sh := c.shared
	if n := len(sh.free); n > 0 {
		s := sh.free[n-1]
		sh.free = sh.free[:n-1]
		return s
	}
	return new(Stream)
}

// discard gives back the memory of a stream that is not in the table.
func (c *Conn) discard(s *Stream) {
	s.id, s.Conn = 0, nil
	const kept = 1024 // of what a call's metadata had
	if cap(s.Request.Initial)+cap(s.Request.Trailing) > kept {
		s.Request.Initial, s.Request.Trailing = nil, nil
	}
	if sh := c.shared; len(sh.free) < maxFree {
		sh.free = append(sh.free, s)
	}
}

// close takes a stream out of the connection.
func (c *Conn) close(s *Stream) {
	c.streams.remove(s.id)
	if s.waits {
		c.waiting.remove(s)
	}
	c.discard(s)
}

func (c *Conn) takeReset(id uint32, b []byte) error {
	if len(b) != 4 {
		return c.fail(FrameSize, "a reset has not 4 bytes")
	}
	if id == 0 || id > c.last && !c.goAway {
		return c.fail(ProtocolError, "a reset of a stream that was never open")
	}
	s := c.streams.get(id)
	if s == nil {
		return nil // the call ended before its client knew
	}
	c.shared.handler.Closed(s)
	c.close(s)
	return c.charge("resets")
}

// reset ends a stream whose client broke the rules. That is in vain, too.
func (c *Conn) reset(s *Stream, code Code, why string) error {
	c.shared.handler.Closed(s)
	c.sendReset(s.id, code)
	c.close(s)
	return c.charge("broken rules: " + why)
}

func (c *Conn) sendReset(id uint32, code Code) {
	c.Out = appendHead(c.Out, 4, frameReset, 0, id)
	c.Out = binary.BigEndian.AppendUint32(c.Out, uint32(code))
}

// Reset ends a stream without an answer.
func (c *Conn) Reset(s *Stream, code Code) {
	c.sendReset(s.id, code)
	c.close(s)
}

func (c *Conn) takeWindow(id uint32, b []byte) error {
	if len(b) != 4 {
		return c.fail(FrameSize, "a window update has not 4 bytes")
	}
	n := int(binary.BigEndian.Uint32(b) & (1<<31 - 1))
	if id == 0 {
		if n == 0 {
			return c.fail(ProtocolError, "a window update of 0")
		}
		if c.send += n; c.send > maxWindow {
			return c.fail(FlowControl, "the connection's window is too large")
		}
		c.Resume()
		return nil
	}
	s := c.streams.get(id)
	if s == nil {
		if id > c.last && !c.goAway {
			return c.fail(ProtocolError, "a window update of a stream that was never open")
		}
		return nil // a client may not know yet that the stream has ended
	}
	if n == 0 {
		return c.reset(s, ProtocolError, "a window update of 0")
	}
	if s.send += n; s.send > maxWindow {
		return c.reset(s, FlowControl, "a stream's window is too large")
	}
	c.unstall(s)
	c.Resume()
	return nil
}

// unstall has a stream take part in sending again, when its window is open.
func (c *Conn) unstall(s *Stream) {
	if s.stalled && s.send > 0 {
		s.stalled = false
		c.waiting.push(s)
	}
}

func (c *Conn) takeSettings(flags uint8, id uint32, b []byte) error {
	if id != 0 {
		return c.fail(ProtocolError, "settings on a stream")
	}
	if flags&flagAck != 0 {
		if len(b) > 0 {
			return c.fail(FrameSize, "an acknowledgement has content")
		}
		return nil
	}
	if len(b)%6 != 0 {
		return c.fail(FrameSize, "settings are cut off")
	}
	for ; len(b) > 0; b = b[6:] {
		v := int(binary.BigEndian.Uint32(b[2:]))
		switch binary.BigEndian.Uint16(b) {
		case settingTableSize:
			c.encoder.resize(min(v, hpack.TableSize))
		case settingPush:
			if v > 1 {
				return c.fail(ProtocolError, "ENABLE_PUSH is neither 0 nor 1")
			}
		case settingWindow:
			if v > maxWindow {
				return c.fail(FlowControl, "INITIAL_WINDOW_SIZE is too large")
			}
			change := v - c.first
			c.first = v
			for _, s := range c.streams.slots {
				if s == nil {
					continue
				}
				if s.send += change; s.send > maxWindow {
					return c.fail(FlowControl, "a stream's window is too large")
				}
				c.unstall(s)
			}
		case settingFrame:
			if v < MaxFrame || v > 1<<24-1 {
				return c.fail(ProtocolError, "MAX_FRAME_SIZE is not from 16,384 to 16,777,215")
			}
		}
	}
	c.Out = appendHead(c.Out, 0, frameSettings, flagAck, 0)
	c.Resume()
	return c.charge("settings")
}

// fail ends the connection.
func (c *Conn) fail(code Code, why string) error {
	c.Out = appendHead(c.Out, 8+len(why), frameGoAway, 0, 0)
	c.Out = binary.BigEndian.AppendUint32(c.Out, c.last)
	c.Out = binary.BigEndian.AppendUint32(c.Out, uint32(code))
	c.Out = append(c.Out, why...)
	c.End()
	return &Error{Code: code, Reason: why}
}

// End ends all streams, because the connection has ended.
func (c *Conn) End() {
	c.gone = true
	for {
		var s *Stream
		for _, s = range c.streams.slots {
			if s != nil {
				break
			}
		}
		if s == nil {
			return
		}
		c.shared.handler.Closed(s)
		c.close(s)
	}
}

// Drain tells the client to open no more streams. Those that are open may end.
func (c *Conn) Drain() {
	if c.goAway || c.gone {
		return
	}
	c.goAway = true
	c.Out = appendHead(c.Out, 8, frameGoAway, 0, 0)
	c.Out = binary.BigEndian.AppendUint32(c.Out, c.last)
	c.Out = binary.BigEndian.AppendUint32(c.Out, uint32(NoError))
}

// Ping asks the client for a sign of life.
func (c *Conn) Ping() {
	c.Out = append(appendHead(c.Out, 8, framePing, 0, 0), "are you?"...)
}

// Done reports whether a connection that was drained has no streams left.
func (c *Conn) Done() bool { return c.gone || c.goAway && c.streams.count == 0 }

// Greeted reports whether the client has shown that it speaks HTTP/2.
func (c *Conn) Greeted() bool { return c.settled }

// Open returns how many streams are open.
func (c *Conn) Open() int { return c.streams.count }

// Each calls a function with each open stream. The function may end that stream.
func (c *Conn) Each(f func(*Stream)) {
	// Ending a stream moves others in the table.
	for _, s := range slices.Clone(c.streams.slots) {
		if s != nil && s.Conn == c {
			f(s)
		}
	}
}
