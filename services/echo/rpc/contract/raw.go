package contract

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"dyno/services/echo/rpc/echopb"
)

// An answer is a response as it is on the wire.
type answer struct {
	header, trailer http.Header
	body            []byte
	status          int
	err             error // of reading the body
}

// code returns the call's status: from the trailers, or from the header of a response
// that has nothing else.
func (a answer) code() string {
	if s := a.trailer.Get("grpc-status"); s != "" {
		return s
	}
	return a.header.Get("grpc-status")
}

// frame returns a message as gRPC sends it: whether it is compressed, its length, itself.
func frame(compressed byte, message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(message)))
	return append(b, message...)
}

// A rawClient makes calls that grpc-go's client would not, and shows what it hides.
type rawClient struct {
	*peer
	transport     *http.Transport
	plain, zipped []byte // a message, and the same in gzip
}

// call makes a call with header fields, of which each is a name and a value.
func (c *rawClient) call(t *testing.T, body []byte, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://"+c.address+"/dyno.echo.v1.Echo/Echo", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	a := answer{header: response.Header, status: response.StatusCode}
	a.body, a.err = io.ReadAll(response.Body)
	a.trailer = response.Trailer
	return a
}

// expectStatus fails the test if an answer has none of the statuses.
func expectStatus(t *testing.T, a answer, want ...codes.Code) {
	t.Helper()
	for _, w := range want {
		if a.err == nil && a.status == http.StatusOK && a.code() == fmt.Sprint(uint32(w)) {
			return
		}
		// To a client a stream that is reset so has ended with the status INTERNAL.
		if w == codes.Internal && a.err != nil && strings.Contains(a.err.Error(), "INTERNAL_ERROR") {
			return
		}
	}
	t.Fatalf("HTTP status %d, gRPC status %q (%q), %v; want 200 and %v", a.status, a.code(), a.trailer.Get("grpc-message")+a.header.Get("grpc-message"), a.err, want)
}

// raw looks at bytes that a client library neither sends nor shows.
func raw(t *testing.T, p *peer) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	c := &rawClient{peer: p, transport: &http.Transport{Protocols: protocols, DisableCompression: true}}
	defer c.transport.CloseIdleConnections()
	var err error
	if c.plain, err = proto.Marshal(&echopb.EchoRequest{Text: strings.Repeat("x", 2000)}); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = w.Write(c.plain)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	c.zipped = zipped.Bytes()

	t.Run("plain", c.answersPlain)
	t.Run("gzip", c.answersInGzip)
	c.refusesCompression(t)
	t.Run("not a message", c.refusesGarbage)
	t.Run("fields of a later version", c.ignoresUnknownFields)
	t.Run("deadline kept by the server", c.keepsDeadlines)
}

// answersPlain holds the server to answers that are as calls were.
func (c *rawClient) answersPlain(t *testing.T) {
	for _, kind := range []string{"application/grpc", "application/grpc+proto"} {
		a := c.call(t, frame(0, c.plain), "Content-Type", kind, "Grpc-Accept-Encoding", "identity,gzip")
		expectStatus(t, a, codes.OK)
		if !bytes.Equal(a.body, frame(0, c.plain)) {
			t.Errorf("%d bytes that begin with % x; want %d, uncompressed as the call was", len(a.body), a.body[:min(5, len(a.body))], len(c.plain)+5)
		}
		if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, "application/grpc") {
			t.Errorf("content type %q", got)
		}
	}
}

// answersInGzip holds the server to answers in gzip, or to what it says of them.
func (c *rawClient) answersInGzip(t *testing.T) {
	a := c.call(t, frame(1, c.zipped), "Grpc-Encoding", "gzip", "Grpc-Accept-Encoding", "gzip")
	expectStatus(t, a, codes.OK)
	if c.has(PlainAnswers) {
		if !bytes.Equal(a.body, frame(0, c.plain)) {
			t.Errorf("%d bytes, want %d, uncompressed", len(a.body), len(c.plain)+5)
		}
		return
	}
	if a.header.Get("Grpc-Encoding") != "gzip" || len(a.body) < 5 || a.body[0] != 1 {
		t.Fatalf("encoding %q, body % x…; want a message in gzip", a.header.Get("Grpc-Encoding"), a.body[:min(5, len(a.body))])
	}
	r, err := gzip.NewReader(bytes.NewReader(a.body[5:]))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, c.plain) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(c.plain))
	}
}

// refusesCompression holds the server to what it cannot decompress, and to messages that are not compressed.
func (c *rawClient) refusesCompression(t *testing.T) {
	t.Run("a message as it is in a call with gzip", func(t *testing.T) {
		expectStatus(t, c.call(t, frame(0, c.plain), "Grpc-Encoding", "gzip"), codes.OK)
	})
	t.Run("compression that is not known", func(t *testing.T) {
		expectStatus(t, c.call(t, frame(1, c.plain), "Grpc-Encoding", "snake"), codes.Unimplemented)
	})
	t.Run("compression that was not announced", func(t *testing.T) {
		expectStatus(t, c.call(t, frame(1, c.zipped)), codes.Internal, codes.Unimplemented, codes.InvalidArgument)
	})
	t.Run("not gzip", func(t *testing.T) {
		expectStatus(t, c.call(t, frame(1, c.plain), "Grpc-Encoding", "gzip"), codes.Internal, codes.InvalidArgument)
	})
}

// refusesGarbage checks the server's status for bytes that are not a message.
func (c *rawClient) refusesGarbage(t *testing.T) {
	for _, bad := range []string{"\x0a\x05x", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x12\xff\xff\xff\xff\x0f"} {
		a := c.call(t, frame(0, []byte(bad)))
		if c.has(ShortStrings) && a.code() == "0" {
			continue
		}
		expectStatus(t, a, codes.Internal, codes.InvalidArgument)
	}
}

// ignoresUnknownFields holds the server to messages of a later version.
func (c *rawClient) ignoresUnknownFields(t *testing.T) {
	later := append([]byte("\xf8\x01\x05\xfa\x01\x03abc\xfd\x01abcd\xf9\x01abcdefgh"), c.plain...)
	a := c.call(t, frame(0, later))
	expectStatus(t, a, codes.OK)
	var got echopb.EchoResponse
	if err := proto.Unmarshal(a.body[5:], &got); err != nil || len(got.Text) != 2000 {
		t.Errorf("%d bytes of text, %v", len(got.Text), err)
	}
}

// keepsDeadlines holds the server to the deadline of a call.
func (c *rawClient) keepsDeadlines(t *testing.T) {
	slow, err := proto.Marshal(&echopb.EchoRequest{DelayMs: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, timeout := range []string{"50m", "50000u", "50000000n"} {
		a := c.call(t, frame(0, slow), "Grpc-Timeout", timeout)
		// A server may reset the stream instead: a client has counted to the deadline itself.
		if a.err != nil && c.ctx.Err() == nil {
			continue
		}
		// The handler of grpc-go's server may see that the stream is closed before it sees why.
		expectStatus(t, a, codes.DeadlineExceeded, codes.Canceled)
	}
}
