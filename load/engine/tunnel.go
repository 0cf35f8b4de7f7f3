package engine

import (
	"strings"

	"dyno/load/engine/clock"
	"dyno/load/wire"
)

var errTunnelExcess = &wire.Error{Kind: wire.Protocol, Text: "bytes of the target before any were sent to it"}

// startTunnel asks the proxy to which a connection was opened for a tunnel to the target.
func (w *worker) startTunnel(i int32, c *connection) {
	c.state = tunnelling
	c.tunnel.Reset()
	c.Put(c.tunnel.Request())
	w.flush(i, c)
}

// takeTunnel takes in bytes of the proxy's answer.
func (w *worker) takeTunnel(i int32, c *connection, p []byte, r clock.Reading) {
	n, done, err := c.tunnel.Response(p)
	if done && n < len(p) && err == nil {
		err = errTunnelExcess
	}
	switch {
	case err != nil:
		w.openFailed(i, c, r.Read, w.tunnelError(err))
	case done:
		w.reached(i, c, r.Read)
	}
}

// tunnelError returns the failure of a connection for which the proxy gave no tunnel: one for each
// reason.
func (w *worker) tunnelError(reason error) error {
	e := w.conns.tunnelErrors[reason]
	if e == nil {
		text := "the proxy " + w.config.Address
		status, found := strings.CutPrefix(reason.Error(), wire.Status.String()+": status ")
		if found {
			text += " answered CONNECT by " + status
		} else {
			text += " did not answer CONNECT: " + reason.Error()
		}
		e = &wire.Error{Kind: wire.Connect, Text: text}
		w.conns.tunnelErrors[reason] = e
	}
	return e
}
