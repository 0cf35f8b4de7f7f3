package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
)

// SSE is the protocol of server-sent events, over HTTP/1.1.
const SSE = "sse"

// An SSELoad is what a load has for server-sent events.
type SSELoad struct {
	Subscribers *Subscribers `yaml:"subscribers" default:"{}" doc:"the connections that ask for events and stay; without publish, the target has events of its own"`
	Publish     *Publish     `yaml:"publish" doc:"the request that publishes an event, repeated as closed or open says"`
}

// Subscribers are connections that each ask for events and stay. All are opened before
// the warm-up begins, as far as that goes.
type Subscribers struct {
	Connections   int      `yaml:"connections,required,zero" range:"1..1000000" doc:"how many"`
	Ramp          float64  `yaml:"ramp" kind:"rate" range:"0.001..10000000" otherwise:"as fast as the target accepts them" flag:"ramp" doc:"subscribers opened per second, such as 1000/s"`
	Topics        int      `yaml:"topics" range:"1..1000000" default:"1" flag:"topics" doc:"topics that subscribers are spread over, one each; its number, from 0, stands for {topic} in the URL"`
	Headers       []Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of each request, in this order"`
	Resume        bool     `yaml:"resume" default:"true" flag:"resume" doc:"who comes back names the last event it has seen, by Last-Event-ID"`
	GapEvent      string   `yaml:"gap_event" default:"gap" flag:"gap-event" doc:"the type of an event by which the target says that events are missing"`
	ReceiveBuffer int      `yaml:"receive_buffer" kind:"size" range:"1..1GiB" otherwise:"the kernel's" flag:"receive-buffer" doc:"SO_RCVBUF of subscribers, such as 16KiB"`
	Slow          *Slow    `yaml:"slow" doc:"some of them read slowly; what they miss is counted apart"`
}

// Slow are some of the subscribers, those with the lowest numbers, which read slowly.
type Slow struct {
	Connections int `yaml:"connections,required" range:"0..1000000" flag:"slow" doc:"how many of the subscribers read slowly"`
	Rate        int `yaml:"rate" kind:"size" range:"0..1GiB" default:"0" flag:"slow-rate" doc:"bytes per second that each of those reads; 0: nothing at all"`
}

// A Publish is the request by which an event is published. The event's data begins with
// who published it, its number and when it was due, by which subscribers know
// how long it took and what is missing.
type Publish struct {
	Path    string   `yaml:"path,required" flag:"publish" doc:"path and query of the request that publishes an event; {topic} is the number of a topic, of which each publisher takes one after the other"`
	Size    int      `yaml:"size" kind:"size" range:"50..1MiB" default:"100" flag:"size" doc:"bytes of an event's data, with who published it, its number and when it was due at the beginning"`
	Form    string   `yaml:"form" oneof:"raw mercure" default:"raw" flag:"form" doc:"how an event is published; raw: the data is the content; mercure: form fields topic and data"`
	Topic   string   `yaml:"topic" flag:"topic" doc:"of the form mercure: the topic's name, with {topic} for its number"`
	Headers []Header `yaml:"headers" names:"token" doc:"header fields of each request, in this order"`
}

// How an event is written into the request that publishes it.
const (
	FormRaw     = "raw"     // the data is the request's content
	FormMercure = "mercure" // form fields topic and data, as the Mercure protocol has them
)

// topicMark stands for a topic's number.
const topicMark = "{topic}"

