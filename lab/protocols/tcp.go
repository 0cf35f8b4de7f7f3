package protocols

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/tcp"
)

// tcpCodecs makes clients that send a message and await as many bytes, a line, or what a length
// says.
func tcpCodecs(ctx context.Context, v *plan.Variant, seed uint64, _ int) (c Codecs, err error) {
	if v.Load.Scenario != nil {
		if err = ready(ctx, v, &c, tcpScript); err != nil {
			return c, err
		}
		var all []tcp.Message
		for _, o := range c.Scenario.Outlines() {
			all = append(all, tcp.Message{Text: []byte(o.Body), Varies: o.VariesBody})
		}
		c.Clients, err = messages(v, all)
		return c, err
	}
	switch size := v.Load.Payload; v.Load.Framing {
	case plan.FramingLine: // whose end is one byte of the payload
		c.Clients, err = messages(v, []tcp.Message{{Text: bytes.Repeat([]byte("x"), max(0, size-1))}})
	case plan.FramingLength:
		c.Clients, err = messages(v, []tcp.Message{{Text: make([]byte, size)}})
	default:
		c.Clients, err = perWorker(alike(tcp.EchoConfig{Size: size, Seed: seed}), tcp.NewEcho, func(t *tcp.EchoTemplate) wire.Client { return t.Client() })
	}
	return c, err
}

// messages makes what sends messages in the plan's framing.
func messages(v *plan.Variant, all []tcp.Message) (func(worker int) func() wire.Client, error) {
	config := tcp.MessagesConfig{Framing: framings[v.Load.Framing], Messages: all}
	return perWorker(alike(config), tcp.NewMessages, func(t *tcp.MessagesTemplate) wire.Client { return t.Client() })
}

var framings = map[string]tcp.Framing{plan.FramingEcho: tcp.Same, plan.FramingLine: tcp.Lines, plan.FramingLength: tcp.Length}

// tcpScript says what a scenario's users do over TCP: they send messages, and check the answers.
func tcpScript(_ context.Context, v *plan.Variant, _ bool) (script, error) {
	return messageScript(framings[v.Load.Framing].Check), nil
}

// messageScript says what users do who send messages that pass a check, and see the answers.
func messageScript(check func(message []byte) error) script {
	return script{
		by: scenario.Protocol{BodyOnly: true},
		step: func(st *scenario.Step, content string) (scenario.StepRequest, error) {
			return scenario.StepRequest{Body: content, Encode: func(pieces ...[]byte) (scenario.Encoder, error) {
				return &messageEncoder{check, st.Encoding, pieces}, nil
			}}, nil
		},
	}
}

// A messageEncoder makes a message: it decodes the text, and checks what comes of it.
type messageEncoder struct {
	check    func([]byte) error
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
	if e.encoding == plan.EncodingBase64 || e.encoding == plan.EncodingHex {
		begin += size
	}
	text := append(dst[:begin], e.pieces[0]...)
	for i, part := range parts {
		text = append(append(text, part...), e.pieces[i+1]...)
	}
	text = text[begin:]
	n, err := len(text), error(nil)
	switch e.encoding {
	case plan.EncodingBase64:
		if n, err = base64.StdEncoding.Decode(dst[start:begin], text); err != nil {
			return dst[:start], fmt.Errorf("it is no base64: %w", err)
		}
	case plan.EncodingHex:
		if n, err = hex.Decode(dst[start:begin], text); err != nil {
			return dst[:start], fmt.Errorf("it is not hexadecimal: %w", err)
		}
	}
	if err := e.check(dst[start : start+n]); err != nil {
		return dst[:start], err
	}
	return dst[:start+n], nil
}
