package websocket

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"dyno/load/wire"
	"dyno/load/wire/sse"
)

// A StreamConfig is what all streams of one template have in common.
type StreamConfig struct {
	Dial

	// Subscribe is a message that is sent once the connection is open; nil is none.
	Subscribe []byte

	// Topics are the numbers, among the publishers' topics, of those that it subscribes to. Nil is every topic.
	Topics []int
}

// A StreamTemplate makes streams that subscribe alike: one template per worker and topic. It and its streams are for
// one goroutine at a time.
type StreamTemplate struct {
	*shared
	config StreamConfig
}

// NewStreamTemplate returns a template, or every fault of its configuration.
func NewStreamTemplate(c StreamConfig) (*StreamTemplate, error) {
	if err := c.request(c.Request).Validate(); err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	s, err := newShared(c.Dial, true)
	return &StreamTemplate{s, c}, err
}

// Stream returns a new stream, ready for a connection.
func (t *StreamTemplate) Stream() *Stream { return &Stream{conn: conn{s: t.shared}, t: t} }

// A Stream is a subscriber's connection: each message of the server is an event. It recognises messages with a stamp
// (sse.Stamp), wherever that stands in them.
type Stream struct {
	conn
	t     *StreamTemplate
	bytes int // since the last event
}

var (
	_ wire.Stream = (*Stream)(nil)
	_ wire.Closer = (*Stream)(nil)
)

// Reset begins another connection.
func (s *Stream) Reset() {
	s.reset()
	s.dial(0, nil)
	s.bytes = 0
}

// Request returns the handshake.
func (s *Stream) Request() []byte {
	s.written = len(s.out)
	return s.out
}

// Resumes tells that the server begins wherever it likes: WebSocket names no last event.
func (s *Stream) Resumes() bool { return false }

// Next consumes up to one message, or the handshake's response; see wire.Stream.
func (s *Stream) Next(p []byte) (n int, e wire.Event, err error) {
	if !s.open {
		if n, err = s.shake(p); err != nil || !s.open {
			return n, e, err
		}
		s.Wrote(0) // the handshake is no longer needed
		if s.t.config.Subscribe != nil {
			s.send(opText, s.t.config.Subscribe)
		}
		return n, wire.Event{Kind: wire.Opened}, nil
	}
	n, got, found, err := s.next(p)
	s.bytes += n
	switch {
	case err != nil && s.code == closeNormal:
		return n, wire.Event{Kind: wire.Exhausted}, nil
	case err != nil || !found:
		return n, e, err
	}
	e = wire.Event{Kind: wire.Message, Bytes: s.bytes}
	s.bytes = 0
	if stamp, ok := sse.FindStamp(got.data); ok {
		e.Stamped = true
		e.Source, e.Sequence, e.Time = stamp.Source, stamp.Sequence, stamp.Time
	}
	return n, e, nil
}

// End tells that the peer closed its side without the closing handshake.
func (s *Stream) End() error { return ErrCut }

// Retry returns 0: servers say nothing of when to come back.
func (s *Stream) Retry() time.Duration { return 0 }

// Closed tells that no server asks not to come back.
func (s *Stream) Closed() bool { return false }

// Follows tells whether the stream subscribes to a topic.
func (s *Stream) Follows(topic int) bool {
	return s.t.config.Topics == nil || slices.Contains(s.t.config.Topics, topic)
}

// TopicMark stands in a message for a topic's number.
const TopicMark = "{topic}"

// ExpandTopic returns a message with a topic in place of the mark.
func ExpandTopic(message, topic string) []byte {
	if message == "" {
		return nil
	}
	return bytes.ReplaceAll([]byte(message), []byte(TopicMark), []byte(topic))
}
