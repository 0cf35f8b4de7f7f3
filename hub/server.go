package hub

import (
	"context"
	"net"
	"net/http"
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// ConnContext is for the field of http.Server with that name. It lets the hub set the
// socket options of connections that stay the server's. A server with a ConnContext of
// its own calls this one in it.
func (h *Hub) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnState is for the field of http.Server with that name. It counts the server's
// connections for the metrics. Call it for all state changes of a connection, or for
// none.
func (h *Hub) ConnState(c net.Conn, state http.ConnState) { h.conns.changed(c, state) }

// Wait returns when the event loop has ended: with nil after Drain or Close, otherwise
// with the loop's error. In that case its subscribers are cut, and the hub refuses new
// ones. Without an event loop it returns nil at once.
func (h *Hub) Wait() error {
	if h.loop == nil {
		return nil
	}
	<-h.loopDone
	return h.loopErr
}
