package calls

import (
	"bytes"
	"strings"
	"testing"

	x "golang.org/x/net/http2"

	"dyno/experiments/subjects/grpcloop/http2"
)

// Floods end with ENHANCE_YOUR_CALM, long before they cost much.
func TestFloods(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame func(p *peer, i uint32)
	}{
		{"pings", func(p *peer, _ uint32) { p.must(p.frames.WritePing(false, [8]byte{})) }},
		{"acknowledged pings", func(p *peer, _ uint32) { p.must(p.frames.WritePing(true, [8]byte{})) }},
		{"settings", func(p *peer, _ uint32) { p.must(p.frames.WriteSettings()) }},
		{"priorities", func(p *peer, i uint32) { p.must(p.frames.WritePriority(2*i+1, x.PriorityParam{})) }},
		{"unknown frames", func(p *peer, _ uint32) { p.must(p.frames.WriteRawFrame(0xee, 0, 0, nil)) }},
		{"rapid reset", func(p *peer, i uint32) {
			p.open(2*i+1, chat)
			p.must(p.frames.WriteRSTStream(2*i+1, x.ErrCodeCancel))
		}},
		{"streams that are made to be reset", func(p *peer, i uint32) {
			p.open(2*i+1, chat)
			p.must(p.frames.WriteWindowUpdate(2*i+1, 0))
		}},
		{"malformed requests", func(p *peer, i uint32) { p.open(2*i+1, echo, "Upper", "x") }},
		{"too many at once", func(p *peer, i uint32) { p.open(2*i+1, chat) }},
		{"empty data", func(p *peer, i uint32) {
			if i == 0 {
				p.open(1, chat)
			}
			p.must(p.frames.WriteData(1, false, nil))
		}},
		{"continuations", func(p *peer, i uint32) {
			if i == 0 {
				p.must(p.frames.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers(echo)}))
			}
			p.must(p.frames.WriteContinuation(1, false, nil))
		}},
		{"data after the end", func(p *peer, i uint32) {
			if i == 0 {
				p.open(1, "/nothing")
			}
			p.must(p.frames.WriteData(1, false, nil))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t)
			for i := range uint32(10_000) {
				c.frame(p, i)
				if err := p.try(); err != nil {
					p.expectError(err, http2.EnhanceYourCalm)
					return
				}
				if p.conn.Open() > 100 {
					t.Fatalf("%d streams are open, want 100 at most", p.conn.Open())
				}
			}
			t.Fatal("10,000 were taken")
		})
	}
}

// A header list that is long only after decompression is refused, and the connection goes on.
func TestHeaderBomb(t *testing.T) {
	p := newPeer(t)
	long := strings.Repeat("v", 3900)
	p.open(1, echo, "x", long)
	p.send(1, true, echoRequest(echoMessage{}))
	p.feed()
	p.expect("1 "+head, `1 data "\x00\x00\x00\x00\x00"`, "1 "+good)
	bomb := append(p.headers(echo), bytes.Repeat([]byte{0x80 | 62}, 10_000)...)
	p.must(p.frames.WriteHeaders(x.HeadersFrameParam{StreamID: 3, BlockFragment: bomb, EndHeaders: true}))
	p.feed()
	p.expect("3 "+head+" grpc-status=8 grpc-message=the metadata is too large end", "3 reset NO_ERROR")
	p.open(5, echo)
	p.send(5, true, echoRequest(echoMessage{}))
	p.feed()
	p.expect("5 "+head, `5 data "\x00\x00\x00\x00\x00"`, "5 "+good)
}

// A client that reads nothing gets no more than the server is willing to hold, and is not
// read from.
func TestClientThatDoesNotRead(t *testing.T) {
	p := newPeer(t, x.Setting{ID: x.SettingInitialWindowSize, Val: 1<<31 - 1})
	p.must(p.frames.WriteWindowUpdate(0, 1<<30))
	p.open(1, fetch)
	p.send(1, true, message(appendVarint(appendMessage(nil, 1, appendBytes(nil, 2, make([]byte, 10_000))), 2, 1<<32-1)))
	for range 50_000 {
		p.must(p.frames.WritePing(false, [8]byte{}))
	}
	p.feed()
	if n := len(p.conn.Out); n > 300_000 || len(p.held) < 500_000 {
		t.Fatalf("%d bytes wait to be written, %d were not taken", n, len(p.held))
	}
	p.must(p.frames.WriteRSTStream(1, x.ErrCodeCancel))
	p.conn.Out = p.conn.Out[:0]
	if err := p.try(); err == nil {
		t.Fatal("50,000 pings were taken")
	}
	if p.loop.held != 0 {
		t.Errorf("%d bytes are held", p.loop.held)
	}
}

