package websocket

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"dyno/load/wire/http1"
)

// TestAutobahn has Autobahn's fuzzing server at DYNO_AUTOBAHN try all its cases: messages of the server are sent back.
// The server judges each case, and bench/websocket-autobahn.sh reads what it says.
func TestAutobahn(t *testing.T) {
	address := os.Getenv("DYNO_AUTOBAHN")
	if address == "" {
		t.Skip("DYNO_AUTOBAHN is not set: bench/websocket-autobahn.sh sets it")
	}
	cases := 0
	converse(t, address, "/getCaseCount", func(_ *conn, got piece) {
		var err error
		if cases, err = strconv.Atoi(string(got.data)); err != nil {
			t.Error(err)
		}
	})
	for n := 1; n <= cases; n++ {
		converse(t, address, fmt.Sprintf("/runCase?case=%d&agent=dyno", n), func(c *conn, got piece) { c.send(got.op, got.data) })
	}
	converse(t, address, "/updateReports?agent=dyno", func(*conn, piece) {})
}

// converse opens a connection, and has each message taken until the connection ends.
func converse(t *testing.T, address, target string, take func(*conn, piece)) {
	t.Helper()
	shared, err := newShared(Dial{Request: http1.Request{Target: target, Host: address}, Compress: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	c := conn{s: shared}
	c.reset()
	c.dial(0, nil)
	tcp, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if err := tcp.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	for buffer, ended := make([]byte, 64<<10), false; ; {
		n, err := tcp.Write(c.Output())
		if c.Wrote(n); err != nil || ended {
			return
		}
		if n, err = tcp.Read(buffer); err != nil {
			return
		}
		for p := buffer[:n]; ; {
			used, got, found, err := c.next(p)
			if p = p[used:]; err != nil {
				ended = true // as soon as the server knows why
			}
			if !found {
				break
			}
			take(&c, got)
		}
	}
}
