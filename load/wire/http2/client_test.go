package http2

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2/hpack"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/wiretest"
)

func expect(tb wiretest.TB, got []string, want ...string) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Fatalf("want -, got +\n%s", diff)
	}
}

// The first bytes of a connection, one by one.
func TestFirstBytes(t *testing.T) {
	const magic = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"defaults", func(*Config) {}, magic +
			"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + "\x00\x02\x00\x00\x00\x00" + "\x00\x04\x00\x40\x00\x00" + "\x00\x06\x00\x01\x00\x00" +
			"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x00\xff\x00\x01"},
		{"the RFC's own", func(c *Config) { c.Settings = Settings{65535, 65535} }, magic +
			"\x00\x00\x0c\x04\x00\x00\x00\x00\x00" + "\x00\x02\x00\x00\x00\x00" + "\x00\x06\x00\x01\x00\x00"},
		{"all", func(c *Config) {
			c.Settings = Settings{1, 1<<31 - 1}
			c.MaxHeader = 100
		}, magic +
			"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + "\x00\x02\x00\x00\x00\x00" + "\x00\x04\x00\x00\x00\x01" + "\x00\x06\x00\x00\x00\x64" +
			"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x7f\xff\x00\x00"},
	} {
		config := testConfig()
		tt.change(&config)
		c := newClient(t, config)
		for range 2 {
			if got := string(wiretest.Take(c)); got != tt.want {
				t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
			}
			c.Reset()
		}
	}
}

// A GET and its repetition, byte by byte.
func TestRequestBytes(t *testing.T) {
	config := testConfig()
	config.Requests[get].Header = []http1.Field{{Name: "user-agent", Value: "dyno"}}
	c := newClient(t, config)
	l := listen(t, c)
	l.hear(settings())
	wiretest.Take(c)
	begin(t, c, 0, get)
	if got, want := string(wiretest.Take(c)), "\x00\x00\x0b\x01\x05\x00\x00\x00\x01"+"\x82\x86"+"\x41\x01h"+"\x84"+"\x7a\x83\x93\xd5\x47"; got != want {
		// Encoded, h would be a byte as well: then it stays as it is.
		t.Errorf("got  %q\nwant %q", got, want)
	}
	begin(t, c, 1, get)
	if got, want := string(wiretest.Take(c)), "\x00\x00\x05\x01\x05\x00\x00\x00\x03"+"\x82\x86\xbf\x84\xbe"; got != want {
		t.Errorf("again: got %q\nwant %q", got, want)
	}
}