// TestNoRoom: answers whose client opens no window hold bounded memory over all calls. Calls beyond this bound
// are refused.
func TestNoRoom(t *testing.T) {
	const calls, size = 40, 1 << 20
	p := newPeer(t, x.Setting{ID: x.SettingInitialWindowSize, Val: 0})
	refused := func() int { return strings.Count(strings.Join(p.received(), "\n"), "grpc-status=8 ") }
	for i := range uint32(calls) {
		p.open(2*i+1, fetch)
		p.send(2*i+1, true, message(appendVarint(appendMessage(nil, 1, appendBytes(nil, 2, make([]byte, size))), 2, 2)))
		p.feed()
	}
	waiting := calls - refused()
	// Each holds its answer, and a copy that waits.
	if most := p.loop.config.MaxHeld / (2 * size); waiting != most-1 || p.loop.held < 2*size*waiting {
		t.Errorf("%d calls wait, with %d bytes held, want %d", waiting, p.loop.held, most-1)
	}
	p.loop.config.MaxHeld = p.loop.held
	for i, method := range []string{"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"} {
		id := uint32(2*(calls+i) + 1)
		p.open(id, method)
		p.send(id, true, message(nil))
		p.feed()
		if refused() != 1 {
			t.Errorf("%s was not refused", method)
		}
	}
	for i := range uint32(calls) {
		p.must(p.frames.WriteRSTStream(2*i+1, x.ErrCodeCancel))
	}
	p.feed()
	if p.loop.held != 0 {
		t.Errorf("%d bytes are held", p.loop.held)
	}
}

