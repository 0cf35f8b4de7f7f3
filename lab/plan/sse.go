package plan

import (
	"fmt"
	"strings"

	"dyno/internal/nearest"
	"dyno/load/scenario"
)

// SSE is the protocol of server-sent events, over HTTP/1.1.
const SSE = "sse"

var sseProtocol = protocol{
	name: SSE, title: "SSE", validator: SSELoad{},
	groups: []string{Loaded, withURL},
}

// An SSELoad is what a load has for server-sent events.
type SSELoad struct {
	Subscribers *Subscribers `yaml:"subscribers" default:"; {} of sse" doc:"the connections that ask for events and stay; without publish, the target has events of its own"`
	Publish     *Publish     `yaml:"publish" doc:"the request, or the message over WebSocket, that publishes an event, repeated as closed or open says"`
}

// Subscribers are connections that each ask for events and stay. All are opened before
// the warm-up begins, as far as that goes.
type Subscribers struct {
	Connections   int               `yaml:"connections,required,zero" range:"1..1000000" doc:"how many"`
	Ramp          float64           `yaml:"ramp" kind:"rate" range:"0.001..10000000" otherwise:"as fast as the target accepts them" flag:"ramp" doc:"subscribers opened per second, such as 1000/s"`
	Topics        int               `yaml:"topics" range:"1..1000000" default:"1" flag:"topics" doc:"topics that subscribers are spread over, one each; its number, from 0, stands for {topic} in the URL"`
	Headers       []scenario.Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of each request, in this order"`
	Message       string            `yaml:"message" for:"ws" kind:"word" flag:"subscribe" doc:"a message that each sends once it is connected; {topic} in it is the number of its topic"`
	Resume        bool              `yaml:"resume" for:"sse" default:"true" flag:"resume" doc:"who comes back names the last event it has seen, by Last-Event-ID"`
	GapEvent      string            `yaml:"gap_event" for:"sse" default:"gap" flag:"gap-event" doc:"the type of an event by which the target says that events are missing"`
	ReceiveBuffer int               `yaml:"receive_buffer" kind:"size" range:"1..1GiB" otherwise:"the kernel's" flag:"receive-buffer" doc:"SO_RCVBUF of subscribers, such as 16KiB"`
	Slow          *Slow             `yaml:"slow" doc:"some of them read slowly; what they miss is counted apart"`
}

// Slow are some of the subscribers, those with the lowest numbers, which read slowly.
type Slow struct {
	Connections int `yaml:"connections,required" range:"0..1000000" flag:"slow" doc:"how many of the subscribers read slowly"`
	Rate        int `yaml:"rate" kind:"size" range:"0..1GiB" default:"0" flag:"slow-rate" doc:"bytes per second that each of those reads; 0: nothing at all"`
}

// A Publish is the request, or the message over WebSocket, by which an event is published. The event's data begins with its publisher,
// its number and when it was due. By these subscribers know the delay and what is missing.
type Publish struct {
	Path    string            `yaml:"path" flag:"publish" doc:"path and query of the POST request that publishes an event; {topic} is the number of a topic, of which each publisher takes one after the other"`
	Message string            `yaml:"message,orfile" for:"ws" kind:"word" flag:"publish-message" doc:"in place of path: the message by which a publisher, on a WebSocket connection of its own, publishes an event; {data} in it is the event's data, and {topic} the number of a topic. It is published once it is written, or, with {id} in it, once a message with that text has come"`
	Size    int               `yaml:"size" kind:"size" range:"50..1MiB" default:"100" flag:"size" doc:"bytes of an event's data, with who published it, its number and when it was due at the beginning"`
	Form    string            `yaml:"form" oneof:"raw mercure" default:"raw" flag:"form" doc:"how an event is published; raw: the data is the content; mercure: form fields topic and data"`
	Topic   string            `yaml:"topic" flag:"topic" doc:"of the form mercure: the topic's name, with {topic} for its number"`
	Headers []scenario.Header `yaml:"headers" names:"token" doc:"header fields of each request, in this order"`
}

// How an event is written into the request that publishes it.
const (
	FormRaw     = "raw"     // the data is the request's content
	FormMercure = "mercure" // form fields topic and data, as the Mercure protocol has them
)

// What stands for a topic's number, and in a message for an event's data.
const (
	TopicMark = "{topic}"
	DataMark  = "{data}"
)

// validate judges subscribers and what is published to them.
func (SSELoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.tls(&v.Target)
	i.eventStreams(&v.Load, len(v.Target.Start) > 0)
}

// eventStreams judges a load of subscribers.
func (i *inspector) eventStreams(l *Load, started bool) {
	if s := l.Subscribers; s == nil || s.Connections == 0 {
		i.fault("load.subscribers", "is missing", "such as subscribers: {connections: 1000}")
	} else {
		i.subscribers(s, started)
	}
	if l.Reconnect.MinBackoff > l.Reconnect.MaxBackoff {
		i.fault("load.reconnect.min_backoff", fmt.Sprintf("%v is more than the longest, %v", l.Reconnect.MinBackoff, l.Reconnect.MaxBackoff), "lower it, or raise max_backoff")
	}
	if l.Publish != nil {
		i.publish(l.Publish, started)
		return
	}
	if l.Closed != nil || l.Open != nil {
		i.fault("load.publish", "is missing", "what closed or open repeat, such as publish: {path: /publish}; without it, leave them out")
	}
}

func (i *inspector) subscribers(s *Subscribers, started bool) {
	const path = "load.subscribers"
	i.headers(path, s.Headers, started)
	if s.Slow != nil && s.Slow.Connections > s.Connections {
		i.fault(path+".slow.connections", fmt.Sprintf("%d of %d subscribers", s.Slow.Connections, s.Connections), "at most all of them")
	}
}

// publishByMessage judges a message that publishes over WebSocket.
func (i *inspector) publishByMessage(p *Publish, started bool) {
	const path = "load.publish"
	if p.Path != "" || p.Form != FormRaw || p.Topic != "" || len(p.Headers) > 0 {
		i.fault(path+".message", "a request (path, form, topic, headers) and message exclude each other", "keep one of them; load.websocket.headers are those of the handshake")
	}
	if n := strings.Count(p.Message, DataMark); n != 1 {
		i.fault(path+".message", fmt.Sprintf("{data} stands in it %d times", n), `want it once, where the event's data goes, such as '{"data":"{data}"}'`)
	}
	if !started {
		i.ownPorts(path+".message", p.Message)
	}
}

func (i *inspector) publish(p *Publish, started bool) {
	const path = "load.publish"
	if p.Message != "" {
		i.publishByMessage(p, started)
		return
	}
	if p.Path == "" {
		i.fault(path+".path", "is missing", "such as /publish?topic={topic}; over WebSocket, a message can publish instead")
	}
	if p.Path != "" && p.Path[0] != '/' || strings.ContainsFunc(i.sent(p.Path), notInTarget) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", nearest.Clip(p.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
	}
	if !started {
		i.ownPorts(path+".path", p.Path)
	}
	i.headers(path, p.Headers, started)
	switch {
	case p.Form == FormMercure && p.Topic == "":
		i.fault(path+".topic", "is missing", "such as http://example.com/{topic}")
	case p.Form == FormMercure && strings.Contains(p.Path, TopicMark):
		i.fault(path+".path", "{topic} is not replaced in it", "the form mercure names the topic in the content: see topic")
	case p.Form != FormMercure && p.Topic != "":
		i.fault(path+".topic", "is only for the form mercure", "a raw publication names its topic in the path")
	}
}