// TestExtendedConnect: a request for another protocol waits for the settings that permit it (RFC 8441).
func TestExtendedConnect(t *testing.T) {
	config := testConfig()
	config.Optimistic = true
	config.Requests = []Request{{Request: http1.Request{Method: "GET", Host: "h", Target: "/", Header: []http1.Field{{Name: "user-agent", Value: "dyno"}}}, Scheme: "http", Protocol: "p", BitByBit: true}}
	c := newClient(t, config)
	l := listen(t, c)
	if c.Free() != 0 {
		t.Error("it does not wait for the settings")
	}
	l.hear(settings(settingEnableConnect, 1))
	wiretest.Take(c)
	begin(t, c, 0, 0)
	want := "\x00\x00\x1e\x01\x04\x00\x00\x00\x01" + "\x42\x07CONNECT" + "\x40\x87\xb9\x5d\x87\x49\xc8\x7a\x3f\x01p" + "\x86" + "\x41\x01h" + "\x84" + "\x7a\x83\x93\xd5\x47"
	if got := string(wiretest.Take(c)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	c.Reset()
	var e wire.MuxEvent
	if _, err := c.Input(settings(), &e); !errors.Is(err, ErrNoConnect) {
		t.Errorf("a peer without the setting: %v", err)
	}
}

func TestFree(t *testing.T) {
	config := testConfig()
	c := newClient(t, config)
	l := listen(t, c)
	free := func(want int) {
		t.Helper()
		if got := c.Free(); got != want {
			t.Fatalf("%d may begin, want %d", got, want)
		}
	}
	free(0) // before SETTINGS
	if err := c.Begin(0, get, nil); !errors.Is(err, ErrNotFree) {
		t.Fatal(err)
	}
	l.hear(settings())
	free(4)
	l.hear(settings(settingMaxConcurrentStreams, 2))
	free(2)
	begin(t, c, 0, get)
	begin(t, c, 3, get)
	free(0)
	l.hear(settings(settingMaxConcurrentStreams, 1))
	free(0)
	l.hear(ok200)
	free(0)
	c.Cancel(3)
	free(1)
	l.hear(settings(settingMaxConcurrentStreams, 1<<32-1))
	free(4)
	c.next = maxStreamNumber - 2
	free(2)
	begin(t, c, 0, get)
	begin(t, c, 1, get)
	free(0) // no numbers left
	c.Reset()
	free(0)
	l.hear(settings())
	free(4)
	begin(t, c, 0, get)
	l.hear(goAway(1<<31-1, NoError))
	free(0)
	l.hear(settings(settingMaxConcurrentStreams, 100))
	free(0)

	config.Optimistic = true
	c = newClient(t, config)
	l = listen(t, c)
	free(4)
	begin(t, c, 0, get)
	l.hear(settings(settingMaxConcurrentStreams, 0))
	free(0)
}

func TestBeginRefuses(t *testing.T) {
	config := testConfig()
	config.Requests = append(config.Requests,
		Request{Request: http1.Request{Method: "PUT", Host: "h", VariesTarget: true, VariesBody: true, Header: []http1.Field{{Name: "a", Varies: true}}}, Scheme: "http"})
	c := newClient(t, config)
	listen(t, c).hear(settings())
	begin(t, c, 1, get)
	wiretest.Take(c)
	const vary = 4
	part := func(s ...string) (parts [][]byte) {
		for _, p := range s {
			parts = append(parts, []byte(p))
		}
		return parts
	}
	for _, tt := range []struct {
		id      uint32
		request int
		parts   [][]byte
		want    error
	}{
		{1, get, nil, ErrNumber},
		{4, get, nil, ErrNumber},
		{1 << 31, get, nil, ErrNumber},
		{0, -1, nil, ErrRequest},
		{0, 5, nil, ErrRequest},
		{0, get, part("x"), ErrParts},
		{0, vary, nil, ErrParts},
		{0, vary, part("/", "x"), ErrParts},
		{0, vary, part("x", "x", "x"), ErrPath},
		{0, vary, part("", "x", "x"), ErrPath},
		{0, vary, part("/a b", "x", "x"), ErrPath},
		{0, vary, part("/\x80", "x", "x"), ErrPath},
		{0, vary, part("/", "x\ny", "x"), ErrValue},
		{0, vary, part("/", "x ", "x"), ErrValue},
	} {
		if err := c.Begin(tt.id, tt.request, tt.parts); !errors.Is(err, tt.want) {
			t.Errorf("%d, %d, %q: %v, want %v", tt.id, tt.request, tt.parts, err, tt.want)
		}
		if wire.KindOf(tt.want) != wire.Generator {
			t.Errorf("%v is not the caller's", tt.want)
		}
	}
	if len(c.Output()) > 0 || c.open != 1 {
		t.Errorf("a refused exchange left %q, %d open", c.Output(), c.open)
	}
	begin(t, c, 0, vary, "/", "\xff", "\x00")
	expect(t, describeFrames(t, wiretest.Take(c)), "HEADERS 3", `DATA 3 "\x00" end`)
}

func TestCancel(t *testing.T) {
	c := ready(t, testConfig())
	l := listen(t, c)
	c.Cancel(0)
	c.Cancel(0) // has no effect, nor those that never were
	c.Cancel(3)
	c.Cancel(99)
	expect(t, describeFrames(t, wiretest.Take(c)), "RST_STREAM 1 CANCEL")
	l.hear(join(open, data(1, 0, strings.Repeat("x", 1000)), headers(1, endStream, "a", "b")))
	expect(t, l.lines)
	if missing := int64(c.t.settings.ConnectionWindow) - c.receiveWindow; missing != 1000 {
		t.Errorf("%d bytes of the connection's window are used up, want 1000", missing)
	}
	begin(t, c, 0, get) // the number is free again
	l.hear(headers(7, endStream, ":status", "200"))
	expect(t, l.lines, "head 0 200", `end 0 200 ""`)

	// In the middle of a frame, and of a header block.
	c = ready(t, testConfig())
	l = listen(t, c)
	l.hear(join(open, data(1, endStream, "hello"))[:len(open)+frameHeader+2])
	c.Cancel(0)
	l.hear(join([]byte("llo"), raw(frameHeaders, endStream, 3, "\x88")))
	c.Cancel(1)
	l.hear(raw(frameContinuation, endHeaders, 3, "\x40\x01a\x01b"))
	l.hear(headerBlock(5, endStream, "\x88\xbe")) // the table is in step
	expect(t, l.lines, "head 0 200", "head 2 200 a=b", `end 2 200 ""`)
}

// More streams are given up than are remembered: late frames are no error for streams that were given
// up, but for streams that ended.
func TestCancelMany(t *testing.T) {
	c := newClient(t, testConfig())
	l := listen(t, c)
	l.hear(settings())
	begin(t, c, 0, get)
	l.hear(ok200)
	last := uint32(1)
	for range 3 * maxRemembered {
		begin(t, c, 0, get)
		last += 2
		c.Cancel(0)
		wiretest.Take(c)
	}
	begin(t, c, 0, get)
	ended := last + 2
	l.hear(headers(ended, endStream, ":status", "200"))
	l.lines = nil
	for n := uint32(3); n <= last; n += 2 {
		l.hear(join(headers(n, 0, ":status", "200"), data(n, endStream, "x")))
	}
	expect(t, l.lines)
	if len(c.forgotten) != maxRemembered {
		t.Errorf("%d streams are remembered", len(c.forgotten))
	}
	l.hear(data(ended, 0, "x"))
	expect(t, l.lines, "error "+ErrStreamClosed.Error())
}

func TestEnd(t *testing.T) {
	setUp := func() *listener {
		config := testConfig()
		config.Streams = 6
		c := ready(t, config)
		begin(t, c, 3, get) // on stream 7
		begin(t, c, 4, get) // on stream 9
		return listen(t, c)
	}
	l := setUp()
	l.hear(join(open, headers(3, 0, ":status", "100"), raw(frameHeaders, 0, 5, "")))
	l.end()
	expect(t, l.lines, "head 0 200", "failed 0 "+ErrClosedBody.Error(), "failed 1 "+ErrClosedHeader.Error(),
		"failed 2 "+ErrClosedHeader.Error(), "failed 3 "+ErrClosedEarly.Error(), "failed 4 "+ErrClosedEarly.Error())

	l = setUp()
	l.hear(goAway(7, NoError))
	l.end()
	expect(t, l.lines, "goaway", "refused 4 "+ErrRefusedLast.Error(), "failed 0 "+ErrClosedEarly.Error(), "failed 1 "+ErrClosedEarly.Error(),
		"failed 2 "+ErrClosedEarly.Error(), "failed 3 "+ErrClosedEarly.Error())

	l = setUp()
	var e wire.MuxEvent
	n, err := l.c.Input(goAway(3, InternalError), &e) // the refused ones are not asked for
	if n != frameHeader+8 || e.Kind != wire.MuxGoAway || err != nil {
		t.Fatal(n, e, err)
	}
	l.end()
	gone := GoAwayError(InternalError).Error()
	expect(t, l.lines, "failed 0 "+gone, "failed 1 "+gone, "refused 2 "+ErrRefusedLast.Error(), "refused 3 "+ErrRefusedLast.Error(), "refused 4 "+ErrRefusedLast.Error())

	l = setUp()
	l.hear(raw(framePing, 0, 0, "short"))
	l.end()
	expect(t, l.lines, "error "+ErrFrameSize.Error(), "failed 0 "+ErrFrameSize.Error(), "failed 1 "+ErrFrameSize.Error(),
		"failed 2 "+ErrFrameSize.Error(), "failed 3 "+ErrFrameSize.Error(), "failed 4 "+ErrFrameSize.Error())
	// Nothing follows GOAWAY.
	l.c.Cancel(0)
	lines := describeFrames(t, wiretest.Take(l.c))
	if lines[len(lines)-1] != "GOAWAY 0 FRAME_SIZE_ERROR" {
		t.Errorf("%q", lines)
	}
	if n, err := l.c.Send(2, []byte("x"), true); n != 0 || !errors.Is(err, ErrFrameSize) {
		t.Errorf("sends %d after the error, %v", n, err)
	}
	// And the client is as new for the next connection.
	l.c.Reset()
	l = listen(t, l.c)
	l.hear(settings())
	begin(t, l.c, 0, get)
	l.hear(ok200)
	expect(t, l.lines, "head 0 200", `end 0 200 ""`)
}

func TestSend(t *testing.T) {
	config := testConfig()
	c := ready(t, config)
	c.t.sendBuffer = 20
	l := listen(t, c)
	send := func(content string, end bool, taken int, want error) {
		t.Helper()
		if n, err := c.Send(2, []byte(content), end); n != taken || !errors.Is(err, want) {
			t.Fatalf("sent %d, %v; want %d, %v", n, err, taken, want)
		}
	}
	send("", false, 0, nil)
	send("one", false, 3, nil)
	send("two", false, 3, nil)
	expect(t, describeFrames(t, wiretest.Take(c)), `DATA 5 "one"`, `DATA 5 "two"`)
	l.hear(settings(settingInitialWindowSize, 10)) // 6 of them are used up
	expect(t, describeFrames(t, wiretest.Take(c)), "SETTINGS ACK")
	send("three", false, 5, nil)
	expect(t, describeFrames(t, wiretest.Take(c)), `DATA 5 "thre"`)
	send("0123456789", false, 10, nil)
	send("abcdefghijklm", false, 9, nil) // there is room for 20
	send("x", true, 0, nil)
	expect(t, describeFrames(t, wiretest.Take(c)))
	l.hear(windowUpdate(5, 5))
	expect(t, l.lines)
	expect(t, describeFrames(t, wiretest.Take(c)), `DATA 5 "e0123"`)
	l.hear(windowUpdate(5, 5))
	expect(t, describeFrames(t, wiretest.Take(c)), `DATA 5 "45678"`)
	l.hear(nil)
	expect(t, l.lines, "room 2")
	send("x", true, 1, nil)
	send("y", true, 0, ErrSendEnded)
	l.hear(windowUpdate(5, 100))
	expect(t, describeFrames(t, wiretest.Take(c)), `DATA 5 "9abcdefghix" end`)
	send("y", false, 0, ErrSendEnded)
	l.hear(headers(5, endStream, ":status", "200"))
	expect(t, l.lines, "room 2", "head 2 200", `end 2 200 ""`)
	expect(t, describeFrames(t, wiretest.Take(c)))
	send("y", false, 0, ErrNoExchange)
	if _, err := c.Send(0, nil, true); !errors.Is(err, ErrSendUnasked) {
		t.Error(err)
	}
	if _, err := c.Send(99, nil, true); !errors.Is(err, ErrNoExchange) {
		t.Error(err)
	}

	// The end alone is not held up by a window.
	c = ready(t, config)
	listen(t, c).hear(settings(settingInitialWindowSize, 0))
	wiretest.Take(c)
	if n, err := c.Send(2, nil, true); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	expect(t, describeFrames(t, wiretest.Take(c)), `DATA 5 "" end`)
}

// Waiting bytes keep their order while their buffer is used again.
func TestSendKeepsOrder(t *testing.T) {
	c := ready(t, testConfig())
	l := listen(t, c)
	l.hear(settings(settingInitialWindowSize, 0))
	var sent, got []byte
	for i := range 100 {
		content := bytes.Repeat([]byte{byte(i)}, 300)
		if n, err := c.Send(2, content, false); n != len(content) || err != nil {
			t.Fatal(n, err)
		}
		sent = append(sent, content...)
		l.hear(windowUpdate(5, 290))
		for output := wiretest.Take(c); len(output) > 0; {
			f := parseFrame(output)
			end := frameHeader + f.length
			if f.kind == frameData {
				got = append(got, output[frameHeader:end]...)
			}
			output = output[end:]
		}
	}
	if len(got) != 100*290 || !bytes.HasPrefix(sent, got) {
		t.Errorf("%d bytes, or not those that were sent", len(got))
	}
}

// A body waits for its windows, whichever opens last, and takes turns with others.
func TestBodiesWait(t *testing.T) {
	body := strings.Repeat("x", 40_000)
	config := testConfig()
	config.Requests[post].Body = []byte(body)
	config.Requests = append(config.Requests, Request{Request: http1.Request{Method: "POST", Host: "h", Target: "/", VariesBody: true}, Scheme: "http"})
	c := newClient(t, config)
	l := listen(t, c)
	l.hear(settings())
	wiretest.Take(c)
	begin(t, c, 0, post)
	begin(t, c, 1, 4, strings.Repeat("y", 40_000))
	sizes := func() (lines []string) {
		for _, line := range describeFrames(t, wiretest.Take(c)) {
			if name, rest, ok := strings.Cut(line, ` "`); ok {
				content, end, _ := strings.Cut(rest, `"`)
				line = fmt.Sprintf("%s %s*%d%s", name, content[:min(1, len(content))], len(content), end)
			}
			lines = append(lines, line)
		}
		return lines
	}
	expect(t, sizes(), "HEADERS 1", "HEADERS 3", "DATA 1 x*16384", "DATA 3 y*16384", "DATA 1 x*16384", "DATA 3 y*16383") // 65,535
	l.hear(windowUpdate(1, 1000))
	expect(t, sizes())
	l.hear(settings(settingInitialWindowSize, 10))
	l.hear(windowUpdate(0, 100_000))
	expect(t, sizes(), "SETTINGS ACK") // both streams' windows are below 0
	if w := c.peerWindow + c.streams[1].sendWindow; w != 10-16384-16383 {
		t.Errorf("a window of %d", w)
	}
	l.hear(windowUpdate(3, 16384+16383-10)) // now 0
	expect(t, sizes())
	l.hear(windowUpdate(3, 1))
	expect(t, sizes(), "DATA 3 y*1")
	l.hear(settings(settingInitialWindowSize, 50_000, settingMaxFrameSize, 1<<20))
	expect(t, sizes(), "SETTINGS ACK", "DATA 1 x*7232 end", "DATA 3 y*7232 end")
	if c.queue != emptyQueue {
		t.Errorf("queue %v", c.queue)
	}
	l.hear(join(headers(1, endStream, ":status", "200"), headers(3, endStream, ":status", "200")))
	expect(t, describeFrames(t, wiretest.Take(c)))
}

// Waiting bytes go with their exchange, wherever it is in the queue.
func TestWaitingBodiesGo(t *testing.T) {
	config := testConfig()
	config.Requests[post].Body = make([]byte, 100_000)
	for gone := range uint32(3) {
		for how, let := range map[string]func(c *Client, l *listener){
			"cancel": func(c *Client, _ *listener) { c.Cancel(gone) },
			"reset":  func(_ *Client, l *listener) { l.hear(resetStream(2*gone+1, Cancel)) },
			"answer": func(_ *Client, l *listener) { l.hear(headers(2*gone+1, endStream, ":status", "200")) },
		} {
			c := newClient(t, config)
			l := listen(t, c)
			l.hear(join(settings(settingInitialWindowSize, 1<<20), windowUpdate(0, 1<<20)))
			for id := range uint32(3) {
				begin(t, c, id, post)
			}
			let(c, l)
			sent := map[string]int{}
			for _, line := range describeFrames(t, wiretest.Take(c)) {
				if strings.HasPrefix(line, "DATA") && strings.HasSuffix(line, " end") {
					sent[line[:6]]++
				}
			}
			var want []string
			for id := range uint32(3) {
				if id != gone {
					want = append(want, fmt.Sprintf("DATA %d", 2*id+1))
				}
			}
			if len(sent) != 2 || sent[want[0]] != 1 || sent[want[1]] != 1 || c.queue != emptyQueue {
				t.Errorf("%s of %d: %v ended, queue %v", how, gone, sent, c.queue)
			}
		}
	}
}

// The output does not grow with the content that waits.
func TestOutputIsBounded(t *testing.T) {
	config := testConfig()
	config.Requests[post].Body = make([]byte, 10<<20)
	c := newClient(t, config)
	l := listen(t, c)
	l.hear(join(settings(settingInitialWindowSize, maxWindow), windowUpdate(0, maxWindow-initialWindow)))
	for id := range uint32(4) {
		begin(t, c, id, post)
	}
	most, all := 0, 0
	for len(c.Output()) > 0 {
		most = max(most, len(c.Output()), cap(c.out))
		n := min(1000, len(c.Output()))
		all += n
		c.Wrote(n)
	}
	if all < 40<<20 {
		t.Errorf("only %d bytes are sent", all)
	}
	if most > 4*outputTarget {
		t.Errorf("an output of %d bytes", most)
	}
}

// Long header blocks go out in CONTINUATION frames, as long as the peer takes them.
func TestLongHeaders(t *testing.T) {
	for _, size := range []int{5000, 16384, 16385, 20_000, 70_000} { // that do not fit into the table
		for _, most := range []int{1 << 14, 1<<14 + 1, 30_000, 1 << 20} {
			config := testConfig()
			value := strings.Repeat("\"", size) // is not shorter encoded
			config.Requests[get].Header = []http1.Field{{Name: "a", Value: value}}
			c := newClient(t, config)
			l := listen(t, c)
			l.hear(settings(settingMaxFrameSize, uint32(most)))
			wiretest.Take(c)
			d := hpack.NewDecoder(defaultTableSize, nil)
			for id := range uint32(2) {
				begin(t, c, id, get)
				output := wiretest.Take(c)
				var block []byte
				for first := true; len(output) > 0; first = false {
					f := parseFrame(output)
					rest := len(output) - frameHeader - f.length
					wantKind, wantFlags := uint8(frameContinuation), uint8(0)
					if first {
						wantKind, wantFlags = frameHeaders, flagEndStream
					}
					if rest == 0 {
						wantFlags |= flagEndHeaders
					} else if f.length != most {
						t.Fatalf("a frame of %d bytes, and more to come", f.length)
					}
					if f.kind != wantKind || f.flags != wantFlags || f.number != 2*id+1 || f.length > most {
						t.Fatalf("frame %+v", f)
					}
					block = append(block, output[frameHeader:frameHeader+f.length]...)
					output = output[frameHeader+f.length:]
				}
				lines := decodeRequest(t, d, block)
				if !slices.Contains(lines, "a: "+value) || len(lines) != 6 {
					t.Errorf("%d fields", len(lines))
				}
			}
		}
	}
}

// When the peer gets more window.
func TestWindowUpdates(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings Settings
		length   int // content-length; 0 for none
		frames   []int
		want     []string
	}{
		{"at half", Settings{StreamWindow: 100, ConnectionWindow: 65535}, 0, []int{49, 1, 49, 1, 99},
			[]string{"WINDOW_UPDATE 1 50", "WINDOW_UPDATE 1 50", "WINDOW_UPDATE 1 99"}},
		{"at half, of the connection", Settings{StreamWindow: 65535, ConnectionWindow: 65535}, 0, []int{16384, 16383, 1, 5},
			[]string{"WINDOW_UPDATE 0 32768", "WINDOW_UPDATE 1 32768"}},
		{"not for what does not come", Settings{StreamWindow: 100, ConnectionWindow: 65535}, 150, []int{40, 40, 70},
			[]string{"WINDOW_UPDATE 1 80"}},
		{"not for what fits", Settings{StreamWindow: 100, ConnectionWindow: 65535}, 100, []int{60, 40}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := testConfig()
			config.Settings = tt.settings
			c := ready(t, config)
			l := listen(t, c)
			header := []string{":status", "200"}
			if tt.length > 0 {
				header = append(header, "content-length", fmt.Sprint(tt.length))
			}
			l.hear(headers(1, 0, header...))
			for _, n := range tt.frames {
				l.hear(data(1, 0, strings.Repeat("x", n)))
			}
			expect(t, describeFrames(t, wiretest.Take(c)), tt.want...)
		})
	}
}

