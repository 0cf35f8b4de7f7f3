package http2

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/wiretest"
)

// The requests of testConfig.
const (
	get  = iota // GET
	head        // HEAD
	bits        // POST, sent bit by bit
	post        // POST of postBody
)

const postBody = "0123456789"

func testConfig() Config {
	at := Request{Request: http1.Request{Host: "h", Target: "/"}, Scheme: "http"}
	with := func(r Request, change func(*Request)) Request {
		change(&r)
		return r
	}
	return Config{
		Requests: []Request{
			with(at, func(r *Request) { r.Method = "GET" }),
			with(at, func(r *Request) { r.Method = "HEAD" }),
			with(at, func(r *Request) { r.Method, r.BitByBit = "POST", true }),
			with(at, func(r *Request) { r.Method, r.Body = "POST", []byte(postBody) }),
		},
		Streams: 4,
		Content: true,
		Fields:  []string{"a", "b", "content-type"},
	}
}

func newClient(tb wiretest.TB, config Config) *Client {
	tb.Helper()
	t, err := NewTemplate(config)
	if err != nil {
		tb.Fatal(err)
	}
	return t.Client()
}

func begin(tb wiretest.TB, c *Client, id uint32, request int, parts ...string) {
	tb.Helper()
	var bytes [][]byte
	for _, p := range parts {
		bytes = append(bytes, []byte(p))
	}
	if err := c.Begin(id, request, bytes); err != nil {
		tb.Fatalf("begin %d: %v", id, err)
	}
}

// Bytes that peers send.

func appendFrame(b []byte, kind, flags uint8, number uint32, payload []byte) []byte {
	return append(appendFrameHeader(b, len(payload), kind, flags, number), payload...)
}

func join(frames ...[]byte) []byte { return slices.Concat(frames...) }

func raw(kind, flags uint8, number uint32, payload string) []byte {
	return appendFrame(nil, kind, flags, number, []byte(payload))
}

// fields encodes names and values, in turn, as literals that do not enter the table.
func fields(namesAndValues ...string) []byte {
	var b []byte
	for i := 0; i < len(namesAndValues); i += 2 {
		b = append(b, 0)
		for _, s := range namesAndValues[i : i+2] {
			b = append(appendInteger(b, len(s), 0x7f, 0), s...)
		}
	}
	return b
}

const (
	endStream  = flagEndStream
	endHeaders = flagEndHeaders
)

func headers(number uint32, flags uint8, namesAndValues ...string) []byte {
	return appendFrame(nil, frameHeaders, flags|flagEndHeaders, number, fields(namesAndValues...))
}

// block is a HEADERS frame of the bytes of a header block.
func headerBlock(number uint32, flags uint8, block string) []byte {
	return raw(frameHeaders, flags|flagEndHeaders, number, block)
}

func data(number uint32, flags uint8, content string) []byte {
	return raw(frameData, flags, number, content)
}

