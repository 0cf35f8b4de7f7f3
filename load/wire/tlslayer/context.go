package tlslayer

import (
	"crypto/tls"
	"fmt"
	"time"

	"dyno/load/wire"
)

// maxFailures bounds the errors that a context keeps to return the same pointer for the
// same text. Texts may hold names that the peer chose.
const maxFailures = 64

// A Context makes connections to one server, and holds what they can share: one context
// per worker. It and its connections are for one goroutine at a time.
type Context struct {
	config   *tls.Config
	failed   uint64 // handshakes
	data     []byte // what Open returned last
	failures map[wire.Error]*wire.Error
}

// NewContext returns a context, or every fault of its configuration. It loads the
// system's certificate authorities if those are needed.
func NewContext(c Config) (*Context, error) {
	config, err := c.build(time.Now())
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return &Context{config: config, failures: map[wire.Error]*wire.Error{}}, nil
}

// Conn returns a new connection, ready for Start.
func (x *Context) Conn() *Conn { return &Conn{context: x} }

// Failed returns how many handshakes were ended by an error of the server's, or by its closing the
// connection.
func (x *Context) Failed() uint64 { return x.failed }

// failure returns the error of a kind and a text: the same one each time, within bounds.
func (x *Context) failure(kind wire.Kind, text string) *wire.Error {
	key := wire.Error{Kind: kind, Text: text}
	if e := x.failures[key]; e != nil {
		return e
	}
	if len(x.failures) < maxFailures {
		x.failures[key] = &key
	}
	return &key
}
