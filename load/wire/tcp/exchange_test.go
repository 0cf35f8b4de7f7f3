package tcp

import (
	"bytes"
	"errors"
	"testing"

	"dyno/load/wire"
)

type clientTest struct {
	name   string
	client wire.Client
	answer []byte // nil: the request
}

func clientTests(tb testing.TB) []clientTest {
	tb.Helper()
	return []clientTest{
		{"echo-8", newEcho(tb, 8), nil},
		{"echo-1KiB", newEcho(tb, 1<<10), nil},
		{"echo-64KiB", newEcho(tb, 64<<10), nil},
		{"same", newMessages(tb, Same, Message{Text: []byte("ping")}), []byte("ping")},
		{"lines", newMessages(tb, Lines, Message{Text: []byte("PING")}), []byte("+PONG\r\n")},
		{"lengths", newMessages(tb, Length, Message{Text: []byte("hello")}), []byte("\x00\x00\x00\x05HELLO")},
	}
}

func exchangeOnce(tb testing.TB, c wire.Client, answer []byte) {
	request := c.Request()
	if answer == nil {
		answer = request
	}
	if n, done, err := c.Response(answer); n != len(answer) || !done || err != nil || !c.Reusable() {
		tb.Fatalf("used %d of %d, done %v, err %v, reusable %v", n, len(answer), done, err, c.Reusable())
	}
}

// No client takes bytes while none are due, and each works again after a reset.
func TestUnsolicited(t *testing.T) {
	for _, tt := range clientTests(t) {
		name := tt.name
		c := tt.client
		if c.Reusable() {
			t.Errorf("%s: reusable before the first exchange", name)
		}
		if n, done, err := c.Response([]byte("x")); n != 0 || done || !errors.Is(err, ErrUnsolicited) {
			t.Errorf("%s: before the first request: %d, %v, %v", name, n, done, err)
		}
		exchangeOnce(t, c, tt.answer)
		if n, done, err := c.Response(nil); n != 0 || done || err != nil || !c.Reusable() {
			t.Errorf("%s: no bytes while idle: %d, %v, %v", name, n, done, err)
		}
		if n, done, err := c.Response([]byte("x")); n != 0 || done || !errors.Is(err, ErrUnsolicited) || c.Reusable() {
			t.Errorf("%s: bytes while idle: %d, %v, %v", name, n, done, err)
		}
		c.Reset()
		exchangeOnce(t, c, tt.answer)

		long := tt.answer
		if request := c.Request(); long == nil {
			long = request
		}
		long = append(bytes.Clone(long), 'x')
		if n, done, err := c.Response(long); n != len(long)-1 || !done || err != nil || c.Reusable() {
			t.Errorf("%s: a byte too many: %d of %d, %v, %v, reusable %v", name, n, len(long), done, err, c.Reusable())
		}
		c.Reset()

		answer := tt.answer
		if request := c.Request(); answer == nil {
			answer = bytes.Clone(request)
		}
		if _, done, err := c.Response(answer[:1]); done || err != nil || c.Reusable() {
			t.Errorf("%s: midway: done %v, %v, reusable %v", name, done, err, c.Reusable())
		}
		c.Reset()
		exchangeOnce(t, c, tt.answer)
	}
}