// The peer may use its windows up, and not a byte more.
func TestWindowsHold(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings Settings
		frames   [][]byte
		want     string
	}{
		{"stream", Settings{StreamWindow: 100, ConnectionWindow: 65535}, [][]byte{data(1, flagPadded, "\x31"+strings.Repeat("x", 99))}, ""},
		{"beyond the stream's", Settings{StreamWindow: 100, ConnectionWindow: 65535}, [][]byte{data(1, 0, strings.Repeat("x", 101))}, "failed 0 " + ErrStreamExceeded.Error()},
		{"beyond the stream's, by padding", Settings{StreamWindow: 100, ConnectionWindow: 65535}, [][]byte{data(1, flagPadded, "\x64"+strings.Repeat("x", 100))}, "failed 0 " + ErrStreamExceeded.Error()},
		{"connection", Settings{StreamWindow: 1 << 20, ConnectionWindow: 65535}, slices.Repeat([][]byte{data(1, 0, strings.Repeat("x", 13107))}, 5), ""},
		{"beyond the connection's", Settings{StreamWindow: 1 << 20, ConnectionWindow: 65535},
			append(slices.Repeat([][]byte{data(1, 0, strings.Repeat("x", 13107))}, 5), data(1, 0, "x")), "error " + ErrWindowExceeded.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := testConfig()
			config.Settings = tt.settings
			c := ready(t, config)
			c.t.threshold = [2]int64{maxWindow + 1, maxWindow + 1} // the peer is never told of more
			l := listen(t, c)
			l.hear(open)
			l.hear(join(tt.frames...))
			want := []string{"head 0 200"}
			if tt.want != "" {
				want = append(want, tt.want)
			}
			expect(t, l.lines, want...)
			if strings.HasPrefix(tt.want, "error") {
				expect(t, describeFrames(t, wiretest.Take(c)), "GOAWAY 0 FLOW_CONTROL_ERROR")
			} else if tt.want != "" {
				expect(t, describeFrames(t, wiretest.Take(c)), "RST_STREAM 1 FLOW_CONTROL_ERROR")
			}
		})
	}
}

