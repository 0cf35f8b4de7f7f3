package grpc

import (
	"dyno/load/wire"
	"dyno/load/wire/http2"
)

// A Client is one connection's side of gRPC, or of gRPC-Web, over HTTP/2. It is for one
// goroutine at a time, together with the other clients of its template. Its events have the
// statuses of gRPC, not of HTTP; content is not delivered but in messages.
type Client struct {
	t     *Template
	below *http2.Client
	calls []call // by the caller's number

	// pending is an event of the protocol below: its content holds further messages, or its end is
	// still to be reported.
	pending wire.MuxEvent
	content content
	atOnce  bool // the header came with the end that is pending

	fields []wire.MuxField // of the last event
}

var (
	_ wire.Mux    = (*Client)(nil)
	_ wire.Pacer  = (*Client)(nil)
	_ wire.Pinger = (*Client)(nil)

	_ wire.StreamLimiter = (*Client)(nil)
)

// Client returns a new client, ready for a connection. It is for templates of NewTemplate.
func (t *Template) Client() *Client { return &Client{t: t, below: t.two.Client()} }

// Reset forgets everything about an earlier connection.
func (c *Client) Reset() {
	for id := range c.calls {
		c.calls[id].forgetPart(c.t)
		c.calls[id] = call{}
	}
	c.dropPending()
	c.below.Reset()
}

func (c *Client) dropPending() {
	c.pending, c.atOnce = wire.MuxEvent{}, false
	c.content.drop()
}

// Output returns the bytes that are to be written now; see wire.Mux.
func (c *Client) Output() []byte { return c.below.Output() }

// Wrote tells that the first n bytes of Output were written.
func (c *Client) Wrote(n int) { c.below.Wrote(n) }

// PeerStreams returns how many calls the peer allows at once; see wire.StreamLimiter.
func (c *Client) PeerStreams() int { return c.below.PeerStreams() }

// Free returns how many calls may begin now.
func (c *Client) Free() int {
	n := c.below.Free()
	if n > 0 && c.pending.Kind == wire.MuxEnded {
		n-- // the protocol below has forgotten a call whose end is still to be reported
	}
	return n
}

// Begin begins a call; see wire.Mux.
func (c *Client) Begin(id uint32, request int, parts [][]byte) error {
	switch {
	case c.Free() == 0:
		return http2.ErrNotFree
	case uint(request) >= uint(len(c.t.calls)):
		return http2.ErrRequest
	case c.pending.Kind != wire.MuxNothing && c.pending.ID == id:
		return http2.ErrNumber
	}
	p := &c.t.calls[request]
	if len(parts) == p.Parts() {
		parts = c.t.compose(p, parts)
	}
	if err := c.below.Begin(id, request, parts); err != nil {
		return err
	}
	for int(id) >= len(c.calls) {
		c.calls = append(c.calls, call{})
	}
	k := &c.calls[id]
	k.restart(request)
	if p.ClientStream {
		k.due = p.count
		if p.Lockstep || p.Paced {
			k.due = min(1, p.count)
		}
		c.feed(id, k)
	}
	return nil
}

// feed hands over the messages of a call that are due, as far as there is room.
func (c *Client) feed(id uint32, k *call) {
	p := &c.t.calls[k.request]
	if p.count == 0 {
		_, _ = c.below.Send(id, nil, true) // the end alone; where the call has ended, it is not needed
		return
	}
	for k.sent < k.due {
		m := p.framed[int(k.sent)%len(p.framed)]
		n, err := c.below.Send(id, m[k.offset:], k.sent+1 == p.count)
		if err != nil {
			k.due = k.sent // the call has ended, or the connection has; both are reported
			return
		}
		if k.offset += n; k.offset < len(m) {
			return
		}
		k.offset = 0
		k.sent++
	}
}

// Next has a call whose messages are paced send one more; see wire.Pacer.
func (c *Client) Next(id uint32) (more bool) {
	if id >= uint32(len(c.calls)) { //nolint:gosec // bounded by the streams
		return false
	}
	k := &c.calls[id]
	if k.state&active == 0 {
		return false
	}
	p := &c.t.calls[k.request]
	if !p.Paced || k.due >= p.count {
		return false
	}
	k.due++
	c.feed(id, k)
	return k.due < p.count
}

// Ping asks the server for a sign of life; see wire.Pinger.
func (c *Client) Ping() bool { return c.below.Ping() }

// Cancel gives a call up. There will be no event of it.
func (c *Client) Cancel(id uint32) {
	if c.pending.Kind != wire.MuxNothing && c.pending.ID == id {
		ended := c.pending.Kind == wire.MuxEnded
		c.dropPending()
		if ended {
			c.release(id)
			return
		}
	}
	if id < uint32(len(c.calls)) && c.calls[id].state&active != 0 { //nolint:gosec // bounded by the streams
		c.release(id)
		c.below.Cancel(id)
	}
}

// release makes a call's place free.
func (c *Client) release(id uint32) {
	k := &c.calls[id]
	k.forgetPart(c.t)
	k.state = 0
}

// Fields returns the fields that were asked for; see wire.Mux.
func (c *Client) Fields() []wire.MuxField { return c.fields }