// Broken rules end a connection or a stream, as RFC 9113 says.
func TestRules(t *testing.T) {
	raw := func(kind x.FrameType, flags x.Flags, id uint32, b string) func(*peer) {
		return func(p *peer) { p.must(p.frames.WriteRawFrame(kind, flags, id, []byte(b))) }
	}
	for _, c := range []struct {
		name string
		do   func(p *peer)
		want http2.Code
	}{
		{"long frame", func(p *peer) { p.must(p.frames.WriteRawFrame(x.FrameData, 0, 1, make([]byte, 16_385))) }, http2.FrameSize},
		{"data on the connection", raw(x.FrameData, 0, 0, ""), http2.ProtocolError},
		{"data on an idle stream", raw(x.FrameData, 0, 1, ""), http2.ProtocolError},
		{"padding that is too long", raw(x.FrameHeaders, x.FlagHeadersPadded|x.FlagHeadersEndHeaders, 1, "\x05abc"), http2.ProtocolError},
		{"even stream", raw(x.FrameHeaders, x.FlagHeadersEndHeaders, 2, "\x83"), http2.ProtocolError},
		{"block that is cut off", raw(x.FrameHeaders, x.FlagHeadersEndHeaders, 1, "\x40"), http2.Compression},
		{"short priority", raw(x.FrameHeaders, x.FlagHeadersEndHeaders|x.FlagHeadersPriority, 1, "abc"), http2.FrameSize},
		{"continuation of nothing", raw(x.FrameContinuation, 0, 1, ""), http2.ProtocolError},
		{"another frame in a block", func(p *peer) {
			raw(x.FrameHeaders, 0, 1, "\x83")(p)
			raw(x.FramePing, 0, 0, "12345678")(p)
		}, http2.ProtocolError},
		{"push", raw(x.FramePushPromise, 0, 1, "\x00\x00\x00\x02"), http2.ProtocolError},
		{"short ping", raw(x.FramePing, 0, 0, "1234567"), http2.FrameSize},
		{"ping on a stream", raw(x.FramePing, 0, 1, "12345678"), http2.ProtocolError},
		{"settings on a stream", raw(x.FrameSettings, 0, 1, ""), http2.ProtocolError},
		{"short settings", raw(x.FrameSettings, 0, 0, "12345"), http2.FrameSize},
		{"acknowledgement with content", raw(x.FrameSettings, x.FlagSettingsAck, 0, "123456"), http2.FrameSize},
		{"window too large", raw(x.FrameSettings, 0, 0, "\x00\x04\xff\xff\xff\xff"), http2.FlowControl},
		{"frame size too small", raw(x.FrameSettings, 0, 0, "\x00\x05\x00\x00\x00\x01"), http2.ProtocolError},
		{"push setting", raw(x.FrameSettings, 0, 0, "\x00\x02\x00\x00\x00\x02"), http2.ProtocolError},
		{"short reset", raw(x.FrameRSTStream, 0, 1, "123"), http2.FrameSize},
		{"reset of an idle stream", raw(x.FrameRSTStream, 0, 1, "1234"), http2.ProtocolError},
		{"window of 0", raw(x.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00"), http2.ProtocolError},
		{"short window", raw(x.FrameWindowUpdate, 0, 0, "\x00\x00\x00"), http2.FrameSize},
		{"window of an idle stream", raw(x.FrameWindowUpdate, 0, 1, "\x00\x00\x00\x01"), http2.ProtocolError},
		{"window that overflows", raw(x.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff"), http2.FlowControl},
		{"priority of the connection", raw(x.FramePriority, 0, 0, "12345"), http2.ProtocolError},
		{"short GOAWAY", raw(x.FrameGoAway, 0, 0, "1234"), http2.FrameSize},
		{"GOAWAY on a stream", raw(x.FrameGoAway, 0, 1, "12345678"), http2.ProtocolError},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t)
			c.do(p)
			p.expectError(p.try(), c.want)
		})
	}
	for _, c := range []struct {
		name, want string
		do         func(p *peer)
	}{
		{"more than a stream's window", "1 reset FLOW_CONTROL_ERROR", func(p *peer) {
			p.open(1, chat)
			// What comes during the delay waits, and its window is not given back.
			p.send(1, false, echoRequest(echoMessage{delay: 1000}))
			for range 5 {
				p.must(p.frames.WriteData(1, false, make([]byte, 16_384)))
			}
		}},
		{"data after the end of a stream", "1 reset STREAM_CLOSED", func(p *peer) {
			p.open(1, echo)
			p.send(1, true, echoRequest(echoMessage{delay: 1000}))
			p.send(1, true, nil)
		}},
		{"headers within a stream", "1 reset PROTOCOL_ERROR", func(p *peer) {
			p.open(1, chat)
			p.open(1, chat)
		}},
		{"window of 0 for a stream", "1 reset PROTOCOL_ERROR", func(p *peer) {
			p.open(1, chat)
			raw(x.FrameWindowUpdate, 0, 1, "\x00\x00\x00\x00")(p)
		}},
		{"window of a stream that overflows", "1 reset FLOW_CONTROL_ERROR", func(p *peer) {
			p.open(1, chat)
			raw(x.FrameWindowUpdate, 0, 1, "\x7f\xff\xff\xff")(p)
		}},
		{"no path", "1 reset PROTOCOL_ERROR", raw(x.FrameHeaders, x.FlagHeadersEndHeaders, 1, "\x83\x86")},
		{"path twice", "1 reset PROTOCOL_ERROR", raw(x.FrameHeaders, x.FlagHeadersEndHeaders, 1, "\x83\x86\x84\x84")},
		{"a field of the connection", "1 reset PROTOCOL_ERROR", func(p *peer) { p.open(1, echo, "connection", "close") }},
		{"no time", "1 reset PROTOCOL_ERROR", func(p *peer) { p.open(1, echo, "grpc-timeout", "5 s") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t)
			c.do(p)
			p.feed()
			for _, frame := range p.received() {
				if frame == c.want {
					return
				}
			}
			t.Errorf("there is no %q", c.want)
		})
	}
}
