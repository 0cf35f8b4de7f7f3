package sse

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// A StreamConfig is what all streams of one template have in common.
type StreamConfig struct {
	// Request asks for the events: a GET without a body. Accept and Cache-Control
	// are added unless it has them, Last-Event-ID as needed.
	Request http1.Request

	// Topics are the numbers, among the publishers' topics, of those that the request
	// subscribes to. Nil is every topic.
	Topics []int

	// Forgets leaves Last-Event-ID out when reconnecting.
	Forgets bool

	// GapType is the type of the events by which the server says that others are
	// missing. Default "gap".
	GapType string

	MaxHeader int64 // bytes of the response's header; default wire.DefaultMaxHeader
}

func (c StreamConfig) withDefaults() StreamConfig {
	if c.Request.Method == "" {
		c.Request.Method = http.MethodGet
	}
	c.Request.Header = slices.Clone(c.Request.Header)
	for _, f := range []http1.Field{{Name: "Accept", Value: mediaType}, {Name: "Cache-Control", Value: "no-cache"}} {
		if !hasField(c.Request.Header, f.Name) {
			c.Request.Header = append(c.Request.Header, f)
		}
	}
	if c.GapType == "" {
		c.GapType = "gap"
	}
	return c
}

const (
	mediaType   = "text/event-stream"
	lastEventID = "Last-Event-ID"
)

func hasField(header []http1.Field, name string) bool {
	return slices.ContainsFunc(header, func(f http1.Field) bool { return strings.EqualFold(f.Name, name) })
}

// Validate reports everything that is wrong with the configuration.
func (c StreamConfig) Validate() error {
	c = c.withDefaults()
	faults := []error{c.Request.Validate()}
	if c.Request.Method != http.MethodGet {
		faults = append(faults, fmt.Errorf("method %q: want GET", c.Request.Method))
	}
	if len(c.Request.Body) > 0 {
		faults = append(faults, fmt.Errorf("body of %d bytes: want none", len(c.Request.Body)))
	}
	if hasField(c.Request.Header, lastEventID) {
		faults = append(faults, errors.New("header Last-Event-ID: want none, as it is added when reconnecting"))
	}
	return errors.Join(faults...)
}

// A StreamTemplate makes streams that send the same request, and holds what they share, which keeps
// them small: one template per worker and request. It and its streams are for one goroutine at a time.
type StreamTemplate struct {
	config StreamConfig
	http   *http1.Template
	pool   pool
	begin  []byte // the request up to where Last-Event-ID goes
	spare  wire.Buffers
}

// NewStreamTemplate returns a template, or every fault of its configuration.
func NewStreamTemplate(c StreamConfig) (*StreamTemplate, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	c = c.withDefaults()
	request, err := c.Request.Encode()
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	template, err := http1.NewTemplate(http1.Config{
		Request: request, MaxHeader: c.MaxHeader,
		Accept: func(status int) bool { return status == http.StatusOK },
	})
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	return &StreamTemplate{
		config: c, http: template, begin: request[:len(request)-len("\r\n")],
	}, nil
}

// Stream returns a new stream, ready for a connection.
func (t *StreamTemplate) Stream() *Stream {
	return &Stream{t: t, http: t.http.Client(), parser: Parser{pool: &t.pool}}
}

// A Stream is one subscription by HTTP/1.1 (HTML standard, section 9.2.3). Status 200 with the media
// type text/event-stream opens it; 204 says that it shall not come back; any other status is an error
// of kind Status, and redirections are not followed. It is for one goroutine at a time, together with
// the others of its template. Between two events it takes less than 500 bytes.
type Stream struct {
	t       *StreamTemplate
	http    *http1.Client
	request []byte // with Last-Event-ID, until the stream is open
	parser  Parser
	bytes   int    // of the stream as it was sent, since the last event
	coded   *coded // of a response that is encoded; else nil
	opened  bool   // the head was good
	ended   bool   // the response is complete
	fault   error  // found after the head, before the head was reported
	closed  bool   // the server asked not to come back
	resumes bool   // the last request had a Last-Event-ID
}

var _ wire.Stream = (*Stream)(nil)

// Reset forgets the earlier connection. The last event ID, the reconnection time and a request not to
// come back stay.
func (s *Stream) Reset() {
	s.forgetRequest()
	s.http.Reset()
	s.parser.Reset()
	if s.coded != nil {
		s.coded.decoder.Close()
		s.coded = nil
	}
	s.bytes = 0
	s.opened, s.ended, s.resumes, s.fault = false, false, false, nil
}

// Request asks for the events after the last one that had an ID.
func (s *Stream) Request() []byte {
	usual := s.http.Request()
	id := s.parser.LastEventID()
	if s.t.config.Forgets || len(id) == 0 {
		return usual
	}
	s.resumes = true
	s.request = append(s.t.spare.Borrow(), s.t.begin...)
	s.request = append(s.request, lastEventID+": "...)
	s.request = append(s.request, id...)
	s.request = append(s.request, "\r\n\r\n"...)
	return s.request
}

