package reactor

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/services/echo/rpc/contract"
	"dyno/services/echo/rpc/go/program"
)

func TestMain(m *testing.M) { leak.Main(m) }

// serve runs a server until the test ends.
func serve(t *testing.T, loops int) (address string) {
	t.Helper()
	s, err := New(Config{Loops: loops, Options: program.Options{Listeners: 1, MaxMessage: 4<<20 + 64, Middleware: 1}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve([]net.Listener{l}) }()
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		s.Drain(ctx)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return address
}

// The contract holds in this process, too, where the race detector sees the loops.
func TestContract(t *testing.T) { contract.Test(t, serve(t, 3), contract.NoReflection) }

// A client that is no client of HTTP/2 is told so, and its connection ends.
func TestOtherProtocols(t *testing.T) {
	address := serve(t, 1)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", contract.Preface + "\x00\x00\x00\x06\x00\x00\x00\x00\x00"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		// To the end, in order or by a reset.
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the connection does not end", text)
		}
		c.Close()
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []Config{
		{Loops: 0, Options: program.Options{Listeners: 1}},
		{Loops: 2000, Options: program.Options{Listeners: 1}},
		{Loops: 2, Options: program.Options{Listeners: 3}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%d loops and %d listeners are no fault", c.Loops, c.Listeners)
		}
	}
}
