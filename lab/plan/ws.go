package plan

import (
	"fmt"
	"strings"

	"dyno/load/scenario"
)

// WS is the protocol of WebSocket, over HTTP/1.1.
const WS = "ws"

var wsProtocol = protocol{
	name: WS, title: "WebSocket", validator: WSLoad{},
	groups: []string{Loaded, withURL, exchanges, scripted, messages},
	over:   "WebSocket over ", muxed: "HTTP/1.1",
}

// A WSLoad is what a load has for WebSocket.
type WSLoad struct {
	WebSocket *WebSocket `yaml:"websocket" default:"{}" doc:"how connections are opened, and the message that is repeated"`
}

// A WebSocket is how connections are opened, and the message that is repeated.
type WebSocket struct {
	Headers      []scenario.Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of the handshake, in this order"`
	Subprotocols []string          `yaml:"subprotocols" kind:"word" like:"token" most:"16" flag:"subprotocol" doc:"the subprotocols that are offered, in this order; the server may choose one"`
	Compress     bool              `yaml:"compress" flag:"compress" doc:"offer the server to compress messages (permessage-deflate)"`

	Payload     int    `yaml:"payload" kind:"size" range:"0..16MiB" default:"64" flag:"payload" doc:"bytes of the made up messages that are sent without message; each answer must be equal to its message"`
	Message     string `yaml:"message,orfile" kind:"word" flag:"message" doc:"the message; {id} in it is a text of its own each time, which the answer must repeat: answers may come in any order then, and others between them"`
	MessageFile string `yaml:"message_file" kind:"path" doc:"the file with the message, relative to this one, in place of message"`
	Binary      bool   `yaml:"binary" flag:"binary" doc:"send messages as binary, not as text"`

	InFlight   int `yaml:"in_flight" range:"1..65536" default:"1" flag:"in-flight" doc:"messages of a connection that may await their answers at once"`
	Greetings  int `yaml:"greetings" range:"0..1000" default:"0" flag:"greetings" doc:"messages that the server sends first on each connection, and that answer nothing"`
	MaxMessage int `yaml:"max_message" kind:"size" range:"1..1GiB" default:"16MiB" flag:"max-message" doc:"the largest message of the server; a larger one fails the connection"`
}

// validate judges how connections are opened, and what is sent on them.
func (WSLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.tls(&v.Target)
	w, started := v.Load.WebSocket, len(v.Target.Start) > 0
	const path = "load.websocket"
	i.headers(path, w.Headers, started)
	for _, h := range w.Headers {
		if name := strings.ToLower(h.Name); name == "connection" || name == "upgrade" || strings.HasPrefix(name, "sec-websocket-") {
			i.fault(path+".headers."+h.Name, "dyno sets it itself", "remove it")
		}
	}
	if w.Message != "" && w.MessageFile != "" {
		i.fault(path+".message_file", "message and message_file exclude each other", "keep one of them")
	}
	given := w.Message != "" || w.MessageFile != ""
	if v.Load.Subscribers != nil {
		if given {
			i.fault(path+".message", "message and subscribers exclude each other", "what subscribers send is load.subscribers.message")
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
		i.scenario(v)
	}
	if !started {
		i.ownPorts(path+".message", w.Message)
	}
}