// Input consumes bytes that arrived, up to one event; see wire.Mux.
func (c *Client) Input(p []byte, e *wire.MuxEvent) (n int, err error) {
	c.fields = nil
	for {
		if c.pending.Kind != wire.MuxNothing && c.digest(e) {
			return n, nil
		}
		used, err := c.below.Input(p[n:], e)
		n += used
		if err != nil {
			return n, c.t.translate(err)
		}
		if e.Kind == wire.MuxNothing || c.take(e) {
			return n, nil
		}
	}
}

// Waiting tells whether Input may have an event without more bytes, or may hand over a message; see
// wire.Mux.
func (c *Client) Waiting() bool { return c.pending.Kind != wire.MuxNothing || c.below.Waiting() }

// take takes an event of the protocol below, and tells whether it has become one for the
// caller. Otherwise there may be something pending.
func (c *Client) take(e *wire.MuxEvent) bool {
	if e.Kind == wire.MuxGoAway {
		return true
	}
	id := e.ID
	k := &c.calls[id]
	switch e.Kind {
	case wire.MuxRoom:
		c.feed(id, k)
		return false
	case wire.MuxHead:
		k.status = e.Status
		fields, of := c.below.Fields(), initial
		k.read(c.t, fields, false)
		if k.state&early != 0 {
			of = only // the end will follow in a frame of its own
		}
		c.fields = c.t.list(fields, of)
		*e = wire.MuxEvent{Kind: wire.MuxHead, ID: id, Bytes: e.Bytes}
		return true
	case wire.MuxData:
		c.pending = *e
		c.content.raw = e.Data
		return false
	case wire.MuxEnded:
		c.pending = *e
		c.content.raw = e.Data
		if c.atOnce = k.state&headed == 0 && !e.Trailers; c.atOnce {
			k.status = e.Status
		}
		k.judge(e.Trailers)
		k.read(c.t, c.below.Fields(), !c.atOnce)
		return false
	default:
		c.lost(e)
		return true
	}
}

// lost ends a call for the reason that the protocol below gives in e.
func (c *Client) lost(e *wire.MuxEvent) {
	f := c.t.below(e.Err)
	*e = wire.MuxEvent{Kind: e.Kind, ID: e.ID, Status: int16(f.code), Bytes: e.Bytes, Err: f.Error}
	c.release(e.ID)
}

// digest takes the messages of a piece of content, and the end after it. It tells whether e is
// an event for the caller; if not, all of it is used.
func (c *Client) digest(e *wire.MuxEvent) bool {
	id := c.pending.ID
	k := &c.calls[id]
	for k.state&opaque == 0 {
		message, complete, f := c.content.message(c.t, k)
		if f.Error == nil && complete {
			f = c.t.take(k, message)
		}
		if f.Error != nil {
			c.fail(id, f, e)
			return true
		}
		if !complete {
			break
		}
		p := &c.t.calls[k.request]
		if p.Lockstep && k.due < p.count {
			k.due++
			c.feed(id, k)
		}
		if p.events {
			*e = wire.MuxEvent{Kind: wire.MuxMessage, ID: id, Bytes: c.pending.Bytes}
			switch {
			case p.Translate != nil:
				if e.Data, f = c.t.translated(k, message); f.Error != nil {
					c.fail(id, f, e)
				}
			case c.t.content:
				e.Data = message
			}
			return true
		}
	}
	ended := c.pending.Kind == wire.MuxEnded
	if ended {
		switch {
		case c.atOnce:
			c.fields = c.t.list(c.below.Fields(), only)
		case c.pending.Trailers:
			c.fields = c.t.list(c.below.Fields(), trailing)
		default:
			c.fields = nil
		}
		c.finish(&c.pending, k, e)
	}
	c.dropPending()
	return ended
}

// finish ends a call whose response is complete for the protocol below.
func (c *Client) finish(ended *wire.MuxEvent, k *call, e *wire.MuxEvent) {
	f := c.t.conclude(k)
	*e = wire.MuxEvent{Kind: wire.MuxEnded, ID: ended.ID, Trailers: ended.Trailers, Status: int16(f.code), Bytes: ended.Bytes, Err: f.Error}
	if len(k.trailing) > 0 {
		c.t.fields = append(c.t.fields[:len(c.fields)], k.trailing...)
		c.fields = c.t.fields
	}
	e.Data = c.t.rest(k)
	switch {
	case f.Error == nil:
	case f.Kind != wire.Status:
		e.Kind, e.Trailers = wire.MuxFailed, false
	case c.t.judged:
		e.Err = nil
	}
	c.release(ended.ID)
}

// fail ends a call whose content is not what it should be.
func (c *Client) fail(id uint32, f failure, e *wire.MuxEvent) {
	*e = wire.MuxEvent{Kind: wire.MuxFailed, ID: id, Status: int16(f.code), Bytes: c.pending.Bytes, Err: f.Error}
	ended := c.pending.Kind == wire.MuxEnded
	c.dropPending()
	c.release(id)
	if !ended {
		c.below.Cancel(id)
	}
}

// End tells that the peer has closed its side, or that the caller is about to; see wire.Mux.
func (c *Client) End() (e wire.MuxEvent) {
	for c.pending.Kind != wire.MuxNothing {
		if c.digest(&e) && e.Kind != wire.MuxMessage {
			return e
		}
	}
	if e = c.below.End(); e.Kind != wire.MuxNothing {
		c.lost(&e)
	}
	return e
}
