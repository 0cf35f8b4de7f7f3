// Package calls carries out the calls of the echo over gRPC without goroutines. A call is its state. It
// continues when a message arrives, a timer fires, or the window opens. The package does no I/O.
package calls

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"dyno/experiments/subjects/grpcloop/http2"
	"dyno/services/echo/rpc/go/program"
)

// Methods returns the paths of the calls that there are, in the order of their numbers.
func Methods() []string { return slices.Clone(methods) }

var methods = []string{
	"/dyno.echo.v1.Echo/Echo",
	"/dyno.echo.v1.Echo/Collect",
	"/dyno.echo.v1.Echo/Expand",
	"/dyno.echo.v1.Echo/Chat",
	"/grpc.health.v1.Health/Check",
	"/grpc.health.v1.Health/Watch",
}

// Numbers of the methods, from 1.
const (
	methodEcho = 1 + iota
	methodCollect
	methodExpand
	methodChat
	methodCheck
	methodWatch
)

// Statuses of gRPC.
const (
	ok                = 0
	deadlineExceeded  = 4
	notFound          = 5
	resourceExhausted = 8
	unimplemented     = 12
	internal          = 13
	unavailable       = 14
)

// prefix is the length of what each message begins with: whether it is compressed, and
// its length.
const prefix = 5

// Config is what a Loop is made of.
type Config struct {
	MaxMessage int
	Layers     program.Layers
	// MaxHeld bounds the bytes of messages that are not complete, or not answered yet, over
	// all calls of the loop. A call that would hold more is refused.
	MaxHeld int
}

// A Loop carries out the calls of one event loop, and belongs to its goroutine.
type Loop struct {
	config Config
	begin  func(*call) // through all layers
	timers timers
	fresh  []*call // calls with a deadline that began in this turn
	zip    zipper
	plain  []byte // an answer before it is compressed
	held   int
	clock  func() int64
	now    int64
	known  bool // now is right in this turn
}

var _ http2.Handler = (*Loop)(nil)

// call is the state of one call. Its memory serves one call after another.
type call struct {
	stream *http2.Stream // nil when the call has ended
	in     []byte        // what came and is not taken yet
	out    []byte        // what waits for room; sent is how much of it is sent
	sent   int
	waits  int // bytes of out that the loop counts as held
	place  int // in the timers; -1 when it is in none

	due      int64 // when the timer calls
	deadline int64 // 0 is none
	wake     int64 // when the delay is over; 0 when there is none
	waited   bool  // the first message's delay is over

	ending  bool // the status follows when all is sent
	status  uint32
	message string

	messages, bytes uint64 // Collect's sum
	reply           []byte // Expand's answer, framed
	reserved        int    // bytes of reply that the loop counts as held
	more            uint32 // how many times it is still to be sent
	interval        int64
	parked          bool // a watch: nothing more comes
}

// NewLoop returns a loop whose time comes from the clock, in nanoseconds.
func NewLoop(config Config, clock func() int64) *Loop {
	l := &Loop{config: config, clock: clock}
	l.begin = l.start
	for i := range config.Layers {
		layer, next := &config.Layers[i], l.begin
		l.begin = func(k *call) {
			layer.Calls.Add(1)
			next(k)
		}
	}
	return l
}

// Turn begins a turn of the event loop: the time is read again when it is needed.
func (l *Loop) Turn() { l.known = false }

// Now is the time of this turn.
func (l *Loop) Now() int64 {
	if !l.known {
		l.now, l.known = l.clock(), true
	}
	return l.now
}

// Next returns when something is due; false when nothing is.
func (l *Loop) Next() (int64, bool) {
	if len(l.timers.heap) == 0 {
		return 0, false
	}
	return l.timers.heap[0].due, true
}

// Expire carries out what is due of one call, and returns its connection, whose output
// has grown; nil when nothing is due.
func (l *Loop) Expire() *http2.Conn {
	if len(l.timers.heap) == 0 || l.timers.heap[0].due > l.Now() {
		return nil
	}
	k := l.timers.heap[0]
	c := k.stream.Conn
	l.timers.remove(k)
	if k.deadline != 0 && k.deadline <= l.now {
		l.end(k, deadlineExceeded, "the deadline has passed")
		return c
	}
	k.wake, k.waited = 0, true
	l.schedule(k)
	l.proceed(k)
	return c
}

// Settle gives calls that have not ended in the turn that they began in their timers. It
// is called after each Feed: most calls with a deadline never need one.
func (l *Loop) Settle() {
	for i, k := range l.fresh {
		l.fresh[i] = nil
		if k.stream != nil && k.deadline != 0 {
			l.schedule(k)
		}
	}
	l.fresh = l.fresh[:0]
}

