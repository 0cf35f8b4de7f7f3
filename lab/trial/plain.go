package trial

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"mime"
	"net"
	"net/http"
	"time"

	"dyno/internal/texts"
	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/load/wire"
)

// askTime bounds how long a server is asked what it speaks.
const askTime = 2 * time.Second

// SpeaksTLS tells whether a server answers to the first message of TLS. It opens a connection of
// its own.
func SpeaksTLS(ctx context.Context, network, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
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

// otherwise returns the fault of a target that gave no good answer because it speaks something else
// than what it was spoken to: TLS, HTTP/2, or a stream of events that does not end; nil if it is none.
func otherwise(ctx context.Context, v *experiment.Variant, c *engine.Config, result *engine.Result, failed error) *Fault {
	if plain := inPlainText(ctx, v, c, result, failed); plain != nil {
		return plain
	}
	if v.Target.Protocol != experiment.HTTP || v.Target.Proxy != "" || c.TLS != nil || c.NewClients == nil ||
		result == nil || result.AllCounts.Sent == 0 || result.AllCounts.OK > 0 || context.Cause(ctx) != nil {
		return nil //nolint:nilerr // an interrupted run asks nothing any more
	}
	answer := ask(ctx, c)
	switch {
	case isHTTP2(answer):
		return &Fault{texts.NewError("fault.speaks_http2", "address", c.Address)}
	case contentType(answer) == "text/event-stream":
		return &Fault{texts.NewError("fault.event_stream", "address", c.Address)}
	}
	return nil
}

// contentType is the media type of an answer, as far as it is one of HTTP.
func contentType(answer []byte) string {
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return ""
	}
	_ = response.Body.Close() // of bytes in memory
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return media
}

// ask sends a request of the load once more, on a connection of its own, and returns the beginning of
// the answer. A request that may change something is not sent.
func ask(ctx context.Context, c *engine.Config) []byte {
	client := c.NewClients(0)()
	client.Reset()
	request := client.Request()
	if !bytes.HasPrefix(request, []byte("GET ")) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, c.Network, c.Address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetDeadline(deadline) != nil {
		return nil
	}
	if _, err := conn.Write(request); err != nil {
		return nil
	}
	answer := make([]byte, 0, 16<<10)
	for len(answer) < cap(answer) && !bytes.Contains(answer, []byte("\r\n\r\n")) && !isHTTP2(answer) {
		n, err := conn.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		if err != nil {
			break
		}
	}
	return answer
}

// isHTTP2 tells whether bytes begin with the frame that begins connections of HTTP/2: SETTINGS, of no
// stream (RFC 9113, 3.4).
func isHTTP2(b []byte) bool {
	const header, settings = 9, 4
	return len(b) >= header && b[3] == settings && bytes.Equal(b[5:header], make([]byte, 4))
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