// judge judges subscribers and what is published to them.
func (SSELoad) validate(i *inspector, _ *Experiment, v *Variant) {
	i.tls(&v.Target)
	l, started := &v.Load, len(v.Target.Start) > 0
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

func (i *inspector) publish(p *Publish, started bool) {
	const path = "load.publish"
	if p.Path != "" && p.Path[0] != '/' || strings.ContainsFunc(i.sent(p.Path), notInTarget) {
		i.fault(path+".path", fmt.Sprintf("%q cannot be sent", clip(p.Path)), "begin with /, and write blanks and non-ASCII letters as %20 and the like")
	}
	if !started {
		i.ownPorts(path+".path", p.Path)
	}
	i.headers(path, p.Headers, started)
	switch {
	case p.Form == FormMercure && p.Topic == "":
		i.fault(path+".topic", "is missing", "such as http://example.com/{topic}")
	case p.Form == FormMercure && strings.Contains(p.Path, topicMark):
		i.fault(path+".path", "{topic} is not replaced in it", "the form mercure names the topic in the content: see topic")
	case p.Form != FormMercure && p.Topic != "":
		i.fault(path+".topic", "is only for the form mercure", "a raw publication names its topic in the path")
	}
}

// codecs makes the subscribers' streams and, where something is published, publishers. With
// https, either speak HTTP/1.1 over TLS.
func (SSELoad) codecs(v *Variant, _ uint64, workers int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	if c.Streams, err = v.Load.Subscribers.streams(end, v.Load.http1Limits()); err == nil && v.Load.Publish != nil {
		c.Clients, err = v.Load.Publish.publishers(end, v.Load.http1Limits(), v.Load.Subscribers.Topics, workers)
	}
	if err == nil && end.Secure {
		c.TLS, err = v.Target.TLS.config(end, []string{"http/1.1"})
	}
	return c, err
}

// streams returns the maker of each worker's streams, which share what is asked of a topic.
func (s *Subscribers) streams(end http1.Endpoint, limits http1.Limits) (func(worker int) func(subscriber int) wire.Stream, error) {
	target := strings.ReplaceAll(end.Target, "%7Btopic%7D", topicMark) // in a path, braces are escaped by now
	// of returns what is asked of a topic, by its number.
	of := func(topic int) sse.StreamConfig {
		request := http1.Request{Target: sse.ExpandTopic(target, strconv.Itoa(topic)), Host: end.Host}
		addHeaders(&request, s.Headers)
		return sse.StreamConfig{Request: request, Topics: []int{topic}, Forgets: !s.Resume, GapType: s.GapEvent, HTTP: limits}
	}
	if _, err := sse.NewStreamTemplate(of(0)); err != nil {
		return nil, fmt.Errorf("load.subscribers: %w", err)
	}
	return func(int) func(subscriber int) wire.Stream {
		templates := map[int]*sse.StreamTemplate{}
		return func(subscriber int) wire.Stream {
			topic := subscriber % s.Topics
			if templates[topic] == nil {
				t, err := sse.NewStreamTemplate(of(topic))
				if err != nil {
					panic(err) // the first one, which differs in a number, was right
				}
				templates[topic] = t
			}
			return templates[topic].Stream()
		}
	}, nil
}

// publishers returns the maker of each worker's publishers. All of them publish to all
// topics, each with sequences of its own.
func (p *Publish) publishers(end http1.Endpoint, limits http1.Limits, topics, workers int) (func(worker int) func() wire.Client, error) {
	c := sse.PublisherConfig{Request: http1.Request{Target: p.Path, Host: end.Host}, Size: p.Size, Step: uint32(workers), HTTP: limits} //nolint:gosec // bounded by the engine
	addHeaders(&c.Request, p.Headers)
	for topic := range topics {
		c.Topics = append(c.Topics, strconv.Itoa(topic))
	}
	if p.Form == FormMercure {
		c.Form = true
		c.Request.Body = []byte("topic={topic}&data={data}")
		for i, number := range c.Topics {
			c.Topics[i] = strings.ReplaceAll(p.Topic, topicMark, number)
		}
	}
	clients, err := perWorker(func(worker int) sse.PublisherConfig {
		mine := c
		mine.First = uint32(worker) //nolint:gosec // bounded by the engine
		return mine
	}, sse.NewPublisherTemplate, func(t *sse.PublisherTemplate) wire.Client { return t.Publisher() })
	if err != nil {
		return nil, fmt.Errorf("load.publish: %w", err)
	}
	return clients, nil
}