// schedule sets the timer to what comes first.
func (l *Loop) schedule(k *call) {
	due := int64(math.MaxInt64)
	if k.deadline != 0 {
		due = k.deadline
	}
	if k.wake != 0 {
		due = min(due, k.wake)
	}
	if due == math.MaxInt64 {
		l.timers.remove(k)
		return
	}
	l.timers.set(k, due)
}

// pause delays a call.
func (l *Loop) pause(k *call, d time.Duration) {
	k.wake = l.Now() + int64(d)
	l.schedule(k)
}

// Drain ends the calls of a connection that would never end.
func (l *Loop) Drain(c *http2.Conn) {
	c.Each(func(s *http2.Stream) {
		if k := s.Data.(*call); k.parked {
			l.end(k, unavailable, "the server ends")
		}
	})
}

// Open begins a call.
func (l *Loop) Open(s *http2.Stream) {
	k, known := s.Data.(*call)
	if !known {
		k = &call{place: -1}
		s.Data = k
	}
	k.stream = s
	r := &s.Request
	switch {
	case r.TooLarge:
		l.end(k, resourceExhausted, "the metadata is too large")
		return
	case !r.POST:
		l.forget(k)
		s.Conn.Refuse(s, "405")
		return
	case !r.GRPC:
		l.forget(k)
		s.Conn.Refuse(s, "415")
		return
	case r.Method == 0:
		l.end(k, unimplemented, "unknown method")
		return
	case r.Encoding == http2.Unknown:
		l.end(k, unimplemented, "unknown compression")
		return
	}
	if r.Timeout > 0 {
		now := l.Now()
		k.deadline = now + min(int64(r.Timeout), math.MaxInt64-1-now)
		l.fresh = append(l.fresh, k)
	}
	l.begin(k)
}

// start is what the layers are around.
func (l *Loop) start(k *call) {
	if k.stream.Ended() {
		l.proceed(k)
	}
}

// Received takes the next bytes of a call.
func (l *Loop) Received(s *http2.Stream, data []byte) {
	k := s.Data.(*call)
	if k.ending {
		s.Conn.Consumed(s, len(data)) // the answer is there, and no more is needed
		return
	}
	if len(k.in) == 0 && !k.held() {
		// Nearly always: messages are taken where they are.
		rest := l.take(k, data)
		if k.stream == nil || len(rest) == 0 {
			return
		}
		data = rest
	}
	if l.held+len(data) > l.config.MaxHeld {
		l.end(k, resourceExhausted, "too much waits to be answered")
		return
	}
	l.hold(k, data)
	if !k.held() {
		l.proceed(k)
	}
}

// hold keeps bytes for later. The memory for a long message grows in few steps, and never
// to much more than what has really come.
func (l *Loop) hold(k *call, data []byte) {
	l.held += len(data)
	if need := len(k.in) + len(data); need > cap(k.in) {
		size := min(max(4*need, keptByCall), prefix+l.config.MaxMessage+http2.MaxFrame)
		k.in = slices.Grow(k.in, max(size, need)-len(k.in))
	}
	k.in = append(k.in, data...)
}

// held reports whether no message may be taken now.
func (k *call) held() bool {
	return k.wake != 0 || k.sent < len(k.out) || k.ending || k.more > 0 || k.parked
}

// proceed goes on with a call, as far as it goes.
func (l *Loop) proceed(k *call) {
	if k.sent < len(k.out) || k.wake != 0 {
		return
	}
	if k.more > 0 {
		l.repeat(k)
		if k.stream == nil || k.held() {
			return
		}
	}
	if k.ending {
		l.end(k, k.status, k.message)
		return
	}
	if k.parked {
		return
	}
	rest := l.take(k, k.in)
	if k.stream == nil {
		return
	}
	l.held -= len(k.in) - len(rest)
	k.in = k.in[:copy(k.in, rest)]
	if k.more > 0 && len(k.in) == 0 && cap(k.in) > keptByCall {
		k.in = nil // its answers may take long
	}
}

// unary reports whether a method takes one message.
func (l *Loop) unary(method int) bool { return method != methodCollect && method != methodChat }

