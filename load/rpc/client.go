package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"dyno/internal/errno"
	"dyno/load/rpc/diag"
)

// newTransport returns what connects to a server, whatever the server is called.
func newTransport(t Target) (*http.Transport, error) {
	network, address := "tcp", t.Address
	if path, unix := strings.CutPrefix(t.Address, "unix:"); unix {
		network, address = "unix", path
	} else if _, _, err := net.SplitHostPort(t.Address); err != nil {
		return nil, &diag.Fault{Source: diag.Plain(t.Address), Problem: "this is no address", Hint: "host:port, [ipv6]:port or unix:/path"}
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP2(t.TLS != nil)
	protocols.SetUnencryptedHTTP2(t.TLS == nil)
	return &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		TLSClientConfig:        t.TLS.Clone(),
		MaxResponseHeaderBytes: maxMetadata,
	}, nil
}

// newClient returns a client for both versions of the reflection service. Answers are bounded before
// they are used.
func newClient(t Target, transport *http.Transport, l *linker) *grpcreflect.Client {
	base := "http://"
	if t.TLS != nil {
		base = "https://"
	}
	return grpcreflect.NewClient(doer{transport}, base+t.authority(), connect.WithGRPC(),
		connect.WithReadMaxBytes(maxAnswer), connect.WithCodec(&boundedCodec{linker: l, seen: map[[sha256.Size]byte]bool{}}))
}

// A doer is a client that follows no redirects.
type doer struct{ *http.Transport }

func (d doer) Do(r *http.Request) (*http.Response, error) { return d.RoundTrip(r) }

// authority returns the server's name.
func (t Target) authority() string {
	switch {
	case t.Authority != "":
		return t.Authority
	case strings.HasPrefix(t.Address, "unix:"):
		return "localhost"
	}
	return t.Address
}

// header returns the metadata of a call. Fields that the protocol sets itself cannot be replaced.
func (t Target) header() http.Header {
	h := http.Header{"User-Agent": {"dyno"}}
	for name, values := range t.Metadata {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Del("Content-Type")
	h.Del("Te")
	return h
}

// A boundedCodec is a codec for Protocol Buffers. It counts an answer's elements before decoding: a
// descriptor of two bytes becomes an object of two hundred.
type boundedCodec struct {
	linker   *linker
	seen     map[[sha256.Size]byte]bool // files, by their bytes: servers repeat them
	received int                        // bytes
}

func (c *boundedCodec) Name() string { return "proto" }

func (c *boundedCodec) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (c *boundedCodec) Unmarshal(b []byte, m any) error {
	if c.received += len(b); c.received > maxReceived {
		return c.linker.fault("", "the server's answers take more than %d MiB", maxReceived>>20)
	}
	answer := m.(proto.Message)
	parts := newLinker(c.linker.source)
	parts.mostElements = maxFiles
	if err := parts.scan(b, answer.ProtoReflect().Descriptor(), 0); err != nil {
		return err
	}
	if err := proto.Unmarshal(b, answer); err != nil {
		return err
	}
	for _, file := range filesOf(answer.ProtoReflect()) {
		if sum := sha256.Sum256(file); !c.seen[sum] {
			c.seen[sum] = true
			if err := c.linker.admit(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// filesOf returns the descriptors in a ServerReflectionResponse.
func filesOf(answer protoreflect.Message) (files [][]byte) {
	field := answer.Descriptor().Fields().ByName("file_descriptor_response")
	if field == nil { // it is a status
		return nil
	}
	response := answer.Get(field).Message()
	list := response.Get(response.Descriptor().Fields().ByName("file_descriptor_proto")).List()
	for i := range list.Len() {
		files = append(files, list.Get(i).Bytes())
	}
	return files
}

// failed says why a server does not answer.
func (t Target) failed(ctx context.Context, err error) error {
	var fault *diag.Fault
	if errors.As(err, &fault) {
		return fault
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %w", t.Address, cause)
	}
	if errno.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: %w", t.Address, err)
	}
	fault = &diag.Fault{Source: t.Address, Problem: "reflection: " + statusText(err)}
	var noTLS tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &noTLS):
		fault.Hint = "does the server speak TLS?"
	case strings.Contains(text, "COMPRESSION_ERROR"), strings.Contains(text, "header list larger"):
		fault.Hint = fmt.Sprintf("the server's header fields are not valid, or take more than %d KiB", maxMetadata>>10)
	case strings.Contains(text, "HTTP/1.1 header"), strings.Contains(text, "malformed HTTP"), strings.Contains(text, "no application protocol"):
		fault.Hint = "gRPC needs HTTP/2, which the server does not speak"
	case errors.Is(err, io.EOF):
		fault.Hint = "the server has ended the call without an answer"
	case t.TLS == nil && !connect.IsWireError(err) && isClosed(err):
		fault.Hint = "does the server speak HTTP/2, and without TLS?"
	}
	return fault
}

// statusText says an error as gRPC spells it, if it is a status.
func statusText(err error) string {
	if status := new(connect.Error); errors.As(err, &status) && connect.IsWireError(err) {
		return strings.ToUpper(status.Code().String()) + ": " + diag.Plain(status.Message())
	}
	return diag.Plain(err.Error())
}

// isClosed tells whether the peer has closed the connection. How net/http says so depends
// on what it was doing.
func isClosed(err error) bool {
	return strings.Contains(err.Error(), "conn could not be established") || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errno.Is(err, syscall.ECONNRESET) || errno.Is(err, syscall.EPIPE)
}
