package experiment

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"dyno/load/scenario"

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

// judge judges a scenario: the tags say all of a message that is repeated.
func (TCPLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	if v.Load.Scenario == nil {
		return
	}
	if v.Load.Payload != DefaultVariant(TCP).Load.Payload {
		i.fault("load.payload", "payload and scenario exclude each other", "give each step its message")
	}
	i.scenario(v, nil)
	v.Load.Scenario.eachStep(func(at string, st *Step) {
		if v.Load.Framing == FramingEcho && st.Message == "" && st.MessageFile == "" {
			i.fault(join("load.scenario", at)+".message", "is missing", "as many bytes are awaited as are sent")
		}
	})
}

// codecs makes clients that send a message and await as many bytes, a line, or what a length
// says.
func (TCPLoad) codecs(v *Variant, seed uint64, _ int) (c Codecs, err error) {
	if v.Load.Scenario != nil {
		if err = v.ready(&c); err != nil {
			return c, err
		}
		var messages []tcp.Message
		for _, o := range c.Scenario.Outlines() {
			messages = append(messages, tcp.Message{Text: []byte(o.Body), Varies: o.VariesBody})
		}
		config := tcp.DefaultMessages(framings[v.Load.Framing], messages)
		c.Clients, err = perWorker(alike(config), tcp.NewMessages, func(t *tcp.MessagesTemplate) wire.Client { return t.Client() })
		return c, err
	}
	switch size := v.Load.Payload; v.Load.Framing {
	case FramingLine: // whose end is one byte of the payload
		line := tcp.DefaultLine(strings.Repeat("x", max(0, size-1)))
		line.Limit = tcp.MaxLineBytes // an answer is counted, and not held
		c.Clients, err = perWorker(alike(line), tcp.NewLine, func(t *tcp.LineTemplate) wire.Client { return t.Client() })
	case FramingLength:
		prefixed := tcp.DefaultPrefixed(make([]byte, size))
		c.Clients, err = perWorker(alike(prefixed), tcp.NewPrefixed, func(t *tcp.PrefixedTemplate) wire.Client { return t.Client() })
	default:
		c.Clients, err = perWorker(alike(tcp.EchoConfig{Size: size, Seed: seed}), tcp.NewEcho, func(t *tcp.EchoTemplate) wire.Client { return t.Client() })
	}
	return c, err
}

var framings = map[string]tcp.Framing{FramingEcho: tcp.Same, FramingLine: tcp.Lines, FramingLength: tcp.Length}

// How a step's message is written.
const (
	EncodingText   = "text"
	EncodingBase64 = "base64"
	EncodingHex    = "hex"
)

// script says what a scenario's users do over TCP: they send messages, and look at what is
// answered.
func (TCPLoad) script(v *Variant, _ bool) (script, error) {
	framing := framings[v.Load.Framing]
	return script{
		spec: scenario.Spec{BodyOnly: true},
		step: func(st *Step, body string, to *scenario.Step) error {
			to.Body = body
			to.Encode = func(pieces ...[]byte) (scenario.Encoder, error) {
				return &messageEncoder{framing, st.Encoding, pieces}, nil
			}
			return nil
		},
	}, nil
}

// A messageEncoder makes a message of TCP: it decodes what is written, and holds it against what
// the framing allows.
type messageEncoder struct {
	framing  tcp.Framing
	encoding string
	pieces   [][]byte
}

// Append appends a message; see scenario.Encoder.
func (e *messageEncoder) Append(dst []byte, parts [][]byte) ([]byte, error) {
	start := len(dst)
	size := len(e.pieces[0])
	for i, part := range parts {
		size += len(part) + len(e.pieces[i+1])
	}
	// The decoded text is no longer than its encoding.
	dst = slices.Grow(dst, 2*size)
	begin := start
	if e.encoding == EncodingBase64 || e.encoding == EncodingHex {
		begin += size
	}
	text := append(dst[:begin], e.pieces[0]...)
	for i, part := range parts {
		text = append(append(text, part...), e.pieces[i+1]...)
	}
	text = text[begin:]
	n, err := len(text), error(nil)
	switch e.encoding {
	case EncodingBase64:
		if n, err = base64.StdEncoding.Decode(dst[start:begin], text); err != nil {
			return dst[:start], fmt.Errorf("it is no base64: %w", err)
		}
	case EncodingHex:
		if n, err = hex.Decode(dst[start:begin], text); err != nil {
			return dst[:start], fmt.Errorf("it is not hexadecimal: %w", err)
		}
	}
	if err := e.framing.Check(dst[start : start+n]); err != nil {
		return dst[:start], err
	}
	return dst[:start+n], nil
}