// take takes complete messages from what came, and returns the rest. When all has come, it
// ends the call.
func (l *Loop) take(k *call, b []byte) []byte {
	s := k.stream
	for len(b) >= prefix {
		n := int(binary.BigEndian.Uint32(b[1:]))
		switch {
		case b[0] > 1:
			l.end(k, internal, "a message begins with a byte that is neither 0 nor 1")
			return nil
		case n > l.config.MaxMessage:
			l.end(k, resourceExhausted, "a message is too large")
			return nil
		case len(b) < prefix+n:
			if s.Ended() {
				l.end(k, internal, "the last message is cut off")
				return nil
			}
			s.Conn.Expect(s, prefix+n-len(b))
			return b
		}
		if l.unary(s.Request.Method) {
			if len(b) > prefix+n {
				l.end(k, unimplemented, "more than one message")
				return nil
			}
			if !s.Ended() {
				return b // there might be more
			}
		}
		if !l.handle(k, b[0] == 1, b[prefix:prefix+n]) {
			return b
		}
		if k.stream == nil {
			return nil
		}
		s.Conn.Consumed(s, prefix+n)
		b = b[prefix+n:]
		if k.held() {
			return b
		}
	}
	switch {
	case !s.Ended():
	case len(b) > 0:
		l.end(k, internal, "the last message is cut off")
	case l.unary(s.Request.Method):
		l.end(k, unimplemented, "there is no message")
	case s.Request.Method == methodCollect:
		l.plain = appendVarint(appendVarint(l.plain[:0], 1, k.messages), 2, k.bytes)
		if l.answer(k, false, l.plain) {
			l.end(k, ok, "")
		}
	default:
		l.end(k, ok, "")
	}
	return b
}

// handle takes one message. It returns false when the message has to be kept, because its
// delay is not over.
func (l *Loop) handle(k *call, compressed bool, b []byte) bool {
	s := k.stream
	if compressed {
		if s.Request.Encoding != http2.Gzip {
			l.end(k, internal, "a message is compressed without grpc-encoding")
			return true
		}
		var err error
		switch b, err = l.zip.unzip(b, l.config.MaxMessage); {
		case errors.Is(err, errTooLarge):
			l.end(k, resourceExhausted, "a message is too large")
			return true
		case err != nil:
			l.end(k, internal, "a message is not in gzip")
			return true
		}
		compressed = s.Request.AcceptsGzip
	}
	switch s.Request.Method {
	case methodEcho, methodChat, methodCollect:
		var m echoMessage
		if !m.decode(b) {
			l.malformed(k)
			return true
		}
		if !l.due(k, &m) {
			return k.stream == nil
		}
		if s.Request.Method == methodCollect {
			k.messages++
			k.bytes += uint64(len(m.text) + len(m.payload))
			return true
		}
		l.echo(k, compressed, &m)
		if s.Request.Method == methodEcho && k.stream != nil {
			l.end(k, ok, "")
		}
	case methodExpand:
		var m expandMessage
		if !m.decode(b) {
			l.malformed(k)
			return true
		}
		if !l.due(k, &m.message) {
			return k.stream == nil
		}
		l.expand(k, compressed, &m)
	case methodCheck, methodWatch:
		l.health(k, compressed, b)
	}
	return true
}

func (l *Loop) malformed(k *call) { l.end(k, internal, "a message cannot be decoded") }

// due carries out the delay and the status of a message. It returns false when there is
// no answer, or none yet.
func (l *Loop) due(k *call, m *echoMessage) bool {
	if m.delay > 0 && !k.waited {
		l.pause(k, time.Duration(m.delay)*time.Millisecond)
		return false
	}
	k.waited = false
	if m.status != 0 {
		l.end(k, m.status, string(m.text))
		return false
	}
	return true
}

// echo answers one message.
func (l *Loop) echo(k *call, compressed bool, m *echoMessage) {
	if !compressed {
		s := k.stream
		s.Conn.Respond(s, s.Request.Encoding == http2.Gzip && s.Request.AcceptsGzip)
		size := m.size()
		if b := s.Conn.Reserve(s, prefix+size); b != nil {
			b[0] = 0
			binary.BigEndian.PutUint32(b[1:], uint32(size))
			m.append(b[prefix:prefix])
			return
		}
	}
	l.plain = m.append(l.plain[:0])
	l.answer(k, compressed, l.plain)
	if cap(l.plain) > kept {
		l.plain = nil
	}
}

// answer sends a message, or keeps it until there is room. It returns false when the call
// could not go on.
func (l *Loop) answer(k *call, compressed bool, b []byte) bool {
	s := k.stream
	s.Conn.Respond(s, s.Request.Encoding == http2.Gzip && s.Request.AcceptsGzip)
	k.out = l.framed(k.out[:0], compressed, b)
	k.sent = 0
	return l.flush(k)
}

