package experiment

import (
	"strings"

	"dyno/load/wire"
	"dyno/load/wire/tcp"
)

// TCP is the protocol of messages over a bare connection.
const TCP = "tcp"

// A TCPLoad is what a load has for TCP.
type TCPLoad struct {
	Payload int    `yaml:"payload" kind:"size" range:"1..64MiB" default:"64" flag:"payload" doc:"bytes of a message, such as 512 or 1KiB"`
	Framing string `yaml:"framing" oneof:"echo line length-prefixed" default:"echo" flag:"framing" doc:"where a response ends; echo: after as many bytes as were sent; line: with a line feed; length-prefixed: as four bytes before it say"`
}

// The framings of a TCP exchange.
const (
	FramingEcho   = "echo"            // as many bytes back as were sent
	FramingLine   = "line"            // up to and with a line feed
	FramingLength = "length-prefixed" // a four-byte big-endian length, then that many bytes
)

// judge has nothing to add to the tags.
func (TCPLoad) judge(*inspector, *Experiment, *Variant) {}

// codecs makes clients that send a message and await as many bytes, a line, or what a length
// says.
func (TCPLoad) codecs(v *Variant, seed uint64, _ int) (c Codecs, err error) {
	switch size := v.Load.Payload; v.Load.Framing {
	case FramingLine: // whose end is one byte of the payload
		line := tcp.DefaultLine(strings.Repeat("x", max(0, size-1)))
		c.Clients, err = perWorker(alike(line), tcp.NewLine, func(t *tcp.LineTemplate) wire.Client { return t.Client() })
	case FramingLength:
		prefixed := tcp.DefaultPrefixed(make([]byte, size))
		c.Clients, err = perWorker(alike(prefixed), tcp.NewPrefixed, func(t *tcp.PrefixedTemplate) wire.Client { return t.Client() })
	default:
		c.Clients, err = perWorker(alike(tcp.EchoConfig{Size: size, Seed: seed}), tcp.NewEcho, func(t *tcp.EchoTemplate) wire.Client { return t.Client() })
	}
	return c, err
}
