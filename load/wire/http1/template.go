package http1

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"dyno/load/wire"
)

// Config is what all clients of one template have in common.
type Config struct {
	// Request is the request to send, as Request.Encode makes it. It must not
	// change afterwards. Set either it or Requests.
	Request []byte

	// Requests are the requests to prepare. Compose takes them by their place here.
	Requests []Request

	// Fields are the names, in lower case, of the response fields to be delivered, at
	// most 64.
	Fields []string

	// MaxHeader bounds the status line and header of a response together, and its trailers, in
	// bytes. A larger one loses the connection. Default wire.DefaultMaxHeader.
	MaxHeader int64

	// Accept tells which final statuses, 200 to 999, count as success. It is a
	// pure function, as it is not asked for every response. Nil accepts those
	// below 400.
	Accept func(status int) bool
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	line, rest, _ := bytes.Cut(c.Request, []byte("\r\n"))
	method, _, _ := bytes.Cut(line, []byte(" "))
	sound := isToken(method) && bytes.HasSuffix(line, []byte(" HTTP/1.1")) && bytes.Contains(rest, []byte("\r\n\r\n"))
	switch {
	case len(c.Requests) == 0 && !sound:
		faults = append(faults, fmt.Errorf("request of %d bytes: want an encoded HTTP/1.1 request", len(c.Request)))
	case len(c.Requests) > 0 && c.Request != nil:
		faults = append(faults, fmt.Errorf("request of %d bytes and %d to prepare: want either", len(c.Request), len(c.Requests)))
	}
	for i, r := range c.Requests {
		if err := r.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("request %d: %w", i+1, err))
		}
	}
	if len(c.Fields) > maxWanted {
		faults = append(faults, fmt.Errorf("%d fields asked for: want at most %d", len(c.Fields), maxWanted))
	}
	for i, name := range c.Fields {
		if !isToken([]byte(name)) || name != string(bytes.ToLower([]byte(name))) {
			faults = append(faults, fmt.Errorf("field %d %q: want a name in lower case", i+1, name))
		}
	}
	return errors.Join(faults...)
}

// maxWanted is the number of names that can be asked for.
const maxWanted = 64

// A Template makes clients that send the same requests, and holds what they share, which keeps them
// small: one template per worker. It and its clients are for one goroutine at a time.
type Template struct {
	request   []byte
	closes    bool // the request says Connection: close
	headOnly  bool // responses have no body, as the method is HEAD or CONNECT
	prepared  []prepared
	wanted    []string // names of fields to deliver
	maxHeader int64
	switches  bool // a request asks for another protocol, which status 101 grants
	accept    func(status int) bool

	memo memo

	refusals wire.Refusals
	contents map[*Client][]byte // the content, as far as it has come, of responses with statuses that were not accepted

	// spare are the buffers that no client needs at present. Each client has at
	// most two at a time, so that there are never more than twice the clients.
	spare wire.Buffers
}

// A memo is the last header block that arrived in one piece, and its meaning. A server repeats itself
// until its Date changes, and comparing bytes takes a fraction of the time of parsing them. It cannot
// change an outcome: a block ends at its first empty line, so bytes that start with the memo's block
// hold that very block; and its meaning follows from its bytes and from whether the method was HEAD.
type memo struct {
	off      bool // for tests, which compare with and without
	block    []byte
	head     head
	headOnly bool
	fields   fields
}

// NewTemplate returns a template, or every fault of its configuration.
func NewTemplate(c Config) (*Template, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("http1: %w", err)
	}
	t := &Template{
		request:   c.Request,
		closes:    asksToClose(c.Request),
		headOnly:  bytes.HasPrefix(c.Request, []byte(headMethod+" ")) || bytes.HasPrefix(c.Request, []byte(tunnelMethod+" ")),
		wanted:    c.Fields,
		maxHeader: cmp.Or(c.MaxHeader, wire.DefaultMaxHeader),
		accept:    c.Accept,
		contents:  map[*Client][]byte{},
	}
	for _, r := range c.Requests {
		t.prepared = append(t.prepared, r.prepare())
		t.switches = t.switches || r.Upgrade != ""
	}
	return t, nil
}

// Client returns a new client, ready for a connection.
func (t *Template) Client() *Client {
	c := &Client{t: t, closes: t.closes, headOnly: t.headOnly}
	if len(t.prepared) > 0 || len(t.wanted) > 0 {
		c.own = &own{}
	}
	return c
}

// asksToClose tells whether a request's header has Connection: close.
func asksToClose(request []byte) bool {
	_, lines, _ := bytes.Cut(request, []byte("\r\n"))
	for {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\r\n"))
		if len(line) == 0 {
			return false
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if equalFold(name, "Connection") && connection(value)&sawClose != 0 {
			return true
		}
	}
}

func (t *Template) accepts(status int) bool {
	if t.accept == nil {
		return status < 400
	}
	return t.accept(status)
}

// recall returns how many bytes at the start of p are the remembered block; 0 if
// they are not.
func (m *memo) recall(p []byte, headOnly bool) int {
	if n := len(m.block); len(p) >= n && string(p[:n]) == string(m.block) && m.headOnly == headOnly {
		return n
	}
	return 0
}

func (m *memo) store(block []byte, c *Client) {
	if m.off {
		return
	}
	m.block = append(m.block[:0], block...)
	m.head, m.headOnly = c.head, c.headOnly
	if c.own != nil {
		m.fields.copy(&c.own.fields)
	}
}
