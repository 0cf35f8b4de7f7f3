package http2

import (
	"cmp"
	"errors"
	"fmt"

	"dyno/load/wire"
)

// Config is what all clients of one template have in common.
type Config struct {
	// Requests are the requests to prepare. Begin takes them by their place here.
	Requests []Request

	// Streams is the largest number of exchanges that one connection carries at once,
	// 1 to 10,000. The peer may allow fewer.
	Streams int

	// Optimistic lets exchanges begin before the peer's SETTINGS have arrived, as
	// RFC 9113, section 3.4 allows. Those beyond what the peer then allows are refused.
	Optimistic bool

	// Content has the content of responses delivered, but for requests that are CountOnly.
	// Without, it is only counted.
	Content bool

	// Fields are the names, in lower case, of the response fields to be delivered, at
	// most 64.
	Fields []string

	// Accept tells which final statuses, 200 to 999, count as success. It is a pure
	// function. Nil accepts those below 400.
	Accept func(status int) bool

	Settings Settings // default DefaultSettings

	// MaxHeader bounds a header or trailer section twice, in bytes: a larger encoded block loses the
	// connection; a larger list of fields, as RFC 9113, section 6.5.2 counts it, loses the exchange.
	// The peer learns it from the settings. Default wire.DefaultMaxHeader.
	MaxHeader int64
}

const maxStreams = 10_000

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Requests) == 0 {
		fault("no request: want at least one")
	}
	for i, r := range c.Requests {
		if err := r.Validate(); err != nil {
			fault("request %d: %w", i+1, err)
		}
	}
	if c.Streams < 1 || c.Streams > maxStreams {
		fault("streams %d: want 1 to %d", c.Streams, maxStreams)
	}
	if len(c.Fields) > maxWanted {
		fault("%d fields asked for: want at most %d", len(c.Fields), maxWanted)
	}
	for i, name := range c.Fields {
		if nameFault([]byte(name)) != nil || name[0] == ':' {
			fault("field %d %q: want a name in lower case, without a colon", i+1, name)
		}
	}
	return errors.Join(faults...)
}

// A Template makes clients that send the same requests, and holds what they share, which keeps them
// small: one template per worker. It and its clients are for one goroutine at a time.
type Template struct {
	requests  []prepared
	dict      dictionary
	names     names
	maxHeader int64
	settings  Settings
	accepted  [1000]bool // by status

	streams    int
	sendBuffer int      // maxUnsent, but for tests
	threshold  [2]int64 // how much of a stream's and a connection's window is used up before it gets more
	content    bool
	optimistic bool
	connects   bool // a request is an extended CONNECT
	preface    []byte

	// State between header sections.
	memos     [memos]*memo
	memoOff   bool // for tests, which compare with and without
	section   section
	fields    []wire.MuxField // of a memo, or ownFields
	ownFields []wire.MuxField
	kept      []keptField
	keptData  []byte
	name      []byte // decoded strings
	value     []byte

	refusals wire.Refusals
	contents map[response][]byte // the content, as far as it has come, of responses with statuses that were not accepted

	// spare are the buffers that no client needs at present: for output, for waiting content, for a
	// frame or block in pieces, for a response's explanation of its failure.
	spare wire.Buffers
}

// A response is known by its connection and the number of its stream.
type response struct {
	client *Client
	number uint32
}

// NewTemplate returns a template, or every fault of its configuration.
func NewTemplate(c Config) (*Template, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("http2: %w", err)
	}
	t := &Template{
		names:      newNames(c.Fields),
		maxHeader:  cmp.Or(c.MaxHeader, wire.DefaultMaxHeader),
		settings:   cmp.Or(c.Settings, DefaultSettings()),
		streams:    c.Streams,
		sendBuffer: maxUnsent,
		content:    c.Content,
		optimistic: c.Optimistic,
		contents:   map[response][]byte{},
	}
	t.preface = t.settings.preface(t.maxHeader)
	for i, r := range c.Requests {
		p := t.dict.prepare(r)
		if err := p.measure(&t.dict); err != nil {
			return nil, fmt.Errorf("http2: request %d: %w", i+1, err)
		}
		t.requests = append(t.requests, p)
		t.connects = t.connects || r.Protocol != ""
	}
	for status := range t.accepted {
		t.accepted[status] = status < 400
		if c.Accept != nil && status >= 200 {
			t.accepted[status] = c.Accept(status)
		}
	}
	for i, window := range []int{t.settings.StreamWindow, t.settings.ConnectionWindow} {
		t.threshold[i] = int64(window+1) / 2
	}
	return t, nil
}
