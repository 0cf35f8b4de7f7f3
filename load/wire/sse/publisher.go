package sse

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// Limits of a PublisherConfig's request.
const (
	topicMark = "{topic}"

	// DataMark stands in a message for an event's data.
	DataMark = "{data}"
)

// MaxSize is the largest event of a publisher, in bytes.
const MaxSize = 1 << 20

// A PublisherConfig is what all publishers of one template have in common.
type PublisherConfig struct {
	// Request publishes one event. {topic} in its target stands for the topic,
	// percent-encoded; {topic} and {data} in its body for the topic and the event's
	// data. Method and body default to POST and {data}.
	Request http1.Request

	// Form sends the body as application/x-www-form-urlencoded, added as Content-Type unless the
	// request has one: the topic is percent-encoded and spaces of the stamp are written as +.
	Form bool

	// Topics are published to in turn. Default: one without a name.
	Topics []string

	// Size is the length of an event's data in bytes. The stamp takes the first StampBytes, and x fills
	// the others. Default StampBytes.
	Size int

	// Publisher k of this template, from 0, has the number First + k·Step (default step 1). Its sources
	// are number·len(Topics) + topic. They must be unique among all that publish to the same
	// subscribers.
	First, Step uint32

	MaxHeader int64 // bytes of a response's header; default wire.DefaultMaxHeader
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	if c.Request.Method == "" {
		c.Request.Method = http.MethodPost
	}
	if c.Request.Body == nil {
		c.Request.Body = []byte(DataMark)
	}
	if c.Form && !hasField(c.Request.Header, "Content-Type") {
		c.Request.Header = append(slices.Clone(c.Request.Header),
			http1.Field{Name: "Content-Type", Value: "application/x-www-form-urlencoded"})
	}
	if len(c.Topics) == 0 {
		c.Topics = []string{""}
	}
	if c.Size == 0 {
		c.Size = StampBytes
	}
	if c.Step == 0 {
		c.Step = 1
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c PublisherConfig) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	seen := make(map[string]bool, len(c.Topics))
	for i, topic := range c.Topics {
		if seen[topic] {
			fault("topic %d %q: want each once", i+1, topic)
		}
		seen[topic] = true
	}
	if len(c.Topics) > 1 && !strings.Contains(c.Request.Target, topicMark) && !bytes.Contains(c.Request.Body, []byte(topicMark)) {
		fault("%d topics: want %s in the target or in the body", len(c.Topics), topicMark)
	}
	if n := bytes.Count(c.Request.Body, []byte(DataMark)); n != 1 {
		fault("body with %d times %s: want it once", n, DataMark)
	}
	if c.Size < StampBytes || c.Size > MaxSize {
		fault("size %d: want %d to %d bytes", c.Size, StampBytes, MaxSize)
		c.Size = StampBytes
	}
	r, _ := c.encode(c.Topics[0])
	faults = append(faults, r.Validate())
	return errors.Join(faults...)
}

// encode returns the request for a topic, and where in its body the data begins.
func (c PublisherConfig) encode(topic string) (r http1.Request, at int) {
	r = c.Request
	r.Target = ExpandTopic(r.Target, topic)
	if c.Form {
		topic = escapeTopic(topic)
	}
	before, after, _ := bytes.Cut(r.Body, []byte(DataMark))
	before = bytes.ReplaceAll(before, []byte(topicMark), []byte(topic))
	after = bytes.ReplaceAll(after, []byte(topicMark), []byte(topic))
	r.Body = slices.Concat(before, bytes.Repeat([]byte("x"), c.Size), after)
	return r, len(before)
}

// ExpandTopic returns target with the topic, percent-encoded, in place of {topic}. Publishers and
// subscribers share it.
func ExpandTopic(target, topic string) string {
	return strings.ReplaceAll(target, topicMark, escapeTopic(topic))
}

// escapeTopic makes a topic fit for a path, a query and a form.
func escapeTopic(topic string) string { return strings.ReplaceAll(url.QueryEscape(topic), "+", "%20") }

// A PublisherTemplate makes publishers, and holds what they can share: one template
// per worker. It and its publishers are for one goroutine at a time.
type PublisherTemplate struct {
	http      *http1.Template
	requests  []encoded // by topic
	longest   int
	separator byte
	number    uint32 // of the next publisher
	step      uint32
}

// An encoded request has room for a stamp.
type encoded struct {
	bytes []byte
	stamp int // where it begins
}

// NewPublisherTemplate returns a template, or every fault of its configuration.
func NewPublisherTemplate(c PublisherConfig) (*PublisherTemplate, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	c = c.withDefaults()
	t := &PublisherTemplate{separator: ' ', number: c.First, step: c.Step}
	if c.Form {
		t.separator = '+'
	}
	for _, topic := range c.Topics {
		r, at := c.encode(topic)
		b, err := r.Encode()
		if err != nil {
			return nil, fmt.Errorf("sse: topic %q: %w", topic, err)
		}
		t.requests = append(t.requests, encoded{bytes: b, stamp: len(b) - len(r.Body) + at})
		t.longest = max(t.longest, len(b))
	}
	var err error
	t.http, err = http1.NewTemplate(http1.Config{
		Request: t.requests[0].bytes, MaxHeader: c.MaxHeader,
		Accept: func(status int) bool { return status/100 == 2 },
	})
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	return t, nil
}

// Publisher returns the next publisher, ready for a connection.
func (t *PublisherTemplate) Publisher() *Publisher {
	p := &Publisher{
		Client: t.http.Client(), Sequences: NewSequences(t.number, len(t.requests)), t: t, buffer: make([]byte, 0, t.longest),
	}
	t.number += t.step
	return p
}

// A Publisher publishes stamped events to its topics in turn, by one POST request each. A response with
// a 2xx status is the acknowledgement. It is for one goroutine at a time, together with the others of
// its template.
type Publisher struct {
	*http1.Client
	Sequences
	t      *PublisherTemplate
	buffer []byte // the request under way
}

var (
	_ wire.Client  = (*Publisher)(nil)
	_ wire.Stamper = (*Publisher)(nil)
)

// Reset forgets everything about an earlier connection, but not the sequences.
func (p *Publisher) Reset() {
	p.Settle(false)
	p.Client.Reset()
}

// Request returns the publication of the next event, to the next topic. Its sequence
// number is used up.
func (p *Publisher) Request() []byte {
	p.Client.Request()
	topic, stamp := p.Publish()
	r := &p.t.requests[topic]
	p.buffer = append(p.buffer[:0], r.bytes...)
	stamp.Put(p.buffer[r.stamp:r.stamp+StampBytes], p.t.separator)
	return p.buffer
}

// Response consumes bytes of the response; see wire.Client.
func (p *Publisher) Response(b []byte) (n int, done bool, err error) {
	n, done, err = p.Client.Response(b)
	if done || err != nil {
		p.Settle(err == nil)
	}
	return n, done, err
}

// End tells that the peer has closed its side; see wire.Client.
func (p *Publisher) End() error {
	err := p.Client.End()
	p.Settle(err == nil)
	return err
}
