package trial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"dyno/internal/texts"
	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/load/wire"
)

// askTLS bounds how long a server is asked whether it speaks TLS.
const askTLS = 2 * time.Second

// SpeaksTLS tells whether a server answers to the first message of TLS. It opens a connection of
// its own.
func SpeaksTLS(ctx context.Context, network, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTLS)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		_ = conn.Close() // nothing was written
		return true
	}
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" // as crypto/tls names the peer's alerts
}

// inPlainText returns the fault of a target that speaks TLS and was spoken to in plain text; nil
// if it is none. Many such servers close the connection without a word, so one that did nothing
// else is asked.
func inPlainText(ctx context.Context, v *experiment.Variant, c *engine.Config, result *engine.Result, failed error) *Fault {
	var unreachable *engine.Unreachable
	closed := result == nil && errors.As(failed, &unreachable) || result != nil && closesOnAll(result)
	if c.TLS != nil || v.Target.Proxy != "" || !closed || context.Cause(ctx) != nil || !SpeaksTLS(ctx, c.Network, c.Address) {
		return nil //nolint:nilerr // an interrupted run asks nothing any more
	}
	kind := "fault.speaks_tls"
	if !experiment.HasURL(v.Target.Protocol) {
		kind = "fault.speaks_tls.no_url"
	}
	return &Fault{texts.NewError(kind, "address", c.Address, "protocol", v.Target.Protocol)}
}

// closesOnAll tells whether a target closed the connection on all requests, as servers of TLS do
// when what comes is no handshake. Some say 400 before.
func closesOnAll(r *engine.Result) bool {
	const badRequest = 400
	for status, n := range r.Status {
		if n > 0 && status != badRequest {
			return false
		}
	}
	all, opened := r.AllCounts, r.Connections.Opened*uint64(max(r.Connections.Streams, 1)) //nolint:gosec // a number of streams
	if r.Streams.Opened > 0 || all.OK > 0 || all.ByKind[wire.Timeout] > 0 || opened < all.Sent {
		return false
	}
	return all.Sent+r.Streams.Failed > 0
}
