package echo

import (
	"errors"
	"net"
	"testing"

	"github.com/gorilla/websocket"
)

// TestWebSocket: messages come back as they were, one that is too long ends its connection, and the end of the service
// closes the others.
func TestWebSocket(t *testing.T) {
	s, stop := start(t, func(c *Config) { c.HTTP, c.MaxBodyBytes = "127.0.0.1:0", 100 })
	open := func() *websocket.Conn {
		t.Helper()
		c, answer, err := websocket.DefaultDialer.Dial("ws://"+s.HTTPAddr().String()+"/any", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	closed := func(c *websocket.Conn, code int) {
		t.Helper()
		_, _, err := c.ReadMessage()
		if why := (*websocket.CloseError)(nil); !errors.As(err, &why) || why.Code != code {
			t.Errorf("%v, want code %d", err, code)
		}
	}
	stays, long, silent := open(), open(), open()
	for kind, message := range map[int]string{websocket.TextMessage: "text", websocket.BinaryMessage: "\xff"} {
		if err := stays.WriteMessage(kind, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if got, answer, err := stays.ReadMessage(); got != kind || string(answer) != message || err != nil {
			t.Errorf("%d %q, %v", got, answer, err)
		}
	}
	if err := long.WriteMessage(websocket.BinaryMessage, make([]byte, 101)); err != nil {
		t.Fatal(err)
	}
	closed(long, websocket.CloseMessageTooBig)
	go func() { _ = silent.NetConn().(*net.TCPConn).CloseWrite() }()
	if _, _, err := silent.ReadMessage(); err == nil {
		t.Error("a client that has gone gets a message")
	}
	ended := make(chan struct{})
	go func() { defer close(ended); stop() }()
	closed(stays, websocket.CloseGoingAway)
	<-ended
}
