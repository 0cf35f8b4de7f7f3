package tlslayer

import (
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

// outcome describes the client's state, data and error.
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
