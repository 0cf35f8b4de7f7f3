package plan

import (
	"dyno/internal/fields"
	"dyno/load/scenario"
)

// TCP is the protocol of messages over a bare connection.
const TCP = "tcp"

var tcpProtocol = protocol{
	name: TCP, title: "TCP", validator: TCPLoad{},
	groups: []string{Loaded, exchanges, scripted, messages, asScheme},
}

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

// validate judges a scenario: the tags say all of a message that is repeated.
func (TCPLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	if v.Load.Scenario == nil {
		return
	}
	if v.Load.Payload != DefaultVariant(TCP).Load.Payload {
		i.fault("load.payload", "payload and scenario exclude each other", "give each step its message")
	}
	i.scenario(v)
	v.Load.Scenario.EachStep(func(at string, st *scenario.Step) {
		if v.Load.Framing == FramingEcho && st.Message == "" && st.MessageFile == "" {
			i.fault(fields.Join("load.scenario", at)+".message", "is missing", "as many bytes are awaited as are sent")
		}
	})
}

// How a step's message is written.
const (
	EncodingText   = "text"
	EncodingBase64 = "base64"
	EncodingHex    = "hex"
)
