package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// A client calls the reflection service over HTTP/2, by net/http: dyno has a client of
// its own for measuring, which knows nothing of names, and none of the gRPC module's.
type client struct {
	address   string
	target    Target
	transport *http.Transport
	path      string // of the method
	received  int    // bytes
}

func newClient(t Target) (*client, error) {
	c := &client{address: t.Address, target: t}
	network, address := "tcp", t.Address
	if path, unix := strings.CutPrefix(t.Address, "unix:"); unix {
		network, address = "unix", path
	} else if _, _, err := net.SplitHostPort(t.Address); err != nil {
		return nil, &Fault{Source: plain(t.Address), Problem: "this is no address", Hint: "host:port, [ipv6]:port or unix:/path"}
	}
	if c.target.Authority == "" {
		c.target.Authority = authorityOf(t.Address)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP2(t.TLS != nil)
	protocols.SetUnencryptedHTTP2(t.TLS == nil)
	c.transport = &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxMetadata,
	}
	if t.TLS != nil {
		c.transport.TLSClientConfig = t.TLS.Clone()
	}
	return c, nil
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// ask makes one call, which asks all questions one after another, and calls each with the
// answers in their order. An answer's memory is used again.
func (c *client) ask(ctx context.Context, questions [][]byte, each func(i int, a answer) error) error {
	if len(questions) == 0 {
		return nil
	}
	var body []byte
	for _, q := range questions {
		body = append(body, 0) // not compressed
		body = binary.BigEndian.AppendUint32(body, uint32(len(q)))
		body = append(body, q...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what the server has not said yet
	response, err := c.call(ctx, body)
	if err != nil {
		return c.failed(ctx, err)
	}
	defer response.Body.Close()
	if err := c.examine(response); err != nil {
		return err
	}
	var message bytes.Buffer
	for i := range questions {
		if err := c.read(response.Body, &message); err != nil {
			if errors.Is(err, io.EOF) {
				return c.ended(response, i, len(questions))
			}
			return c.failed(ctx, err)
		}
		a, err := readAnswer(message.Bytes())
		if err != nil {
			return c.fault("", "an answer of the server's is not valid: %s", cause(err))
		}
		if err := each(i, a); err != nil {
			return err
		}
	}
	return nil
}

// call sends a request, and returns what the server answers with.
func (c *client) call(ctx context.Context, body []byte) (*http.Response, error) {
	scheme := "http"
	if c.target.TLS != nil {
		scheme = "https"
	}
	u := &url.URL{Scheme: scheme, Host: c.target.Authority, Path: c.path}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return nil, err
	}
	for name, values := range c.target.Metadata {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "dyno")
	}
	return c.transport.RoundTrip(r)
}

// examine tells whether a response is one of gRPC, and returns its status if it has come
// already.
func (c *client) examine(r *http.Response) error {
	media := r.Header.Get("Content-Type")
	switch {
	case r.ProtoMajor != 2:
		return c.fault("", "the server speaks %s, and gRPC needs HTTP/2", plain(r.Proto))
	case r.StatusCode == http.StatusNotFound:
		return &status{code: codeUnimplemented} // by gRPC's rule
	case r.StatusCode != http.StatusOK:
		return c.fault("", "the server answers with HTTP status %d, not with gRPC", r.StatusCode)
	case media != "application/grpc" && !strings.HasPrefix(media, "application/grpc+") && !strings.HasPrefix(media, "application/grpc;"):
		return c.fault("", "the server answers with content of type %s, not with gRPC", quote(media))
	}
	if s, err := statusOf(r.Header); err != nil || s != nil && s.code != codeOK {
		return c.said(s, err)
	}
	return nil
}

// read reads one message of a stream (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
// io.EOF says that the stream has ended.
func (c *client) read(body io.Reader, message *bytes.Buffer) error {
	var prefix [5]byte
	if _, err := io.ReadFull(body, prefix[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return c.fault("", "the server's answer is cut off")
		}
		return err
	}
	size := int64(binary.BigEndian.Uint32(prefix[1:]))
	switch {
	case prefix[0] != 0:
		return c.fault("", "the server compresses its answer, though it was not asked to")
	case size > maxAnswer:
		return c.fault("", "the server's answer has %d bytes, and may have %d MiB", size, maxAnswer>>20)
	}
	if c.received += int(size); c.received > maxReceived {
		return c.fault("", "the server's answers take more than %d MiB", maxReceived>>20)
	}
	message.Reset()
	if _, err := io.CopyN(message, body, size); err != nil {
		if errors.Is(err, io.EOF) {
			return c.fault("", "the server's answer is cut off")
		}
		return err
	}
	return nil
}

// ended says why there are fewer answers than questions.
func (c *client) ended(r *http.Response, answers, questions int) error {
	s, err := statusOf(r.Trailer)
	if s == nil && err == nil {
		s, err = statusOf(r.Header)
	}
	if err == nil && s != nil && s.code == codeOK {
		return c.fault("", "the server answers %d of %d questions", answers, questions)
	}
	return c.said(s, err)
}

// said is an error that the server has called by its name.
func (c *client) said(s *status, err error) error {
	switch {
	case err != nil:
		return c.fault("", "the server's status is not valid: %s", plain(err.Error()))
	case s == nil:
		return c.fault("", "the server's answer ends without a status")
	}
	return fmt.Errorf("%s: reflection: %w", c.address, s)
}

// statusOf reads a status. It returns nil if there is none.
func statusOf(h http.Header) (*status, error) {
	text := h.Get("Grpc-Status")
	if text == "" {
		return nil, nil
	}
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("grpc-status %s", quote(text))
	}
	message := h.Get("Grpc-Message")
	if decoded, err := url.PathUnescape(message); err == nil {
		message = decoded
	}
	return &status{code, message}, nil
}

// failed says why there is no answer.
func (c *client) failed(ctx context.Context, err error) error {
	var (
		fault    *Fault
		noTLS    tls.RecordHeaderError
		hint     string
		deadline = context.Cause(ctx)
	)
	switch {
	case errors.As(err, &fault):
		return fault
	case deadline != nil:
		return fmt.Errorf("%s: %w", c.address, deadline)
	case errors.As(err, &noTLS):
		hint = "does the server speak TLS?"
	case strings.Contains(err.Error(), "COMPRESSION_ERROR"), strings.Contains(err.Error(), "header list larger"):
		hint = fmt.Sprintf("the server's header fields are not valid, or take more than %d KiB", maxMetadata>>10)
	case isHTTP1(err):
		hint = "gRPC needs HTTP/2, which the server does not speak"
	case c.target.TLS == nil && isClosed(err):
		hint = "does the server speak HTTP/2, and without TLS?"
	}
	if hint != "" {
		return fmt.Errorf("%s: %w; %s", c.address, err, hint)
	}
	return fmt.Errorf("%s: %w", c.address, err)
}

// isClosed tells whether the peer has closed the connection. How net/http says so depends
// on what it was doing.
func isClosed(err error) bool {
	return strings.Contains(err.Error(), "conn could not be established") || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isHTTP1 tells whether an error, of net/http or a TLS handshake, says that the peer speaks
// HTTP/1.
func isHTTP1(err error) bool {
	text := err.Error()
	return strings.Contains(text, "HTTP/1.1 header") || strings.Contains(text, "malformed HTTP") || strings.Contains(text, "no application protocol")
}