// Resumes tells whether the last Request had a Last-Event-ID.
func (s *Stream) Resumes() bool { return s.resumes }

// Next consumes up to one event, or the response's head; see wire.Stream.
func (s *Stream) Next(p []byte) (n int, e wire.Event, err error) {
	if s.fault != nil {
		return 0, wire.Event{}, s.fault
	}
	for {
		if m, found, err := s.nextDecoded(); found || err != nil {
			return n, s.event(m, found), err
		}
		if s.ended {
			return n, wire.Event{Kind: wire.Exhausted}, nil
		}
		used, size, done, err := s.http.Content(p[n:])
		n += used
		s.ended = done
		if !s.opened && s.http.HasHead() {
			if refusal := s.judge(); refusal != nil {
				return n, wire.Event{}, refusal
			}
			if s.fault = err; err == nil {
				s.fault = s.beginDecoding()
			}
			return n, wire.Event{Kind: wire.Opened}, nil
		}
		switch {
		case err != nil:
			return n, wire.Event{}, err
		case done:
			if err := s.endDecoding(); err != nil {
				return n, wire.Event{}, err
			}
			continue
		case size == 0:
			return n, wire.Event{}, nil
		}
		used, m, found, err := s.parse(p[n : n+size])
		s.http.Take(used)
		n += used
		s.bytes += used
		if found || err != nil {
			return n, s.event(m, found), err
		}
	}
}

// coded is what a stream needs to decode the content.
type coded struct {
	decoder wire.Decoder
	plain   []byte // that was decoded and not yet parsed
}

// beginDecoding begins to decode the content, if it is encoded.
func (s *Stream) beginDecoding() error {
	codings := s.http.Codings()
	if codings == 0 {
		return nil
	}
	s.coded = &coded{}
	if err := s.coded.decoder.Begin(codings, math.MaxInt64); err != nil {
		return err
	}
	return nil
}

// endDecoding decodes what is left at the end of the content.
func (s *Stream) endDecoding() error {
	if s.coded == nil {
		return nil
	}
	plain, err := s.coded.decoder.End()
	if err != nil {
		return err
	}
	s.coded.plain = plain
	return nil
}

// parse uses up a part of the content, up to the end of an event if it is not encoded.
func (s *Stream) parse(p []byte) (used int, m Message, found bool, err error) {
	if s.coded == nil {
		return s.parser.Next(p)
	}
	used, plain, fault := s.coded.decoder.Piece(p)
	if s.coded.plain = plain; fault != nil {
		return used, Message{}, false, fault
	}
	return used, Message{}, false, nil
}

// nextDecoded parses what was decoded, up to the end of an event.
func (s *Stream) nextDecoded() (m Message, found bool, err error) {
	if s.coded == nil || len(s.coded.plain) == 0 {
		return Message{}, false, nil
	}
	n, m, found, err := s.parser.Next(s.coded.plain)
	s.coded.plain = s.coded.plain[n:]
	return m, found, err
}

// judge decides by the response's head whether the subscription is accepted.
func (s *Stream) judge() error {
	s.forgetRequest()
	switch status := s.http.Status(); {
	case status == http.StatusNoContent:
		s.closed = true
		return wire.StatusError(status)
	case status != http.StatusOK:
		return wire.StatusError(status)
	case !s.http.EventStream():
		return ErrMediaType
	}
	s.opened = true
	return nil
}

// event is what there is to say of a message that was found.
func (s *Stream) event(m Message, found bool) wire.Event {
	if !found {
		return wire.Event{}
	}
	e := wire.Event{Kind: wire.Message, Bytes: s.bytes}
	s.bytes = 0
	if string(m.Type) == s.t.config.GapType {
		e.Kind = wire.Gap
		return e
	}
	if stamp, ok := ParseStamp(m.Data); ok {
		e.Stamped = true
		e.Source, e.Sequence, e.Time = stamp.Source, stamp.Sequence, stamp.Time
	}
	return e
}

// End tells that the peer closed its side. Where nothing but that can end the
// response, it is the stream's orderly end; an event that is not complete is
// discarded.
func (s *Stream) End() error {
	s.parser.rest()
	return s.http.End()
}

// Deviations returns how the response departs from the protocol; see wire.Deviant.
func (s *Stream) Deviations() wire.Deviations { return s.http.Deviations() }

// Retry returns the reconnection time that the server asked for, MaxRetry at most; 0
// when it did not ask.
func (s *Stream) Retry() time.Duration { return s.parser.Retry() }

// Closed tells whether the server answered 204: no content, now or later.
func (s *Stream) Closed() bool { return s.closed }

// Follows tells whether the request subscribes to a topic.
func (s *Stream) Follows(topic int) bool {
	return s.t.config.Topics == nil || slices.Contains(s.t.config.Topics, topic)
}

func (s *Stream) forgetRequest() {
	if s.request != nil {
		s.t.spare.GiveBack(s.request)
		s.request = nil
	}
}
