package plan

import (
	"fmt"
	"strings"

	"dyno/internal/fields"
	"dyno/load/scenario"
)

// WS is the protocol of WebSocket, over HTTP/1.1 or HTTP/2.
const WS = "ws"

var wsProtocol = protocol{
	name: WS, title: "WebSocket", validator: WSLoad{},
	groups:   []string{Loaded, withURL, exchanges, scripted, messages, statuses},
	over:     "WebSocket over ",
	statuses: func(text string) ([]scenario.StatusRange, error) { return scenario.ParseCodes(text, lastCloseCode) },
}

// lastCloseCode is the last code of a close frame (RFC 6455, section 7.4.2).
const lastCloseCode = 4999

// A WSLoad is what a load has for WebSocket.
type WSLoad struct {
	WebSocket *WebSocket `yaml:"websocket" default:"{}" doc:"how connections are opened, and the message that is repeated"`
}

// A WebSocket is how connections are opened, and the message that is repeated.
type WebSocket struct {
	Headers      []scenario.Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of the handshake, in this order"`
	HTTP2        bool              `yaml:"http2" flag:"http2" doc:"open connections over HTTP/2 (RFC 8441), each a WebSocket: with ws by prior knowledge, with wss if the server agrees"`
	Subprotocols []string          `yaml:"subprotocols" kind:"word" like:"token" most:"16" flag:"subprotocol" doc:"the subprotocols that are offered, in this order; the server may choose one"`
	Compress     bool              `yaml:"compress" flag:"compress" doc:"offer the server to compress messages (permessage-deflate)"`

	Payload     int    `yaml:"payload" kind:"size" range:"0..16MiB" default:"64" flag:"payload" doc:"bytes of the made up messages that are sent without message; each answer must be equal to its message"`
	Message     string `yaml:"message,orfile" kind:"word" flag:"message" doc:"the message; {id} in it is a text of its own each time, which the answer must repeat: answers may come in any order then, and others between them"`
	MessageFile string `yaml:"message_file" kind:"path" doc:"the file with the message, relative to this one, in place of message"`
	Binary      bool   `yaml:"binary" flag:"binary" doc:"send messages as binary, not as text"`

	InFlight int      `yaml:"in_flight" range:"1..65536" default:"1" flag:"in-flight" doc:"messages of a connection that may await their answers at once"`
	First    []string `yaml:"first" kind:"word" most:"16" flag:"first" doc:"messages that each connection sends before anything else, such as those of a login: each after the server has sent one message, which answers nothing else, to the one before"`
	Encoding string   `yaml:"encoding" oneof:"text base64 hex" default:"text" flag:"encoding" doc:"how the texts of messages are written, but for places such as {topic}; base64 and hex: what they stand for is sent as binary"`

	Greetings  int `yaml:"greetings" range:"0..1000" default:"0" flag:"greetings" doc:"messages that the server sends first on each connection, and that answer nothing"`
	MaxMessage int `yaml:"max_message" kind:"size" range:"1..1GiB" default:"16MiB" flag:"max-message" doc:"the largest message of the server; a larger one fails the connection"`
}

// validate judges how connections are opened, and what is sent on them.
func (WSLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.tls(&v.Target)
	w, started := v.Load.WebSocket, len(v.Target.Start) > 0
	const path = "load.websocket"
	i.handshake(path, w.Headers, started)
	if w.Message != "" && w.MessageFile != "" {
		i.fault(path+".message_file", "message and message_file exclude each other", "keep one of them")
	}
	given := w.Message != "" || w.MessageFile != ""
	if v.Load.Subscribers != nil {
		if given {
			i.fault(path+".message", "message and subscribers exclude each other", "what subscribers send is load.subscribers.message")
		}
		if p := v.Load.Publish; w.HTTP2 && p != nil && p.Path != "" {
			i.fault(path+".http2", "requests that publish are sent over HTTP/1.1", "publish by load.publish.message, or leave it out")
		}
		if w.InFlight > 1 {
			i.fault(path+".in_flight", "subscribers await no answers, and a publisher has one message at a time", "leave it out, or have more publishers")
		}
		i.eventStreams(&v.Load, started)
		return
	}
	if preset := DefaultVariant(WS).Load.WebSocket.Payload; given && w.Payload != preset {
		i.fault(path+".payload", fmt.Sprintf("message and payload exclude each other (it is %d without)", preset), "keep one of them")
	}
	if v.Load.Scenario != nil {
		if given {
			i.fault(path+".message", "message and scenario exclude each other", "give each step its message")
		}
		if w.InFlight > 1 {
			i.fault(path+".in_flight", "a user has one message at a time", "leave it out, or have more users")
		}
		if len(w.First) > 0 {
			i.fault(path+".first", "first and scenario exclude each other", "send them by steps, with once: true")
		}
		if w.Encoding != EncodingText {
			i.fault(path+".encoding", "encoding and scenario exclude each other", "give each step its encoding")
		}
		i.scenario(v)
		v.Load.Scenario.EachStep(func(at string, st *scenario.Step) {
			i.conversation(fields.Join("load.scenario", at), st, started)
		})
	}
	if !started {
		i.ownPorts(path+".message", w.Message)
	}
}

// handshake judges the header fields of a handshake.
func (i *inspector) handshake(path string, headers []scenario.Header, started bool) {
	i.headers(path, headers, started)
	for _, h := range headers {
		if name := strings.ToLower(h.Name); name == "connection" || name == "upgrade" || strings.HasPrefix(name, "sec-websocket-") {
			i.fault(path+".headers."+h.Name, "dyno sets it itself", "remove it")
		}
	}
}

// What steps await.
const (
	AwaitMessage = "message"
	AwaitNothing = "nothing"
	AwaitPong    = "pong"
	AwaitClose   = "close"
)

// conversation judges a step of users who each have a connection.
func (i *inspector) conversation(path string, st *scenario.Step, started bool) {
	field, _ := st.Content()
	sends := field != "body"
	looks := st.Until != nil || st.Count > 0 || st.Collect || len(st.Assert)+len(st.Extract) > 0
	exclude := func(name, other, hint string) {
		i.fault(path+"."+name, name+" and "+other+" exclude each other", hint)
	}
	i.handshake(path, st.Headers, started)
	switch {
	case st.Path == "" && len(st.Headers) > 0:
		i.fault(path+".headers", "only a step that opens a connection has some", "add path, or use load.websocket.headers")
	case st.Path != "" && (sends || st.Await != "" || st.Close > 0 || looks):
		i.fault(path+".path", "the step opens a connection, and does nothing else", "give what follows a step of its own")
	case st.Close > 0 && (sends || st.Await != ""):
		exclude("close", "message or await", "a step of its own closes the connection")
	case (st.Close > 0 || st.Await != "" && st.Await != AwaitMessage) && looks:
		i.fault(path, "there is no message that until, count, collect, assert or extract could look at", "leave them out, or await a message")
	case st.Status != "" && st.Path == "" && st.Close == 0 && st.Await != AwaitClose:
		i.fault(path+".status", "messages have none", "use assert; close, await: close and path have one")
	case st.Await == AwaitNothing && !sends:
		i.fault(path+".await", "the step neither sends nor waits for anything", "add message")
	case st.Await == AwaitClose && sends:
		exclude("await", "message", "send the message by a step before")
	}
	if st.Until != nil {
		i.assertion(path+".until", st.Until)
	}
}
