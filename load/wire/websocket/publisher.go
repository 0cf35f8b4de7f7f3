package websocket

import (
	"bytes"
	"errors"
	"fmt"

	"dyno/load/wire"
	"dyno/load/wire/sse"
)

// A PublisherConfig is what all publishers of one template have in common.
type PublisherConfig struct {
	Dial

	// Message publishes an event. sse.DataMark stands in it, once, for the event's data, and TopicMark for the topic. A
	// publication has ended when a message with the text in IDMark's place has come. Without that mark, it has ended
	// when it is written.
	Message Message

	Topics []string // are published to in turn
	Size   int      // of an event's data in bytes; see sse.PublisherConfig

	// Publisher k of this template, from 0, has the number Number + k·Step; see sse.PublisherConfig.
	Number, Step uint32
}

// messages returns the message of each topic, and where in it the data begins.
func (c PublisherConfig) messages() (all []Message, at []int, err error) {
	if n := bytes.Count(c.Message.Text, []byte(sse.DataMark)); n != 1 {
		return nil, nil, fmt.Errorf("message with %d times %s: want it once", n, sse.DataMark)
	}
	if len(c.Topics) > 1 && !bytes.Contains(c.Message.Text, []byte(TopicMark)) {
		return nil, nil, fmt.Errorf("%d topics: want %s in the message", len(c.Topics), TopicMark)
	}
	if c.Size < sse.StampBytes || c.Size > sse.MaxSize {
		return nil, nil, fmt.Errorf("size %d: want %d to %d bytes", c.Size, sse.StampBytes, sse.MaxSize)
	}
	for _, topic := range c.Topics {
		m := c.Message
		m.ByID = bytes.Contains(m.Text, []byte(IDMark))
		before, after, _ := bytes.Cut(ExpandTopic(m.Text, topic), []byte(sse.DataMark))
		m.Text = bytes.Join([][]byte{before, bytes.Repeat([]byte("x"), c.Size), after}, nil)
		all, at = append(all, m), append(at, len(before))
	}
	return all, at, nil
}

// A PublisherTemplate makes publishers, and holds what they share: one template per worker. It and its publishers are
// for one goroutine at a time.
type PublisherTemplate struct {
	*Template
	at     []int // by topic, where in its message the data begins
	number uint32
	step   uint32
}

// NewPublisherTemplate returns a template, or what is wrong with its configuration.
func NewPublisherTemplate(c PublisherConfig) (*PublisherTemplate, error) {
	messages, at, err := c.messages()
	if err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	if len(messages) == 0 {
		return nil, errors.New("websocket: want a topic")
	}
	t, err := NewTemplate(Config{Dial: c.Dial, Messages: messages, Unanswered: !messages[0].ByID})
	return &PublisherTemplate{t, at, c.Number, c.Step}, err
}

// Publisher returns the next publisher, ready for a connection.
func (t *PublisherTemplate) Publisher() *Publisher {
	p := &Publisher{Mux: t.Mux(), Sequences: sse.NewSequences(t.number, len(t.at)), at: t.at}
	t.number += t.step
	return p
}

// A Publisher publishes stamped events to its topics in turn, by a message each. It has one publication at a time.
type Publisher struct {
	*Mux
	sse.Sequences
	at []int
}

var _ wire.Stamper = (*Publisher)(nil)

// Reset begins another connection. The sequences go on.
func (p *Publisher) Reset() {
	p.Settle(false)
	p.Mux.Reset()
}

// Begin publishes the next event, to the next topic. Its sequence number is used up.
func (p *Publisher) Begin(id uint32, _ int, parts [][]byte) error {
	topic, stamp := p.Publish()
	stamp.Put(p.Mux.t.config.Messages[topic].Text[p.at[topic]:][:sse.StampBytes], ' ') // the messages are the template's own
	return p.Mux.Begin(id, topic, parts)
}

// Cancel gives a publication up.
func (p *Publisher) Cancel(id uint32) {
	p.Settle(false)
	p.Mux.Cancel(id)
}

// Input consumes bytes that arrived; see wire.Mux.
func (p *Publisher) Input(b []byte, e *wire.MuxEvent) (n int, err error) {
	if n, err = p.Mux.Input(b, e); e.Kind == wire.MuxEnded {
		p.Settle(true)
	}
	return n, err
}
