package engine_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/grpc"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
	"dyno/load/wire/tlslayer"
)

// large is a request's content that no socket takes at once.
var large = bytes.Repeat([]byte("x"), 8<<20)

// postLarge makes clients that send it.
func postLarge(t testing.TB) func(int) func() wire.Client {
	t.Helper()
	return send(t, http1.Request{Method: "POST", Target: "/", Host: "h", Body: large})
}

// readHead reads the header of a request of HTTP/1.1, byte by byte, so that nothing after it is read.
func readHead(r io.Reader) bool {
	var b [1]byte
	for end := []byte(nil); !bytes.HasSuffix(end, []byte("\r\n\r\n")); end = append(end, b[0]) {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return false
		}
	}
	return true
}

// refusing answers the header of each request, and closes with the content unread: what then goes
// on being written meets a reset, with the answer in front of it.
func refusing(answer string) func(net.Conn) {
	return func(c net.Conn) {
		if readHead(c) {
			_, _ = io.WriteString(c, answer)
		}
	}
}

// refusing2 is refusing of HTTP/2, whose answer has this header. It goes on reading if it stays; else
// it takes leave by GOAWAY.
func refusing2(stays bool, header []byte) func(net.Conn) {
	return func(c net.Conn) {
		serveFrames(c, largeWindows(), func(out []byte, f frame) ([]byte, bool) {
			if f.kind != 1 { // HEADERS
				return out, true
			}
			if !stays {
				last := binary.BigEndian.AppendUint32(nil, f.stream)
				out = muxFrame(out, 7, 0, 0, append(last, 0, 0, 0, 0)...)
			}
			out = muxFrame(out, 1, 5, f.stream, header...)
			return muxFrame(out, 3, 0, f.stream, 0, 0, 0, 0), stays // RST_STREAM with NO_ERROR
		})
	}
}

// status413 is a header of HTTP/2.
var status413 = []byte{0x08, 3, '4', '1', '3'}

// A status that arrives while the request's content is still being sent is the outcome. This holds also
// if the peer closes the connection without reading the rest (RFC 9112, section 9.5; RFC 9113, section
// 8.1).
func TestAnswerBeforeTheRequestIsSent(t *testing.T) {
	const requests = 30
	secure := func(do func(net.Conn)) func(net.Conn) {
		settings := certified(t)
		return func(c net.Conn) { do(tls.Server(c, settings)) }
	}
	const withLength = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\ntoo large"
	const byClose = "HTTP/1.0 413 Content Too Large\r\n\r\ntoo large"
	upload := scenario.Spec{Steps: []scenario.Step{{Name: "upload", Method: "POST", Path: "/", Body: string(large[:1<<20])}}}
	post2 := func(c *http2.Config) { c.Requests[0].Method, c.Requests[0].Body = "POST", large }
	call := grpc.Call{Path: "/p.S/Collect", Messages: [][]byte{large}, ClientStream: true, Count: 1}
	exhausted := literal(literal([]byte{0x88}, "content-type", "application/grpc"), "grpc-status", "8")
	for _, tt := range []struct {
		name   string
		serve  func(net.Conn)
		config config.Config
		status int
	}{
		{"with a length", refusing(withLength), config.Config{NewClients: postLarge(t)}, 413},
		{"until the end", refusing(byClose), config.Config{NewClients: postLarge(t)}, 413},
		{"open loop", refusing(withLength), config.Config{NewClients: postLarge(t), Schedule: poisson(t, 100)}, 413},
		{"by TLS", secure(refusing(withLength)), config.Config{NewClients: postLarge(t), TLS: &tlslayer.Config{ServerName: "h", Insecure: true}}, 413},
		{"users", refusing(withLength), config.Config{NewClients: composers(t, compile(t, upload), "h"), Users: &users.Config{Scenario: compile(t, upload), Count: 2}}, 413},
		{"users, until the end", refusing(byClose), config.Config{NewClients: composers(t, compile(t, upload), "h"), Users: &users.Config{Scenario: compile(t, upload), Count: 2}}, 413},
		{"HTTP/2", refusing2(false, status413), config.Config{NewMuxes: get2(t, "h", 1, post2), Streams: 1}, 413},
		{"HTTP/2, RST_STREAM", refusing2(true, status413), config.Config{NewMuxes: get2(t, "h", 1, post2), Streams: 1}, 413},
		{"gRPC", refusing2(false, exhausted), config.Config{NewMuxes: calls(t, 1, call), Streams: 1}, 8},
		{"gRPC, RST_STREAM", refusing2(true, exhausted), config.Config{NewMuxes: calls(t, 1, call), Streams: 1}, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.config
			c.Address, c.Connections, c.Requests = listen(t, tt.serve), 2, requests
			c.Timeout, c.Drain = hang, hang
			r := run(t, c)
			if r.Status[tt.status] != requests || r.Counts.ByKind[wire.Status] != requests || r.Connections.Unanswered != 0 {
				t.Errorf("status %v, failures %v, %d connections unanswered; want %d × %d", r.Status, r.Failures, r.Connections.Unanswered, requests, tt.status)
			}
		})
	}
}

// A good status whose content only the end of the connection ends may have been cut short by a reset.
func TestGoodAnswerThatResetCuts(t *testing.T) {
	r := run(t, config.Config{
		Address: listen(t, refusing("HTTP/1.1 200 OK\r\n\r\nfine")), NewClients: postLarge(t), Connections: 1, Requests: 5, Timeouts: options.Timeouts{Timeout: hang}, Drain: time.Minute,
	})
	if r.Counts.OK != 0 || r.Counts.ByKind[wire.Reset] != 5 {
		t.Errorf("%+v, %v; want 5 resets", r.Counts, r.Failures)
	}
}

// A response that is larger than this side takes is an answer.
func TestTooLargeIsAnAnswer(t *testing.T) {
	t.Parallel()
	const requests = 6
	address := listen(t, func(c net.Conn) {
		if readHead(c) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 100_000)+"\r\n\r\n") // the client hangs up
		}
	})
	r := run(t, config.Config{Address: address, NewClients: get(t, "h"), Connections: 2, Requests: requests, Window: hang})
	if r.Counts.ByKind[wire.Limit] != requests || r.Connections.Unanswered != 0 {
		t.Errorf("%+v, %d connections unanswered", r.Counts, r.Connections.Unanswered)
	}
}
