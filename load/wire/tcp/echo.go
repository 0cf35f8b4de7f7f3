package tcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"dyno/load/wire"
)

// MaxEchoSize is the largest payload of an echo: 16 MiB.
const MaxEchoSize = 16 << 20

// EchoConfig asks for messages of a fixed size that must come back as they are.
type EchoConfig struct {
	Size int    // bytes of each message
	Seed uint64 // of the messages' bytes: the same seed sends the same messages
}

// An EchoTemplate holds the bytes of all messages. They are windows of one block:
//
//	block:     word 0 | random | word 1 | random | word 2 | …
//	message 0: ^^^^^^^^^ Size bytes ^^^^^^^^
//	message 1:                   ^^^^^^^^^ Size bytes ^^^^^^^^
//
// Word i is the number i, 8 bytes, big-endian. So a message starts with its sequence number. Its
// bytes differ from those in the same place of any other message. Thus messages are distinguishable, and lie still while
// under way. Connections need no copies, even 20,000 of them with messages of 16 MiB. After 32,768
// messages the sequence starts again; no worker has as many connections. (Messages of fewer than 8
// bytes have the last bytes of the number.)
type EchoTemplate struct {
	size  int
	block []byte
	next  int // the sequence number of the next message, whichever connection sends it
}

const (
	echoMessages = 1 << 15
	echoStride   = 16 // bytes from one message's start to the next one's
)

// NewEcho returns a template for echo clients. It takes 512 KiB and a message's
// size.
func NewEcho(c EchoConfig) (*EchoTemplate, error) {
	if c.Size < 1 || c.Size > MaxEchoSize {
		return nil, fmt.Errorf("tcp: echo size %d: want 1 to %d bytes", c.Size, MaxEchoSize)
	}
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], c.Seed)
	block := make([]byte, echoMessages*echoStride+c.Size)
	_, _ = rand.NewChaCha8(seed).Read(block) // never fails
	for at := 0; at+8 <= len(block); at += echoStride {
		binary.BigEndian.PutUint64(block[at:], uint64(at/echoStride))
	}
	return &EchoTemplate{size: c.Size, block: block}, nil
}

// Client returns a new client, ready for a connection.
func (t *EchoTemplate) Client() *Echo { return &Echo{t: t} }

// message returns the next message.
func (t *EchoTemplate) message() []byte {
	start := t.next * echoStride
	if t.size < 8 {
		start += 8 - t.size
	}
	t.next = (t.next + 1) % echoMessages
	return t.block[start : start+t.size : start+t.size]
}

// An Echo is one connection's side of an echo.
type Echo struct {
	exchange
	t       *EchoTemplate
	message []byte
	differs bool
}

var _ wire.Client = (*Echo)(nil)

// Request starts the next exchange with a message of its own.
func (c *Echo) Request() []byte {
	c.begin()
	c.differs = false
	c.message = c.t.message()
	return c.message
}

// Response compares the bytes that arrived with those sent; see wire.Client. An
// echo that differs is still awaited in full, so that the connection can go on.
func (c *Echo) Response(p []byte) (n int, done bool, err error) {
	if !c.pending {
		return c.idle(p)
	}
	rest := c.message[c.got:]
	n = min(len(p), len(rest))
	if !bytes.Equal(p[:n], rest[:n]) {
		c.differs = true
	}
	c.got += int64(n)
	switch {
	case n < len(rest):
		return n, false, nil
	case c.differs:
		return c.finish(n, len(p), ErrEcho)
	default:
		return c.finish(n, len(p), nil)
	}
}
