package websocket

import (
	"cmp"
	"net/http"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
)

// newOver2 prepares handshakes over HTTP/2 (RFC 8441), of one stream each.
func newOver2(d Dial, handshakes []http1.Request) (*http2.Template, error) {
	var requests []http2.Request
	for _, r := range handshakes {
		requests = append(requests, http2.Request{Request: d.extend(r), Scheme: cmp.Or(d.Scheme, "http"), Protocol: "websocket", BitByBit: true})
	}
	return http2.NewTemplate(http2.Config{Requests: requests, Streams: 1, Content: true, Fields: fieldNames, MaxHeader: d.MaxHeader})
}

// stream is the number of the one stream of a connection.
const stream = 0

// An over2 is a connection of HTTP/2 that carries one WebSocket.
type over2 struct {
	*http2.Client
	request int      // to be started, once the server lets it; -1: none
	parts   [][]byte // its
	started bool
	rest    []byte // received, and not looked at
}

// start begins the handshake, if there is one and the server lets it.
func (o *over2) start() {
	if o.request < 0 || o.Free() == 0 {
		return
	}
	if o.Begin(stream, o.request, o.parts) == nil {
		o.started = true
	}
	o.request = -1
}

// put sends as much of b as there is room for.
func (o *over2) put(b []byte) (n int) {
	if o.started && len(b) > 0 {
		n, _ = o.Send(stream, b, false) // a stream that has ended takes nothing more, and Input says so
	}
	return n
}

// open takes the answer to the handshake, and returns its status. Without an error, it is 0 until that is there.
func (o *over2) open(p []byte) (n, status int, err error) {
	for {
		var e wire.MuxEvent
		used, err := o.Input(p[n:], &e)
		n += used
		o.start()
		switch {
		case err != nil:
			return n, 0, err
		case e.Kind == wire.MuxNothing:
			return n, 0, nil
		case e.Kind == wire.MuxGoAway && e.Err != nil:
			return n, 0, e.Err
		case e.Kind == wire.MuxHead && e.Status < http.StatusMultipleChoices:
			return n, int(e.Status), nil
		case e.Kind == wire.MuxEnded && e.Err == nil:
			return n, int(e.Status), wire.StatusError(int(e.Status)) // the stream ended with its header
		case e.Kind == wire.MuxEnded || e.Kind == wire.MuxFailed || e.Kind == wire.MuxRefused:
			return n, int(e.Status), e.Err
		}
	}
}

// receive has rest hold what arrived, and returns how much of p it has used.
func (o *over2) receive(p []byte) (n int, err error) {
	for len(o.rest) == 0 {
		var e wire.MuxEvent
		used, err := o.Input(p[n:], &e)
		n += used
		switch {
		case err != nil:
			return n, err
		case e.Kind == wire.MuxNothing:
			return n, nil
		case e.Kind == wire.MuxData:
			o.rest = e.Data
		case e.Kind == wire.MuxEnded || e.Kind == wire.MuxFailed || e.Kind == wire.MuxRefused:
			return n, cmp.Or(e.Err, ErrCut)
		}
	}
	return n, nil
}
