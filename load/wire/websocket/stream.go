package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"dyno/load/wire"
	"dyno/load/wire/sse"
)

// A StreamConfig is what all streams of one template have in common.
type StreamConfig struct {
	Dial

	// Subscribe is a message that is sent once the connection can be used; without a text, none is.
	Subscribe Message

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
	if err := errors.Join(c.validate(), c.Subscribe.validate()); err != nil {
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
	bytes int  // since the last event
	ready bool // the connection can be used
}

var (
	_ wire.Stream = (*Stream)(nil)
	_ wire.Closer = (*Stream)(nil)
)

// Reset begins another connection.
func (s *Stream) Reset() {
	s.reset()
	s.dial(0, nil)
	s.bytes, s.ready = 0, false
}

// Request returns the handshake. Over HTTP/2 there is none: it is in the output.
func (s *Stream) Request() []byte {
	s.written = len(s.out)
	return s.out
}

// Resumes tells that the server begins wherever it likes: WebSocket names no last event.
func (s *Stream) Resumes() bool { return false }

// prepare consumes bytes until the connection can be used.
func (s *Stream) prepare(p []byte) (n int, err error) {
	if !s.open {
		if n, err = s.shake(p); err != nil || !s.open {
			return n, err
		}
		s.Wrote(0) // the handshake is no longer needed
	}
	for s.awaited > 0 {
		used, got, found, err := s.piece(p[n:])
		if n += used; err != nil || !found {
			return n, err
		}
		s.greeted(got)
	}
	s.ready = true
	return n, nil
}

// Next consumes up to one message, or what comes before the connection can be used; see wire.Stream.
func (s *Stream) Next(p []byte) (n int, e wire.Event, err error) {
	if !s.ready {
		if n, err = s.prepare(p); err != nil || !s.ready {
			return n, e, err
		}
		if m := &s.t.config.Subscribe; len(m.Text) > 0 {
			s.say(m.Text, m.Binary)
		}
		return n, wire.Event{Kind: wire.Opened}, nil
	}
	n, got, found, err := s.piece(p)
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
func ExpandTopic(message []byte, topic string) []byte {
	return bytes.ReplaceAll(message, []byte(TopicMark), []byte(topic))
}
