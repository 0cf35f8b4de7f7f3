package hub

import (
	"context"
	"net"
	"net/http"
)

// connKey finds a request's connection in its context.
type connKey struct{}

// ConnContext is for http.Server's field of that name: it lets the hub set the socket
// options of connections that stay the server's. A server with a ConnContext of its own
// calls this one in it.
func (h *Hub) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnState is for http.Server's field of that name: it counts the server's connections
// for the metrics. All that a server says of one connection must be told, or nothing.
func (h *Hub) ConnState(c net.Conn, state http.ConnState) { h.conns.changed(c, state) }

// Wait returns when the event loop has ended: with nil after Drain or Close, otherwise
// with what it failed of; then its subscribers are cut, and the hub refuses new ones.
// Without an event loop it returns nil at once.
func (h *Hub) Wait() error {
	if h.loop == nil {
		return nil
	}
	<-h.loopDone
	return h.loopErr
}
