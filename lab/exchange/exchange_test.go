package exchange

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Messages come as they were sent, with what follows one; a line that is too long ends the exchange.
func TestLine(t *testing.T) {
	var text strings.Builder
	to := New(strings.NewReader(""), &text, 10)
	if err := errors.Join(to.Send("a"), to.Send("b", []byte("rest")...)); err != nil {
		t.Fatal(err)
	}
	from := New(strings.NewReader(text.String()), io.Discard, 10)
	var first, second string
	if err := errors.Join(from.Receive(&first), from.Receive(&second)); err != nil || first != "a" || second != "b" {
		t.Errorf("%q, %q, %v", first, second, err)
	}
	if rest, err := io.ReadAll(from); err != nil || string(rest) != "rest" {
		t.Errorf("%q, %v", rest, err)
	}
	long := New(strings.NewReader(strings.Repeat("x", 10_000)+"\n"), io.Discard, 10)
	if err := long.Receive(&first); err == nil || err.Error() != "a line longer than 10 bytes" {
		t.Error(err)
	}
}

// A peer with heartbeats is not lost. A silent one is, after the allowed time.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		from, to := New(r, io.Discard, 10), New(strings.NewReader(""), w, 10)
		from.Watch(4*time.Second, func() { _ = w.Close() })
		to.Beat(3*time.Second, 1)
		begin := time.Now()
		time.AfterFunc(10*time.Second, to.Close)
		n, err := 0, error(nil)
		for ; err == nil; n++ {
			var beat int
			err = from.Receive(&beat)
		}
		if n != 4 || err.Error() != "it was silent for 4s" || time.Since(begin) != 13*time.Second {
			t.Errorf("%d messages, %v after %v", n-1, err, time.Since(begin))
		}
		from.Close()
	})
}