// Without Content, only the events that count come, and one for a response in one piece.
func TestCountedOnly(t *testing.T) {
	config := testConfig()
	config.Content = false
	c := ready(t, config)
	response := join(headers(1, 0, ":status", "404", "a", "x"), data(1, endStream, "hello"))
	var e wire.MuxEvent
	n, err := c.Input(response, &e)
	if n != len(response) || e.Kind != wire.MuxEnded || e.ID != 0 || e.Status != 404 || e.Bytes != 5 || e.Data != nil || e.Err == nil || e.Err.Kind != wire.Status || err != nil {
		t.Errorf("%d, %+v, %v", n, e, err)
	}
	if f := c.Fields(); len(f) != 1 || string(f[0].Value) != "x" {
		t.Errorf("fields %v", f)
	}
	l := listen(t, c)
	l.hear(join(headers(3, 0, ":status", "200"), headers(5, 0, ":status", "200"), data(5, 0, "hello"), headers(5, endStream, "b", "y")))
	expect(t, l.lines, "head 1 200", "head 2 200", `end 2 200 "" trailers b=y`)
}

// Fields that are only counted are counted for each request.
func TestCountedOnlyByRequest(t *testing.T) {
	config := testConfig()
	config.Requests[get].CountOnly = true
	c := newClient(t, config)
	listen(t, c).hear(settings())
	for id, request := range []int{get, post, get} {
		begin(t, c, uint32(id), request)
	}
	wiretest.Take(c)
	var heard []string
	for in := join(headers(1, 0, ":status", "200"), headers(3, 0, ":status", "200"), data(3, 0, "be"), data(1, 0, "abc"), data(1, endStream, "de"), data(3, endStream, "gin"),
		headers(5, 0, ":status", "200"), data(5, endStream, "x")); ; {
		var e wire.MuxEvent
		n, err := c.Input(in, &e)
		if err != nil {
			t.Fatal(err)
		}
		in = in[n:]
		switch e.Kind {
		case wire.MuxNothing:
			if len(in) > 0 {
				continue
			}
			expect(t, heard, `1: "be" of 2`, `0: "" of 5`, `1: "gin" of 5`, `2: "" of 1`)
			return
		case wire.MuxData, wire.MuxEnded:
			heard = append(heard, fmt.Sprintf("%d: %q of %d", e.ID, e.Data, e.Bytes))
		}
	}
}

