package calls

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"dyno/experiments/subjects/grpcloop/http2"
	"dyno/services/echo/rpc/go/program"
)

// peer is a client made of x/net's frames and the server that it talks to, without a socket.
type peer struct {
	t       testing.TB
	clock   int64
	loop    *Loop
	shared  *http2.Shared
	conn    http2.Conn
	in      bytes.Buffer // what the client has written
	frames  *x.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	decoder *hpack.Decoder
	step    int // bytes that are fed at a time; 0 is all
	held    []byte
}

const maxMessage = 4<<20 + 64

func newPeer(t testing.TB, settings ...x.Setting) *peer {
	p := &peer{t: t, clock: 1}
	p.loop = NewLoop(Config{MaxMessage: maxMessage, MaxHeld: 64 << 20, Layers: program.NewLayers(2)}, func() int64 { return p.clock })
	p.shared = http2.NewShared(http2.Config{
		Methods: Methods(), MaxStreams: 100, StreamWindow: 65536, ConnWindow: 1 << 20,
	}, p.loop)
	p.conn.Init(p.shared, 1)
	p.frames = x.NewFramer(&p.in, nil)
	p.frames.AllowIllegalWrites = true
	p.encoder = hpack.NewEncoder(&p.block)
	p.decoder = hpack.NewDecoder(4096, nil)
	p.in.WriteString(http2.Preface)
	p.must(p.frames.WriteSettings(settings...))
	p.feed()
	p.received()
	return p
}

func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// headers returns a header block for a call, with more fields.
func (p *peer) headers(method string, more ...string) []byte {
	p.t.Helper()
	p.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		p.must(p.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return bytes.Clone(p.block.Bytes())
}

// open begins a call.
func (p *peer) open(id uint32, method string, more ...string) {
	p.t.Helper()
	p.must(p.frames.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: p.headers(method, more...), EndHeaders: true}))
}

// message returns a message as it is sent.
func message(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// echoRequest returns an EchoRequest as it is sent.
func echoRequest(m echoMessage) []byte {
	b := m.append(nil)
	b = appendVarint(b, 3, uint64(m.status))
	return message(appendVarint(b, 4, uint64(m.delay)))
}

// send sends data of a call.
func (p *peer) send(id uint32, end bool, b []byte) {
	p.t.Helper()
	for len(b) > http2.MaxFrame {
		p.must(p.frames.WriteData(id, false, b[:http2.MaxFrame]))
		b = b[http2.MaxFrame:]
	}
	p.must(p.frames.WriteData(id, end, b))
}

// feed gives the server all that was written, and fails when it does not like it.
func (p *peer) feed() {
	p.t.Helper()
	p.must(p.try())
}

// try gives the server all that was written.
func (p *peer) try() error {
	p.loop.Turn()
	b := append(p.held, p.in.Bytes()...)
	p.in.Reset()
	for n := min(len(b), max(p.step, 1)); len(b) > 0; n = min(n+max(p.step, 1), len(b)) {
		if p.step == 0 {
			n = len(b)
		}
		used, err := p.conn.Feed(b[:n])
		p.loop.Settle()
		if err != nil {
			return err
		}
		b = b[used:]
		if n -= used; n == len(b) {
			break
		}
	}
	p.held = bytes.Clone(b)
	return nil
}

// received returns the server's frames since the last call, each as a text.
func (p *peer) received() (texts []string) {
	p.t.Helper()
	frames := x.NewFramer(io.Discard, bytes.NewReader(p.conn.Out))
	frames.ReadMetaHeaders = p.decoder
	frames.SetMaxReadFrameSize(http2.MaxFrame)
	for {
		f, err := frames.ReadFrame()
		if errors.Is(err, io.EOF) {
			p.conn.Out = p.conn.Out[:0]
			return texts
		}
		p.must(err)
		text := ""
		switch f := f.(type) {
		case *x.MetaHeadersFrame:
			text = "headers"
			for _, h := range f.Fields {
				text += " " + h.Name + "=" + h.Value
			}
			if f.StreamEnded() {
				text += " end"
			}
		case *x.DataFrame:
			text = fmt.Sprintf("data %d", len(f.Data()))
			if len(f.Data()) < 40 {
				text = fmt.Sprintf("data %q", f.Data())
			}
		case *x.RSTStreamFrame:
			text = fmt.Sprint("reset ", f.ErrCode)
		case *x.WindowUpdateFrame:
			text = fmt.Sprint("window ", f.Increment)
		case *x.SettingsFrame:
			text = fmt.Sprint("settings ack=", f.IsAck())
		case *x.PingFrame:
			text = fmt.Sprint("ping ack=", f.IsAck())
		case *x.GoAwayFrame:
			text = fmt.Sprintf("goaway last=%d %v %s", f.LastStreamID, f.ErrCode, f.DebugData())
		}
		texts = append(texts, fmt.Sprintf("%d %s", f.Header().StreamID, text))
	}
}

// expect compares the frames of the server.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	if got := p.received(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		p.t.Fatalf("the server says\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// expectError holds an error of a connection to a code, and its last frame to a GOAWAY.
func (p *peer) expectError(err error, code http2.Code) {
	p.t.Helper()
	if fault := (*http2.Error)(nil); !errors.As(err, &fault) || fault.Code != code {
		p.t.Fatalf("%v, want code %#x", err, code)
	}
	frames := p.received()
	if last := frames[len(frames)-1]; !strings.HasPrefix(last, "0 goaway") {
		p.t.Fatalf("the last frame is %q, want GOAWAY", last)
	}
	if n := p.conn.Open(); n > 0 {
		p.t.Fatalf("%d streams are left", n)
	}
}

// advance lets time pass.
func (p *peer) advance(ns int64) {
	p.clock += ns
	p.loop.Turn()
	for p.loop.Expire() != nil {
	}
}
