// Package detect finds out what a server speaks by asking it once, on a connection of its own: TLS,
// HTTP/2 by prior knowledge, gRPC, WebSocket, or a stream of events.
package detect

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"mime"
	"net"
	"net/http"
	"syscall"
	"time"

	"dyno/internal/errno"
	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// askTime bounds how long a server is asked what it speaks.
const askTime = 5 * time.Second

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

// inPlainText returns an error for a target that speaks TLS and was spoken to in plain text. Many such
// servers close the connection without a word, so one that did nothing else is asked.
func inPlainText(ctx context.Context, v *plan.Variant, c *config.Config, result *record.Result, failed error) error {
	var unreachable *engine.Unreachable
	closed := result == nil && errors.As(failed, &unreachable) || result != nil && closesOnAll(result)
	if c.TLS != nil || v.Target.Proxy != "" || !closed || context.Cause(ctx) != nil || !SpeaksTLS(ctx, c.Network, c.Address) {
		return nil //nolint:nilerr // an interrupted run asks nothing any more
	}
	kind := "fault.speaks_tls"
	if !plan.HasURL(v.Target.Protocol) {
		kind = "fault.speaks_tls.no_url"
	}
	return texts.NewError(kind, "address", c.Address, "protocol", v.Target.Protocol)
}

// Mismatch returns an error for a target without good answers that speaks something other than the load
// did: TLS, HTTP/2, or a stream of events that does not end. result and failed are what the load
// returned.
func Mismatch(ctx context.Context, v *plan.Variant, c *config.Config, result *record.Result, failed error) error {
	if plain := inPlainText(ctx, v, c, result, failed); plain != nil {
		return plain
	}
	if v.Target.Protocol != plan.HTTP || v.Target.Proxy != "" || c.TLS != nil || c.NewClients == nil ||
		result == nil || result.AllCounts.Sent == 0 || result.AllCounts.OK > 0 || context.Cause(ctx) != nil {
		return nil //nolint:nilerr // an interrupted run asks nothing any more
	}
	switch answer := ask(ctx, c); {
	case answer.HTTP2:
		return texts.NewError("fault.speaks_http2", "address", c.Address)
	case answer.Media == eventStream:
		return texts.NewError("fault.event_stream", "address", c.Address)
	}
	return nil
}

// The media types of server-sent events and of gRPC.
const (
	eventStream = "text/event-stream"
	grpcMedia   = "application/grpc"
)

// An Answer is what a server gave to one request, as far as it tells how to load the server. The zero
// value says nothing.
type Answer struct {
	HTTP2    bool   // it speaks HTTP/2 by prior knowledge, and not HTTP/1.1
	Upgrades bool   // it speaks WebSocket, and refuses other requests
	Media    string // of its content
}

// OverHTTP2 is the command for a server that speaks HTTP/2 only.
const OverHTTP2 = "http --http2"

// Command returns dyno's command to load such a server; "" if the answer does not tell.
func (a Answer) Command() string {
	switch {
	case a.Media == eventStream:
		return "sse"
	case a.Media == grpcMedia:
		return "grpc"
	case a.Upgrades:
		return plan.WS
	case a.HTTP2:
		return OverHTTP2
	}
	return ""
}

// Ask sends the request of an HTTP load once, on a connection of its own, and returns the server's
// answer. A request that may change something is not sent.
func Ask(ctx context.Context, v *plan.Variant) Answer {
	c, codecs, err := generator.Config(ctx, v, 0)
	if err != nil {
		return Answer{} // the load will say so
	}
	defer func() { _ = codecs.Close() }() // they hold nothing of the load yet
	if v.Target.Proxy != "" || c.NewClients == nil {
		return Answer{}
	}
	return ask(ctx, &c)
}

func ask(ctx context.Context, c *config.Config) Answer {
	client := c.NewClients(0)()
	client.Reset()
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(client.Request())))
	if err != nil || request.Method != http.MethodGet {
		return Answer{}
	}
	request.RequestURI, request.URL.Scheme, request.URL.Host = "", "http", request.Host
	var standard *tls.Config
	if c.TLS != nil {
		request.URL.Scheme = "https"
		if standard, err = c.TLS.Standard(time.Now()); err != nil {
			return Answer{}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, http2 := range []bool{false, true} {
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, c.Network, c.Address)
			},
			TLSClientConfig: standard, Protocols: new(http.Protocols),
			DisableCompression: true, DisableKeepAlives: true,
		}
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetUnencryptedHTTP2(http2)
		transport.Protocols.SetHTTP2(http2)
		status, media, err := exchange(transport, request.WithContext(ctx))
		if err == nil && http2 && status >= http.StatusBadRequest && media != grpcMedia {
			// A server of gRPC alone refuses a GET in some way, and answers a call of a missing method.
			call := request.Clone(ctx)
			call.Method, call.URL.Path = http.MethodPost, "/dyno.Ask/Ask"
			call.Header = http.Header{"Content-Type": {grpcMedia}, "Te": {"trailers"}}
			if _, called, err := exchange(transport, call); err == nil && called == grpcMedia {
				media = called
			}
		}
		if err == nil {
			upgrades := !http2 && status >= http.StatusBadRequest && status < http.StatusInternalServerError && media != grpcMedia && upgrades(transport, request)
			return Answer{http2 && c.TLS == nil, upgrades, media}
		}
		if errno.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return Answer{}
}

// upgrades tells whether a server that has refused a request agrees to speak WebSocket instead.
func upgrades(t *http.Transport, request *http.Request) bool {
	asked := request.Clone(request.Context())
	asked.Header.Set("Connection", "Upgrade")
	asked.Header.Set("Upgrade", "websocket")
	asked.Header.Set("Sec-WebSocket-Version", "13")
	asked.Header.Set("Sec-WebSocket-Key", "ZHlubyBhc2tzIG9uY2UuLg==") // any 16 bytes
	status, _, err := exchange(t, asked)
	return err == nil && status == http.StatusSwitchingProtocols
}

// exchange sends a request, and returns the status and the media type of the response.
func exchange(t *http.Transport, request *http.Request) (status int, media string, err error) {
	response, err := t.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	_ = response.Body.Close() // only the header matters
	t.CloseIdleConnections()
	media, _, _ = mime.ParseMediaType(response.Header.Get("Content-Type"))
	return response.StatusCode, media, nil
}

// closesOnAll tells whether a target closed the connection on all requests, as servers of TLS do
// without a handshake. Some say 400 before.
func closesOnAll(r *record.Result) bool {
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