// Accept says what is a success; the fields that were asked for are those, each time
// they occur.
func TestAcceptAndFields(t *testing.T) {
	config := testConfig()
	config.Accept = func(status int) bool { return status == 404 }
	config.Fields = []string{"set-cookie", "content-length", "grpc-status"}
	c := ready(t, config)
	l := listen(t, c)
	l.hear(join(
		headers(1, 0, ":status", "404", "set-cookie", "a=b", "x", "y", "set-cookie", "c=d", "content-length", "0"), headers(1, endStream, "grpc-status", "5", "date", "z"),
		headers(5, endStream, ":status", "200", "grpc-status", "0"),
	))
	expect(t, l.lines, "head 0 404 set-cookie=a=b set-cookie=c=d content-length=0", `end 0 404 "" trailers grpc-status=5`,
		"head 2 200 grpc-status=0", `end 2 200 "" status: status 200`)
	expect(t, describeFrames(t, wiretest.Take(c)), "RST_STREAM 5 NO_ERROR")
}

// A PING of ours is answered by one, which is no waste of the peer's; a bounded number are
// unanswered, and none is sent once the connection has ended.
func TestPing(t *testing.T) {
	c := newClient(t, testConfig())
	l := listen(t, c)
	wiretest.Take(c)
	l.hear(settings())
	wiretest.Take(c)
	answer := raw(framePing, flagAck, 0, pingData)
	for range 2 * maxUseless {
		if !c.Ping() {
			t.Fatal("no ping")
		}
		if got := string(wiretest.Take(c)); got != "\x00\x00\x08\x06\x00\x00\x00\x00\x00dynoping" {
			t.Fatalf("%q", got)
		}
		for _, b := range answer { // byte by byte
			l.hear([]byte{b})
		}
	}
	if c.useless > 1 || c.pings != 0 || l.err != nil {
		t.Errorf("%d frames count as useless, %d pings as unanswered, %v", c.useless, c.pings, l.err)
	}
	l.hear(answer) // of nothing
	l.hear(raw(framePing, flagAck, 0, "another!"))
	if c.useless < 2 || c.pings != 0 {
		t.Errorf("%d frames count as useless, %d pings as unanswered", c.useless, c.pings)
	}
	for n := range maxPings + 2 {
		if got := c.Ping(); got != (n < maxPings) {
			t.Errorf("ping %d: %v", n, got)
		}
	}
	wiretest.Take(c)
	c.pings = 0
	c.End()
	if c.Ping() {
		t.Error("a ping on a connection that has ended")
	}
}

// Why a server of gRPC has had enough is in its GOAWAY's debug data, however it is cut.
func TestTooManyPings(t *testing.T) {
	for debug, want := range map[string]string{
		"too_many_pings, really": "ENHANCE_YOUR_CALM, too_many_pings",
		"too_many_pin":           "ENHANCE_YOUR_CALM",
		"":                       "ENHANCE_YOUR_CALM",
	} {
		frame := raw(frameGoAway, 0, 0, word(5)+word(uint32(EnhanceYourCalm))+debug)
		for cut := range len(frame) {
			l := listen(t, newClient(t, testConfig()))
			l.hear(settings())
			l.hear(frame, cut)
			expect(t, l.lines, "goaway reset: connection ended by the peer (GOAWAY): "+want)
		}
	}
}
