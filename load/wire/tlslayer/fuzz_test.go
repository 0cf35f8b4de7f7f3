package tlslayer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dyno/load/wire"
)

// check holds a client to what it promises, whatever it was given.
func (l *link) check(tb testing.TB) {
	tb.Helper()
	c := l.client
	if (l.err != nil) != (c.State() == Failed) {
		tb.Fatalf("error %v in state %v", l.err, c.State())
	}
	if size := len(c.transport.out); size > maxUnasked+1000 {
		tb.Fatalf("%d bytes to send", size)
	}
	state := c.State()
	err := c.End()
	if (err == nil) != (state == Ended) {
		tb.Fatalf("error %v at the end, in state %v", err, state)
	}
	if l.err != nil && !errors.Is(err, l.err) {
		tb.Fatalf("error %v, and %v at the end", l.err, err)
	}
	if err != nil {
		if k := wire.KindOf(err); k != wire.TLS && k != wire.Protocol && k != wire.Reset {
			tb.Fatalf("%v is of kind %v", err, k)
		}
		if len(err.Error()) > 600 {
			tb.Fatalf("an error of %d bytes: %v", len(err.Error()), err)
		}
	}
	c.Reset()
}

// outcome is what a client made of what it was given, in words.
func (l *link) outcome() string { return fmt.Sprintf("%v, %q, %v", l.client.State(), l.data, l.err) }

// FuzzAnswer answers a client hello with any bytes. Cut at any place, they have the same
// outcome.
func FuzzAnswer(f *testing.F) {
	for _, a := range badAnswers {
		f.Add([]byte(a.answer))
	}
	x := newContext(f, clientConfig(""))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var outcomes []string
		for _, piece := range []int{0, 1, 100} {
			l := &link{client: x.Conn(), piece: piece}
			must(l.client.Start(nil))
			l.toClient(answer)
			outcomes = append(outcomes, l.outcome())
			l.check(t)
		}
		if outcomes[0] != outcomes[1] || outcomes[0] != outcomes[2] {
			t.Fatalf("whole, in bytes, and in hundreds:\n%s", strings.Join(outcomes, "\n"))
		}
	})
}

// FuzzTampered changes bytes of what a server sends, in the handshake and after it.
// Whatever becomes of it, the client gets no data that the server did not send.
func FuzzTampered(f *testing.F) {
	f.Add(uint8(0), []byte{0, 0, 5, 1})
	f.Add(uint8(1), []byte{0, 0, 9, 0x80, 1, 1, 0, 0})
	f.Add(uint8(2), []byte{2, 2, 100, 22, 3, 0, 50, 9})
	f.Add(uint8(3), []byte{4, 3, 0, 200})
	contexts := []*Context{newContext(f, clientConfig("1.2")), newContext(f, clientConfig("1.3"))}
	f.Fuzz(func(t *testing.T, mode uint8, edits []byte) {
		l := newLink(t, contexts[mode%2], serverConfig())
		l.piece = int(mode>>1) % 128
		out := must(l.client.Start(nil))
		sent := 0
		for len(out) > 0 {
			_, _ = l.server.Open(out) // its error is for the client to find
			from := l.server.Flush(nil)
			tampered := tamper(from, edits, sent)
			sent += len(from)
			l.toClient(tampered)
			out = l.client.Flush(nil)
		}
		data := []byte(strings.Repeat("what the server says. ", 20))
		if l.server.State() == Established {
			from := must(l.server.Seal(nil, data[:100]))
			from = must(l.server.Seal(from, data[100:]))
			from = l.server.CloseNotify(from)
			l.toClient(tamper(from, edits, sent))
		}
		if !bytes.HasPrefix(data, l.data) {
			t.Fatalf("the client got %q", l.data)
		}
		l.check(t)
	})
}

// tamper makes the edits in a part of a stream that begins at an offset. Each is of four
// bytes: what to do, where (two bytes), and with what.
func tamper(p, edits []byte, offset int) []byte {
	p = bytes.Clone(p)
	for ; len(edits) >= 4; edits = edits[4:] {
		at := int(edits[1])<<8 | int(edits[2]) - offset
		if at < 0 || at >= len(p) {
			continue
		}
		value := edits[3]
		switch edits[0] % 5 {
		case 0:
			p[at] ^= value
		case 1:
			p = append(p[:at], p[min(len(p), at+int(value)):]...) // missing
		case 2:
			p = append(p[:at], append([]byte{value}, p[at:]...)...) // too much
		case 3:
			p = append(p[:at], append(bytes.Clone(p[at:min(len(p), at+int(value))]), p[at:]...)...) // twice
		case 4:
			p = p[:at] // cut off
		}
	}
	return p
}

// FuzzSession sends records of any type and content to a client after its handshake. Cut
// at any place, they have the same outcome.
func FuzzSession(f *testing.F) {
	f.Add(false, append([]byte{recordData, 3}, "abc"...))
	f.Add(false, []byte{recordHandshake, 4, 0, 0, 0, 0, recordAlert, 2, 1, 0})
	f.Add(true, append([]byte{recordHandshake, 5}, updateRequested...))
	f.Add(true, append([]byte{recordHandshake, 2, 24, 0, recordHandshake, 3, 0, 1, 0, recordData, 1}, 'x'))
	f.Add(true, []byte{recordHandshake, 18, 4, 0, 0, 14, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0})
	config := clientConfig("1.3")
	config.Tickets = true
	tls13, tls12 := newContext(f, config), newContext(f, clientConfig("1.2"))
	f.Fuzz(func(t *testing.T, new bool, records []byte) {
		var outcomes []string
		for _, piece := range []int{0, 1, 7} {
			x := tls12
			if new {
				x = tls13
				x.config.ClientSessionCache.Put("", nil)
			}
			l, s, _ := forgedOn(t, x, link{})
			l.piece = piece
			var stream []byte
			for rest := records; len(rest) >= 2; {
				kind, size := rest[0], min(int(rest[1]), len(rest)-2)
				stream = append(stream, s.record(kind, rest[2:2+size])...)
				rest = rest[2+size:]
			}
			l.toClient(stream)
			outcomes = append(outcomes, l.outcome())
			l.check(t)
		}
		if outcomes[0] != outcomes[1] || outcomes[0] != outcomes[2] {
			t.Fatalf("whole, in bytes, and in sevens:\n%s", strings.Join(outcomes, "\n"))
		}
	})
}