func word(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

func settings(numbersAndValues ...uint32) []byte {
	var b []byte
	for i := 0; i < len(numbersAndValues); i += 2 {
		b = binary.BigEndian.AppendUint16(b, uint16(numbersAndValues[i]))
		b = binary.BigEndian.AppendUint32(b, numbersAndValues[i+1])
	}
	return appendFrame(nil, frameSettings, 0, 0, b)
}

func windowUpdate(number, by uint32) []byte { return raw(frameWindowUpdate, 0, number, word(by)) }

func resetStream(number uint32, code ErrorCode) []byte {
	return raw(frameReset, 0, number, word(uint32(code)))
}

func goAway(last uint32, code ErrorCode) []byte {
	return raw(frameGoAway, 0, 0, word(last)+word(uint32(code)))
}

// describeFrames describes frames that a client has sent, one each, without its preface.
func describeFrames(tb wiretest.TB, output []byte) (lines []string) {
	tb.Helper()
	output = []byte(strings.TrimPrefix(string(output), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for len(output) > 0 {
		if len(output) < frameHeader {
			tb.Fatalf("half a frame's header: %q", output)
		}
		f := parseFrame(output)
		if len(output) < frameHeader+f.length {
			tb.Fatalf("half a frame: %q", output)
		}
		payload := output[frameHeader : frameHeader+f.length]
		output = output[frameHeader+f.length:]
		lines = append(lines, describe(f, payload))
	}
	return lines
}

func describe(f frame, payload []byte) string {
	end := ""
	if f.flags&flagEndStream != 0 {
		end = " end"
	}
	if f.flags&flagEndHeaders == 0 && (f.kind == frameHeaders || f.kind == frameContinuation) {
		end += " more"
	}
	switch f.kind {
	case frameData:
		return fmt.Sprintf("DATA %d %q%s", f.number, payload, end)
	case frameHeaders:
		return fmt.Sprintf("HEADERS %d%s", f.number, end)
	case frameContinuation:
		return fmt.Sprintf("CONTINUATION %d%s", f.number, end)
	case frameReset:
		return fmt.Sprintf("RST_STREAM %d %v", f.number, ErrorCode(binary.BigEndian.Uint32(payload)))
	case frameSettings:
		if f.flags&flagAck != 0 {
			return "SETTINGS ACK"
		}
		var values []string
		for ; len(payload) > 0; payload = payload[6:] {
			values = append(values, fmt.Sprintf(" %d=%d", binary.BigEndian.Uint16(payload), binary.BigEndian.Uint32(payload[2:])))
		}
		return "SETTINGS" + strings.Join(values, "")
	case framePing:
		return fmt.Sprintf("PING ACK %s", payload)
	case frameGoAway:
		return fmt.Sprintf("GOAWAY %d %v", binary.BigEndian.Uint32(payload), ErrorCode(binary.BigEndian.Uint32(payload[4:])))
	case frameWindowUpdate:
		return fmt.Sprintf("WINDOW_UPDATE %d %d", f.number, binary.BigEndian.Uint32(payload))
	default:
		return fmt.Sprintf("%d %d %d %q", f.kind, f.flags, f.number, payload)
	}
}

// A listener writes down a client's events in a form that does not depend on cuts: the content of an
// exchange as a whole, and its header also when it came with the end.
type listener struct {
	tb     wiretest.TB
	c      *Client
	lines  []string
	data   map[uint32]string
	headed map[uint32]bool
	ended  map[uint32]int
	err    error
}

func listen(tb wiretest.TB, c *Client) *listener {
	return &listener{tb: tb, c: c, data: map[uint32]string{}, headed: map[uint32]bool{}, ended: map[uint32]int{}}
}

// hear gives the client bytes, in pieces that end at cuts.
func (l *listener) hear(input []byte, cuts ...int) {
	l.tb.Helper()
	from := 0
	for _, to := range append(slices.Clone(cuts), len(input)) {
		piece := input[from:to]
		from = to
		for l.err == nil {
			var e wire.MuxEvent
			n, err := l.c.Input(piece, &e)
			if n < 0 || n > len(piece) {
				l.tb.Fatalf("used %d of %d bytes", n, len(piece))
			}
			if e.Kind == wire.MuxNothing && err == nil && n < len(piece) {
				l.tb.Fatalf("used %d of %d bytes without an event", n, len(piece))
			}
			piece = piece[n:]
			if err != nil {
				l.err = err
				l.note("error %v", err)
				if _, again := l.c.Input(piece, &e); again != err { //nolint:errorlint // the very same error
					l.tb.Fatalf("after %v: %v", err, again)
				}
				if l.c.Free() != 0 {
					l.tb.Fatalf("%d exchanges may begin after %v", l.c.Free(), err)
				}
				break
			}
			if e.Kind == wire.MuxNothing {
				break
			}
			l.event(e)
		}
	}
}

// end tells the client that there are no more bytes.
func (l *listener) end() {
	for e := l.c.End(); e.Kind != wire.MuxNothing; e = l.c.End() {
		l.event(e)
	}
	if l.c.open != 0 || l.c.Free() != 0 {
		l.tb.Fatalf("%d exchanges are open after the end, and %d may begin", l.c.open, l.c.Free())
	}
}

// endedOnce fails the test unless each of the first exchanges has ended once.
func (l *listener) endedOnce(exchanges uint32) {
	l.tb.Helper()
	for id := range exchanges {
		if n := l.ended[id]; n != 1 {
			l.tb.Fatalf("exchange %d has ended %d times", id, n)
		}
	}
}

func (l *listener) note(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *listener) fields() string {
	var b strings.Builder
	for _, f := range l.c.Fields() {
		fmt.Fprintf(&b, " %s=%s", l.c.t.names.wanted[f.Name], f.Value)
	}
	return b.String()
}

func (l *listener) event(e wire.MuxEvent) {
	l.tb.Helper()
	l.data[e.ID] += string(e.Data)
	if l.c.t.content && e.Kind != wire.MuxGoAway && int64(len(l.data[e.ID])) != e.Bytes {
		l.tb.Fatalf("%d bytes of content delivered, %d counted", len(l.data[e.ID]), e.Bytes)
	}
	failure := ""
	if e.Err != nil {
		failure = " " + e.Err.Error()
	}
	switch e.Kind {
	case wire.MuxHead:
		l.headed[e.ID] = true
		l.note("head %d %d%s", e.ID, e.Status, l.fields())
		return
	case wire.MuxData, wire.MuxRoom:
		if len(l.c.Fields()) > 0 {
			l.tb.Fatal("fields without a section")
		}
		if e.Kind == wire.MuxRoom {
			l.note("room %d", e.ID)
		}
		return
	case wire.MuxGoAway:
		l.note("goaway%s", failure)
		return
	case wire.MuxEnded:
		trailers := ""
		if e.Trailers {
			trailers = " trailers" + l.fields()
		} else if !l.headed[e.ID] {
			l.note("head %d %d%s", e.ID, e.Status, l.fields())
		}
		if !e.Trailers && l.headed[e.ID] && len(l.c.Fields()) > 0 {
			l.tb.Fatal("the header's fields twice")
		}
		l.note("end %d %d %q%s%s", e.ID, e.Status, l.data[e.ID], trailers, failure)
	case wire.MuxFailed:
		if e.Status != 0 && !l.headed[e.ID] {
			l.note("head %d %d%s", e.ID, e.Status, l.fields())
		}
		l.note("failed %d%s", e.ID, failure)
	case wire.MuxRefused:
		l.note("refused %d%s", e.ID, failure)
	default:
		l.tb.Fatalf("event %+v", e)
	}
	l.ended[e.ID]++
	delete(l.data, e.ID)
	delete(l.headed, e.ID)
}