// framed appends a message as it is sent.
func (l *Loop) framed(to []byte, compressed bool, b []byte) []byte {
	flag := byte(0)
	if compressed {
		flag, b = 1, l.zip.zip(b)
	}
	if need := prefix + len(b); cap(to) < need {
		to = make([]byte, 0, need)
	}
	to = binary.BigEndian.AppendUint32(append(to, flag), uint32(len(b)))
	return append(to, b...)
}

// flush sends what there is room for. It returns false when there is too much for all
// calls together, and the call has ended.
func (l *Loop) flush(k *call) bool {
	k.sent += k.stream.Conn.Send(k.stream, k.out[k.sent:])
	if k.sent < len(k.out) {
		if k.waits == 0 {
			k.waits = len(k.out)
			if l.held += k.waits; l.held > l.config.MaxHeld {
				l.end(k, resourceExhausted, "too many answers wait for their clients")
				return false
			}
		}
		return true
	}
	l.held -= k.waits
	k.waits, k.sent = 0, 0
	if k.out = k.out[:0]; cap(k.out) > kept {
		k.out = nil
	}
	return true
}

// expand begins to answer one message with many.
func (l *Loop) expand(k *call, compressed bool, m *expandMessage) {
	s := k.stream
	s.Conn.Respond(s, s.Request.Encoding == http2.Gzip && s.Request.AcceptsGzip)
	l.plain = m.message.append(l.plain[:0])
	k.reply = l.framed(k.reply[:0], compressed, l.plain)
	k.reserved = len(k.reply)
	if l.held += k.reserved; l.held+k.reserved > l.config.MaxHeld { // a second time while it waits for room
		l.end(k, resourceExhausted, "too many answers wait for their clients")
		return
	}
	k.more, k.interval = m.count, int64(m.interval)*1000
	k.ending, k.status = true, ok
	if k.more == 0 {
		l.end(k, ok, "")
		return
	}
	l.repeat(k)
}

// repeat sends the answer as often as there is room and time for it.
func (l *Loop) repeat(k *call) {
	for k.more > 0 {
		k.more--
		n := k.stream.Conn.Send(k.stream, k.reply)
		if n < len(k.reply) {
			k.out, k.sent = append(k.out[:0], k.reply...), n
			l.held += len(k.out) - k.waits
			k.waits = len(k.out)
		}
		if k.more > 0 && k.interval > 0 {
			l.pause(k, time.Duration(k.interval))
		}
		if k.sent < len(k.out) || k.wake != 0 {
			return
		}
	}
	l.end(k, ok, "")
}

// health answers a check, or begins a watch. The answer never changes while calls are
// served.
func (l *Loop) health(k *call, compressed bool, b []byte) {
	name := ""
	for len(b) > 0 {
		f, rest, valid := next(b)
		if !valid {
			l.malformed(k)
			return
		}
		if b = rest; f.number == 1 && f.wire == wireBytes {
			name = string(f.bytes)
		}
	}
	const serving, unknown = 1, 3
	status := byte(serving)
	watch := k.stream.Request.Method == methodWatch
	if name != "" && name != "dyno.echo.v1.Echo" {
		if !watch {
			l.end(k, notFound, "unknown service")
			return
		}
		status = unknown
	}
	if !l.answer(k, compressed, []byte{1<<3 | wireVarint, status}) {
		return
	}
	if k.parked = watch; !watch {
		l.end(k, ok, "")
	}
}

// end ends a call with a status: now, or when all that waits is sent.
func (l *Loop) end(k *call, status uint32, message string) {
	if status == ok && k.sent < len(k.out) {
		k.ending = true
		return
	}
	s := k.stream
	l.forget(k)
	s.Conn.Finish(s, status, message)
}

// keptByCall bounds each buffer that a call's memory keeps for the next call.
const keptByCall = 4 << 10

// forget makes a call's memory ready for another.
func (l *Loop) forget(k *call) {
	l.timers.remove(k)
	l.held -= len(k.in) + k.waits + k.reserved
	in, out, reply := k.in[:0], k.out[:0], k.reply[:0]
	if cap(in) > keptByCall {
		in = nil
	}
	if cap(out) > keptByCall {
		out = nil
	}
	if cap(reply) > keptByCall {
		reply = nil
	}
	*k = call{place: -1, in: in, out: out, reply: reply}
}

// Writable goes on with a call that waited for room.
func (l *Loop) Writable(s *http2.Stream) {
	k := s.Data.(*call)
	if l.flush(k) && k.sent == len(k.out) {
		l.proceed(k)
	}
}

// Closed forgets a call that the client has given up.
func (l *Loop) Closed(s *http2.Stream) { l.forget(s.Data.(*call)) }
