package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/wiretest"
)

// A peer is a server's side of a connection, as bytes.
type peer struct {
	t *testing.T
	m wire.Mux
}

// pushed returns how many messages answered nothing.
func (p *peer) pushed() int64 { return p.m.(interface{ Pushed() int64 }).Pushed() }

func newTemplate(t *testing.T, c Config) *Template {
	t.Helper()
	c.Request = http1.Request{Target: "/chat", Host: "example.com"}
	template, err := NewTemplate(c)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

var keyPattern = regexp.MustCompile("(?m)^Sec-WebSocket-Key: (.*)\r$")

// connect opens a connection. more are further fields of the response.
func connect(t *testing.T, template *Template, more string) *peer {
	t.Helper()
	p := &peer{t, template.Mux()}
	p.m.Reset()
	p.accept(more)
	if p.m.Free() != template.config.Exchanges {
		t.Fatalf("%d messages may be sent", p.m.Free())
	}
	return p
}

// accept answers the handshake that the mux has sent, and returns its request and the events.
func (p *peer) accept(more string) (request string, events []wire.MuxEvent) {
	p.t.Helper()
	sent := wiretest.Take(p.m)
	key := keyPattern.FindSubmatch(sent)
	if key == nil {
		p.t.Fatalf("%q", sent)
	}
	answer := acceptOf(key[1])
	return string(sent), p.feed("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + string(answer[:]) + "\r\n" + more + "\r\n")
}

// feed gives the mux bytes that must not fail, and returns what it has found.
func (p *peer) feed(stream string) (events []wire.MuxEvent) {
	p.t.Helper()
	events, err := p.try(stream)
	if err != nil {
		p.t.Fatalf("%.40q: %v", stream, err)
	}
	return events
}

func (p *peer) try(stream string) (events []wire.MuxEvent, err error) {
	for rest := []byte(stream); ; {
		var e wire.MuxEvent
		n, err := p.m.Input(rest, &e)
		if err != nil {
			return events, err
		}
		rest = rest[n:]
		if e.Kind == wire.MuxNothing {
			if len(rest) > 0 {
				p.t.Fatalf("%d bytes are left", len(rest))
			}
			return events, nil
		}
		e.Data = bytes.Clone(e.Data)
		events = append(events, e)
	}
}

// sent returns the frames that the mux sends, unmasked: their first byte in two digits, and their payload.
func (p *peer) sent() (frames []string) {
	p.t.Helper()
	for b := wiretest.Take(p.m); len(b) > 0; {
		if b[1]&bitMasked == 0 {
			p.t.Fatalf("a frame without a mask: % x", b)
		}
		size, at := int(b[1]&0x7f), 2
		switch size {
		case 126:
			size, at = int(binary.BigEndian.Uint16(b[2:])), 4
		case 127:
			size, at = int(binary.BigEndian.Uint64(b[2:])), 10
		}
		payload := bytes.Clone(b[at+4:][:size])
		mask(payload, binary.LittleEndian.Uint32(b[at:]))
		frames = append(frames, fmt.Sprintf("%x:%s", b[0], payload))
		b = b[at+4+size:]
	}
	return frames
}

func (p *peer) begin(id uint32, request int, parts ...[]byte) string {
	p.t.Helper()
	if err := p.m.Begin(id, request, parts); err != nil {
		p.t.Fatal(err)
	}
	frames := p.sent()
	if len(frames) != 1 {
		p.t.Fatalf("sent %q", frames)
	}
	return frames[0]
}

// TestExample is the example of RFC 6455, sections 1.3 and 4.1.
func TestExample(t *testing.T) {
	if got := acceptOf([]byte("dGhlIHNhbXBsZSBub25jZQ==")); string(got[:]) != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("%s", got)
	}
	c := Config{Dial: Dial{Request: http1.Request{Target: "/chat", Host: "server.example.com", Header: []http1.Field{{Name: "Origin", Value: "http://example.com"}}}, Subprotocols: []string{"chat", "superchat"}, Compress: true}}
	template, err := NewTemplate(c)
	if err != nil {
		t.Fatal(err)
	}
	m := template.Mux()
	m.Reset()
	want := "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUser-Agent: dyno\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://example.com\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover; server_no_context_takeover\r\nSec-WebSocket-Protocol: chat, superchat\r\nSec-WebSocket-Key: " + string(m.key[:]) + "\r\n\r\n"
	if got := string(wiretest.Take(m)); got != want {
		t.Errorf("%q\n%q", got, want)
	}
	first := m.key
	m.Reset()
	if m.key == first {
		t.Error("two connections have one key")
	}
}

// TestHandshake: each rule of section 4.1 for the response, and of RFC 7692, section 7.1.
func TestHandshake(t *testing.T) {
	const good = "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n"
	for _, tt := range []struct {
		name, status, fields string
		want                 error
		text                 string
	}{
		{name: "as it should be", fields: good},
		{name: "a subprotocol", fields: good + "Sec-WebSocket-Protocol: b\r\n"},
		{name: "compression", fields: good + "Sec-WebSocket-Extensions: permessage-deflate\r\n"},
		{name: "compression with parameters", fields: good + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; server_max_window_bits=\"12\"\r\n"},
		{name: "no upgrade", fields: strings.Replace(good, "Upgrade: WebSocket", "Upgrade: h2c", 1), want: ErrNotUpgraded},
		{name: "no connection", fields: strings.Replace(good, "keep-alive, upgrade", "close", 1), want: ErrNotSwitched},
		{name: "no accept", fields: strings.Replace(good, "Sec-WebSocket-Accept", "Accept", 1), want: ErrAccept},
		{name: "another key's accept", fields: strings.Replace(good, "ACCEPT", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 1), want: ErrAccept},
		{name: "two accepts", fields: good + "Sec-WebSocket-Accept: ACCEPT\r\n", want: ErrAccept},
		{name: "another subprotocol", fields: good + "Sec-WebSocket-Protocol: c\r\n", want: ErrSubprotocol},
		{name: "two subprotocols", fields: good + "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n", want: ErrSubprotocol},
		{name: "another extension", fields: good + "Sec-WebSocket-Extensions: x-webkit-deflate-frame\r\n", want: ErrExtension},
		{name: "an extension twice", fields: good + "Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate\r\n", want: ErrExtension},
		{name: "an unknown parameter", fields: good + "Sec-WebSocket-Extensions: permessage-deflate; x\r\n", want: ErrParameter},
		{name: "a parameter that was not offered", fields: good + "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=12\r\n", want: ErrParameter},
		{name: "a parameter twice", fields: good + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; server_no_context_takeover\r\n", want: ErrParameter},
		{name: "a window of 16 bits", fields: good + "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=16\r\n", want: ErrParameter},
		{name: "refused", status: "403 Forbidden", fields: "Content-Length: 0\r\n", text: "status: the server answered the handshake by status 403"},
		{name: "not found, with a reason", status: "404 Not Found", fields: "Content-Length: 18\r\n\r\n{\"message\":\"no x\"}", text: "status: the server answered the handshake by status 404: no x"},
		{name: "an ordinary page", status: "200 OK", fields: "Content-Length: 0\r\n", text: "status: the server answered the handshake by status 200"},
	} {
		template := newTemplate(t, Config{Dial: Dial{Subprotocols: []string{"a", "b"}, Compress: true}})
		p := &peer{t, template.Mux()}
		p.m.Reset()
		accept := acceptOf(p.m.(*Mux).key[:])
		status := tt.status
		if status == "" {
			status = "101 Switching Protocols"
		}
		response := "HTTP/1.1 " + status + "\r\n" + strings.ReplaceAll(tt.fields, "ACCEPT", string(accept[:])) + "\r\n"
		if strings.Contains(tt.fields, "\r\n\r\n") {
			response = strings.TrimSuffix(response, "\r\n")
		}
		var err error
		for i := 0; i < len(response) && err == nil; i++ { // byte by byte
			_, err = p.try(response[i : i+1])
		}
		if tt.text != "" {
			if err == nil || err.Error() != tt.text {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.text)
			}
			continue
		}
		if !errors.Is(err, tt.want) || (err == nil) != (p.m.Free() == 1) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestInOrder: answers belong to messages in their order, with others that come first or in between.
func TestInOrder(t *testing.T) {
	p := connect(t, newTemplate(t, Config{Messages: []Message{{Text: []byte("ask")}, {Text: []byte("\xff\x00"), Binary: true}}, Exchanges: 3, Dial: Dial{Greetings: 1}}), "")
	if got := p.begin(2, 0); got != "81:ask" {
		t.Error(got)
	}
	if got := p.begin(0, 1); got != "82:\xff\x00" {
		t.Error(got)
	}
	if p.m.Free() != 1 {
		t.Error(p.m.Free())
	}
	events := p.feed(frame(0x81, "welcome") + frame(0x01, "on") + frame(0x89, "are you there?") + frame(0x80, "e") + frame(0x82, "two") + frame(0x81, "nobody asked"))
	want := []wire.MuxEvent{{Kind: wire.MuxEnded, Status: wire.NoStatus, ID: 2, Bytes: 3}, {Kind: wire.MuxEnded, Status: wire.NoStatus, ID: 0, Bytes: 3}}
	if fmt.Sprintf("%+v", events) != fmt.Sprintf("%+v", want) || p.pushed() != 1 || p.m.Free() != 3 {
		t.Errorf("%+v, %d pushed, %d free", events, p.pushed(), p.m.Free())
	}
	if got := p.sent(); !slices.Equal(got, []string{"8a:are you there?"}) {
		t.Errorf("%q", got)
	}
}

// TestCancel: the answer of a message that was given up is nobody's.
func TestCancel(t *testing.T) {
	p := connect(t, newTemplate(t, Config{Messages: []Message{{Text: []byte("m")}}, Exchanges: 2}), "")
	p.begin(0, 0)
	p.begin(1, 0)
	p.m.Cancel(0)
	p.m.Cancel(0)
	p.begin(0, 0)
	events := p.feed(frame(0x81, "late") + frame(0x81, "b") + frame(0x81, "c"))
	if len(events) != 2 || events[0].ID != 1 || events[1].ID != 0 || p.m.(*Mux).late != 0 {
		t.Errorf("%+v", events)
	}
	for range maxLate {
		p.begin(0, 0)
		p.m.Cancel(0)
	}
	if p.m.Free() != 0 {
		t.Error("it waits for any number of late answers")
	}
}

// TestByID: answers find their message by its id, in any order, and among messages of others.
func TestByID(t *testing.T) {
	template := newTemplate(t, Config{Messages: []Message{{Text: []byte(`{"id":"{id}","x":1}`), ByID: true}, {Text: []byte("{id} and {id}"), ByID: true}}, Exchanges: 2})
	p, other := connect(t, template, ""), connect(t, template, "")
	first, second, third := p.begin(0, 0)[3:], p.begin(1, 1)[3:], other.begin(0, 0)[3:]
	id, _, _ := strings.Cut(second, " ")
	if len(id) != idSize || second != id+" and "+id || strings.Contains(first, id) || first == third {
		t.Fatalf("%q, %q, %q", first, second, third)
	}
	events := p.feed(frame(0x81, "news") + frame(0x81, third) + frame(0x81, "re: "+id) + frame(0x01, first[:10]) + frame(0x80, first[10:]) + frame(0x81, first))
	if len(events) != 2 || events[0].ID != 1 || events[1].ID != 0 || p.pushed() != 3 {
		t.Errorf("%+v, %d pushed", events, p.pushed())
	}
	again := p.begin(0, 0)[3:]
	p.m.Cancel(0)
	p.begin(0, 0)
	if events := p.feed(frame(0x81, again)); len(events) != 0 {
		t.Errorf("a late answer is taken for another's: %+v", events)
	}
}

// TestPayload: made up messages differ, and so must not their answers.
func TestPayload(t *testing.T) {
	for _, size := range []int{0, 1, 64, 1 << 16} {
		p := connect(t, newTemplate(t, Config{Payload: size, Exchanges: 2}), "")
		one, two := p.begin(0, 0)[3:], p.begin(1, 0)[3:]
		if len(one) != size || size > 3 && one == two {
			t.Fatalf("%d bytes: %.9q, %.9q", size, one, two)
		}
		events := p.feed(frame(0x01, one[:size/2]) + frame(0x80, one[size/2:]) + frame(0x81, two+"x"))
		if len(events) != 2 || events[0].Err != nil || !errors.Is(events[1].Err, ErrEcho) || events[1].Bytes != int64(size)+1 {
			t.Errorf("%d bytes: %+v", size, events)
		}
		if size > 3 {
			p.begin(0, 0)
			if events := p.feed(frame(0x81, two)); len(events) != 1 || !errors.Is(events[0].Err, ErrEcho) {
				t.Errorf("%d bytes: %+v", size, events)
			}
		}
	}
}

// TestCompression: messages are compressed in both directions, each by itself or with what came before it.
func TestCompression(t *testing.T) {
	text := strings.Repeat("so much the same ", 50)
	for _, fields := range []string{"permessage-deflate; server_no_context_takeover", "permessage-deflate"} {
		p := started(t, newSessions(t, Dial{Compress: true}, Step{Text: []byte(text)}), "Sec-WebSocket-Extensions: "+fields+"\r\n")
		var d deflater
		for range 3 {
			got, ok := strings.CutPrefix(p.begin(0, 0), "c1:")
			plain, err := d.decompress([]byte(got), nil, MaxMessage)
			if !ok || err != nil || string(plain) != text || len(got) > len(text)/5 {
				t.Fatalf("%.40q: %.40q, %v", got, plain, err)
			}
			events := p.feed(frame(0x41, got[:5]) + frame(0x80, got[5:]))
			if len(events) != 1 || string(events[0].Data) != text || events[0].Bytes != int64(len(text)) {
				t.Errorf("%+v", events)
			}
		}
	}
	// RFC 7692, section 7.2.3.2: the second message refers to the first.
	p := started(t, newSessions(t, Dial{Compress: true}, Step{}), "Sec-WebSocket-Extensions: permessage-deflate\r\n")
	for _, message := range []string{"\xf2\x48\xcd\xc9\xc9\x07\x00", "\xf2\x00\x11\x00\x00"} {
		p.begin(0, 0)
		if events := p.feed(frame(0xc1, message)); len(events) != 1 || string(events[0].Data) != "Hello" {
			t.Errorf("%x: %+v", message, events)
		}
	}
	for _, tt := range []struct {
		message string
		most    int64
		want    error
	}{
		{"\xff\xff\xff", 0, ErrDeflate},
		{string((&deflater{}).compress([]byte(strings.Repeat("x", 1<<20)))), 1 << 19, ErrTooLarge},
		{string((&deflater{}).compress([]byte("\xff"))), 0, ErrUTF8},
	} {
		p := connect(t, newTemplate(t, Config{Dial: Dial{Compress: true, MaxMessage: tt.most}}), "Sec-WebSocket-Extensions: permessage-deflate\r\n")
		if _, err := p.try(frame(0xc1, tt.message)); !errors.Is(err, tt.want) {
			t.Errorf("%v: want %v", err, tt.want)
		}
	}
}

// TestWindow: a window has the last bytes, whatever the sizes of messages.
func TestWindow(t *testing.T) {
	var window, all []byte
	for n, size := range []int{10, windowSize - 5, 3, windowSize, 2 * windowSize, 100, 40_000} {
		message := bytes.Repeat([]byte{byte(n)}, size)
		window, all = slide(window, message), append(all, message...)
		if want := all[max(0, len(all)-windowSize):]; !bytes.Equal(window, want) {
			t.Errorf("after %d bytes: %d", size, len(window))
		}
	}
}

// TestClose: a server's close is answered, and says why (sections 5.5.1 and 7.4).
func TestClose(t *testing.T) {
	for _, tt := range []struct{ payload, answer, text string }{
		{"", "88:", "reset: the server closed the connection without a code"},
		{"\x03\xe8", "88:\x03\xe8", "reset: the server closed the connection by code 1000 (normal)"},
		{"\x03\xf0slow down", "88:\x03\xf0", "reset: the server closed the connection by code 1008 (policy violation): slow down"},
		{"\x0f\xa0", "88:\x0f\xa0", "reset: the server closed the connection by code 4000"},
		{"x", "88:\x03\xea", ErrCloseSize.Error()},
		{"\x03\xe7", "88:\x03\xea", ErrCloseCode.Error()},
		{"\x03\xed", "88:\x03\xea", ErrCloseCode.Error()},
		{"\x03\xf7", "88:\x03\xea", ErrCloseCode.Error()},
		{"\x13\x88", "88:\x03\xea", ErrCloseCode.Error()},
		{"\x03\xe8\xff", "88:\x03\xef", ErrCloseReason.Error()},
	} {
		p := connect(t, newTemplate(t, Config{Exchanges: 3}), "")
		p.begin(1, 0)
		_, err := p.try(frame(0x88, tt.payload))
		if err == nil || err.Error() != tt.text {
			t.Errorf("%q: %v, want %s", tt.payload, err, tt.text)
		}
		if got := p.sent(); !slices.Equal(got, []string{tt.answer}) || p.m.Free() != 0 {
			t.Errorf("%q: %q, want %q", tt.payload, got, tt.answer)
		}
		if e := p.m.End(); e.Kind != wire.MuxFailed || e.ID != 1 || !errors.Is(e.Err, ErrClosed) {
			t.Errorf("%+v", e)
		}
		if e := p.m.End(); e.Kind != wire.MuxNothing {
			t.Errorf("%+v", e)
		}
	}
	p := connect(t, newTemplate(t, Config{}), "")
	p.m.(wire.Closer).Close()
	p.m.(wire.Closer).Close()
	if got := p.sent(); !slices.Equal(got, []string{"88:\x03\xe8"}) {
		t.Errorf("%q", got)
	}
	if _, err := p.try(frame(0x88, "\x03\xe8")); err == nil || len(p.sent()) > 0 {
		t.Errorf("%v: the answer to a close is answered", err)
	}
}

// TestWhy: the server learns which rule it has broken (section 7.4.1).
func TestWhy(t *testing.T) {
	for stream, code := range map[string]string{
		frame(0x81, "\xff"):            "\x03\xef",
		frame(0x82, "xx"):              "\x03\xf1",
		frame(0x83, ""):                "\x03\xea",
		frame(0x01, "") + frame(1, ""): "\x03\xea",
	} {
		p := connect(t, newTemplate(t, Config{Dial: Dial{MaxMessage: 1}}), "")
		if _, err := p.try(stream); err == nil {
			t.Errorf("%q: no error", stream)
		}
		if got := p.sent(); !slices.Equal(got, []string{"88:" + code}) {
			t.Errorf("%q: %q", stream, got)
		}
	}
}

// TestPings: pings are answered, also those in pieces, and a server that does not read the answers is left.
func TestPings(t *testing.T) {
	p := connect(t, newTemplate(t, Config{}), "")
	ping := frame(0x89, "0123456789")
	for cut := range len(ping) {
		p.feed(ping[:cut])
		p.feed(ping[cut:])
		if got := p.sent(); !slices.Equal(got, []string{"8a:0123456789"}) {
			t.Fatalf("cut at %d: %q", cut, got)
		}
	}
	for n := range maxPings + 1 {
		if p.m.(wire.Pinger).Ping() != (n < maxPings) {
			t.Errorf("ping %d", n)
		}
	}
	p.feed(frame(0x8a, ""))
	if !p.m.(wire.Pinger).Ping() {
		t.Error("a pong has come, and there is no other ping")
	}
	_, err := p.try(strings.Repeat(frame(0x89, strings.Repeat("x", 125)), 1000))
	if !errors.Is(err, ErrFlood) {
		t.Errorf("%v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{Messages: []Message{{Text: []byte("\xff")}}}, "message 1: is not UTF-8: send it as binary"},
		{Config{Messages: []Message{{Text: []byte("x"), ByID: true}}}, "message 1: has no {id}, by which its answer could be found"},
		{Config{Messages: []Message{{Text: []byte("x")}, {Text: []byte("{id}"), ByID: true}}}, "message 2: want {id} in all messages or in none"},
		{Config{Payload: MaxMessage + 1}, "payload of 16777217 bytes: want 0 to 16777216"},
		{Config{Exchanges: maxExchanges + 1}, "65537 messages at once: want 1 to 65536"},
	} {
		tt.config.Request = http1.Request{Target: "/", Host: "h"}
		if _, err := NewTemplate(tt.config); err == nil || err.Error() != "websocket: "+tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
