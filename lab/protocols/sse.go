package protocols

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"dyno/lab/plan"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
)

// sseCodecs makes the subscribers' streams and, where something is published, publishers. With
// https, either speak HTTP/1.1 over TLS.
func sseCodecs(_ context.Context, v *plan.Variant, _ uint64, workers int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	if c.Streams, err = streams(v.Load.Subscribers, end, int64(v.Load.MaxHeader)); err == nil && v.Load.Publish != nil {
		c.Clients, err = publishers(v.Load.Publish, end, int64(v.Load.MaxHeader), v.Load.Subscribers.Topics, workers)
	}
	if err == nil && end.Secure {
		c.TLS, err = tlsConfig(v.Target.TLS, end, []string{"http/1.1"})
	}
	return c, err
}

// streams returns the maker of each worker's streams, which share what is asked of a topic.
func streams(s *plan.Subscribers, end http1.Endpoint, maxHeader int64) (func(worker int) func(subscriber int) wire.Stream, error) {
	target := withTopic(end.Target)
	return perTopic(s.Topics, func(topic int) (*sse.StreamTemplate, error) {
		request := http1.Request{Target: sse.ExpandTopic(target, strconv.Itoa(topic)), Host: end.Host}
		addHeaders(&request, s.Headers)
		return sse.NewStreamTemplate(sse.StreamConfig{Request: request, Topics: []int{topic}, Forgets: !s.Resume, GapType: s.GapEvent, MaxHeader: maxHeader})
	}, func(t *sse.StreamTemplate) wire.Stream { return t.Stream() })
}

// withTopic returns a target of a URL with {topic} in its path as it was written: braces are escaped by now.
func withTopic(target string) string {
	return strings.ReplaceAll(target, "%7Btopic%7D", plan.TopicMark)
}

// perTopic returns the maker of each worker's streams, which share a template for each topic. Topics differ in their
// number only: the first one is made now, to see whether it is right.
func perTopic[Template any](topics int, of func(topic int) (*Template, error), stream func(*Template) wire.Stream) (func(worker int) func(subscriber int) wire.Stream, error) {
	if _, err := of(0); err != nil {
		return nil, fmt.Errorf("load.subscribers: %w", err)
	}
	return func(int) func(subscriber int) wire.Stream {
		templates := map[int]*Template{}
		return func(subscriber int) wire.Stream {
			topic := subscriber % topics
			if templates[topic] == nil {
				t, err := of(topic)
				if err != nil {
					panic(err) // the first one was right
				}
				templates[topic] = t
			}
			return stream(templates[topic])
		}
	}, nil
}

// publishers returns the maker of each worker's publishers. All of them publish to all
// topics, each with sequences of its own.
func publishers(p *plan.Publish, end http1.Endpoint, maxHeader int64, topics, workers int) (func(worker int) func() wire.Client, error) {
	c := sse.PublisherConfig{Request: http1.Request{Target: p.Path, Host: end.Host}, Size: p.Size, Step: uint32(workers), MaxHeader: maxHeader} //nolint:gosec // bounded by the engine
	addHeaders(&c.Request, p.Headers)
	for topic := range topics {
		c.Topics = append(c.Topics, strconv.Itoa(topic))
	}
	if p.Form == plan.FormMercure {
		c.Form = true
		c.Request.Body = []byte("topic={topic}&data={data}")
		for i, number := range c.Topics {
			c.Topics[i] = strings.ReplaceAll(p.Topic, plan.TopicMark, number)
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
