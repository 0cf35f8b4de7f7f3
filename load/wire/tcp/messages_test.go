package tcp

import (
	"errors"
	"strings"
	"testing"

	"dyno/load/wire"
)

func newMessages(t testing.TB, f Framing, messages ...Message) *Messages {
	t.Helper()
	template, err := NewMessages(MessagesConfig{Framing: f, Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	return template.Client()
}

// delivered gives a client bytes, cut into pieces of a size, as the engine does, and
// returns the content.
func delivered(c *Messages, p []byte, piece int) (content []byte, done bool, err error) {
	for len(p) > 0 && !done && err == nil {
		part := p[:min(piece, len(p))]
		p = p[len(part):]
		for {
			var n, size int
			n, size, done, err = c.Content(part)
			part = part[n:]
			if size == 0 {
				break
			}
			content = append(content, part[:size]...)
			c.Take(size)
			part = part[size:]
		}
	}
	return content, done, err
}

// Each framing sends what it adds to a message, and delivers what is answered without it.
func TestMessages(t *testing.T) {
	varies := Message{Varies: true}
	for _, tt := range []struct {
		name    string
		framing Framing
		request int
		parts   []string
		sent    string
		answer  string
		want    string
		err     error
		done    bool
	}{
		{"same", Same, 0, nil, "ping", "ping", "ping", nil, true},
		{"same, another", Same, 0, nil, "ping", "pong", "pong", ErrEcho, true},
		{"same, varies", Same, 1, []string{"a\nb"}, "a\nb", "a\nb", "a\nb", nil, true},
		{"same, cut short", Same, 0, nil, "ping", "pin", "pin", nil, false},
		{"line", Lines, 0, nil, "ping\n", "pong 4567\n", "pong 4567", nil, true},
		{"line, empty", Lines, 0, nil, "ping\n", "\n", "", nil, true},
		{"line, cut short", Lines, 0, nil, "ping\n", "pong", "pong", nil, false},
		{"line, varies", Lines, 1, []string{"x"}, "x\n", "\r\n", "\r", nil, true},
		{"length", Length, 0, nil, "\x00\x00\x00\x04ping", "\x00\x00\x00\x05a\nb\nc", "a\nb\nc", nil, true},
		{"length, empty", Length, 1, []string{""}, "\x00\x00\x00\x00", "\x00\x00\x00\x00", "", nil, true},
		{"length, cut short", Length, 0, nil, "\x00\x00\x00\x04ping", "\x00\x00\x01\x05a", "a", nil, false},
		{"length, too long", Length, 0, nil, "\x00\x00\x00\x04ping", "\x01\x00\x00\x01a", "", ErrTooLong, false},
	} {
		for _, piece := range []int{1, 3, 100} {
			c := newMessages(t, tt.framing, Message{Text: []byte("ping")}, varies)
			for range 2 {
				var parts [][]byte
				for _, p := range tt.parts {
					parts = append(parts, []byte(p))
				}
				if got := string(c.Compose(tt.request, parts)); got != tt.sent {
					t.Errorf("%s: %q is sent, want %q", tt.name, got, tt.sent)
				}
				got, done, err := delivered(c, []byte(tt.answer), piece)
				if failed := !errors.Is(err, tt.err) || err == nil && tt.err != nil; failed || done != tt.done {
					t.Errorf("%s, in pieces of %d: done %v, %v", tt.name, piece, done, err)
				}
				if (err == nil || done) && string(got) != tt.want {
					t.Errorf("%s, in pieces of %d: %q, want %q", tt.name, piece, got, tt.want)
				}
				if c.Reusable() != tt.done {
					t.Errorf("%s: reusable %v", tt.name, c.Reusable())
				}
				c.Reset()
			}
		}
	}
}

// An answer that is not asked to be delivered is taken in all the same.
func TestMessagesResponse(t *testing.T) {
	c := newMessages(t, Length, Message{Text: []byte("x")})
	c.Request()
	if n, done, err := c.Response([]byte("\x00\x00\x00\x02abX")); n != 6 || !done || err != nil || c.Reusable() {
		t.Errorf("%d, %v, %v, reusable %v", n, done, err, c.Reusable())
	}
	if n, _, err := c.Response([]byte("X")); n != 0 || !errors.Is(err, ErrUnsolicited) {
		t.Errorf("%d, %v", n, err)
	}
	c.Request()
	_, _, _ = c.Response([]byte{0})
	if err := c.End(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	c.Request()
	if err := c.End(); !errors.Is(err, ErrClosedEarly) {
		t.Error(err)
	}
	c = newMessages(t, Lines, Message{Text: []byte("x")})
	c.Request()
	c.Take(MaxPayload - 4) // of a line that has come so far
	if _, done, err := c.Response([]byte("12345\n")); done || !errors.Is(err, ErrLineTooLong) {
		t.Errorf("%v, %v", done, err)
	}
}

func TestMessagesValidate(t *testing.T) {
	for want, c := range map[string]MessagesConfig{
		"no message":   {},
		"line feed":    {Framing: Lines, Messages: []Message{{Text: []byte("a\nb")}}},
		"it is empty":  {Messages: []Message{{}}},
		"as it varies": {Messages: []Message{{Text: []byte("x"), Varies: true}}},
		"too large":    {Framing: Length, Messages: []Message{{Text: make([]byte, MaxPayload+1)}}},
	} {
		if _, err := NewMessages(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// However the bytes arrive, the same content is delivered, and no more than arrived is used.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab"), uint8(2), uint8(1))
	f.Add([]byte("ab\ncd"), uint8(1), uint8(2))
	f.Add([]byte("ping"), uint8(0), uint8(3))
	f.Fuzz(func(t *testing.T, p []byte, framing, piece uint8) {
		of := func(piece int) (string, bool, error) {
			c := newMessages(t, Framing(framing%3), Message{Text: []byte("ping")})
			c.Request()
			content, done, err := delivered(c, p, piece)
			return string(content), done, err
		}
		whole, done, err := of(len(p) + 1)
		got, cutDone, cutErr := of(int(piece)%7 + 1)
		if done != cutDone || wire.KindOf(err) != wire.KindOf(cutErr) || done && got != whole {
			t.Errorf("%q: %q, %v, %v; in pieces %q, %v, %v", p, whole, done, err, got, cutDone, cutErr)
		}
	})
}
