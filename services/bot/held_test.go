package bot

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// A holder stands in for a model server that says one word and then nothing more. It takes hardly
// any memory for a stream, so that what a process holds is the gateway's.
type holder struct {
	net.Listener
	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func newHolder(t testing.TB) *holder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{Listener: l}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := bufio.NewReader(nil)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns = append(h.conns, c)
			h.mu.Unlock()
			in.Reset(c)
			r, err := http.ReadRequest(in)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%s", chunk("word"))
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
		h.drop()
	})
	return h
}

// drop cuts all answers.
func (h *holder) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.Close()
	}
	h.conns = nil
}

// send has an answer go on with a piece of a stream.
func (h *holder) send(i int, piece []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.conns[i].Write(piece)
	return err
}

// chunk is an event as a model server sends it, in one chunk.
func chunk(word string) []byte {
	event := `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + word + `"},"finish_reason":null}]}` + "\n\n"
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event)
}

// A rawClient takes hardly any memory for a stream.
type rawClient struct{ net.Conn }

// dialRaw asks over a connection of its own.
func dialRaw(t testing.TB, b *bed, path, body string) *rawClient {
	c, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, secretOf("key"), len(body), body); err != nil {
		t.Fatal(err)
	}
	return &rawClient{c}
}

// until reads up to a word, into memory that it is lent.
func (c *rawClient) until(word []byte, memory []byte) error {
	for n := 0; !bytes.Contains(memory[:n], word); {
		m, err := c.Read(memory[n:])
		if err != nil {
			return fmt.Errorf("%w after %q", err, memory[:n])
		}
		n += m
	}
	return nil
}

// held runs a gateway in front of a holder.
func held(t testing.TB) (*bed, *holder) {
	model := newHolder(t)
	return serving(t, newLLM(t, nil), func(c *Config) {
		c.Upstream.Upstreams = []upstream.Upstream{modelOf(model.Addr())}
		c.Keys, c.ChatDisconnect = []Key{keyOf("key", Limit{store.Requests, 1 << 40, time.Hour}, Limit{store.Money, 1 << 52, 0})}, Cancel
	}), model
}

// BenchmarkToken passes tokens on, one after another: with the system calls of a model server and of a client.
func BenchmarkToken(b *testing.B) {
	gateway, model := held(b)
	client := dialRaw(b, gateway, "/v1/chat/completions", `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	answer, word, piece := make([]byte, 4096), []byte("token"), chunk("token")
	if err := client.until([]byte("word"), answer); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := model.send(0, piece); err != nil {
			b.Fatal(err)
		}
		if err := client.until(word, answer); err != nil {
			b.Fatal(err)
		}
	}
}
