package http1

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// ok shortens the outcome of a good response.
func ok(status int, body int64, reusable bool) outcome {
	return outcome{Outcome: wiretest.Outcome{Done: true, Reusable: reusable}, status: status, body: body}
}

// then adds what the bytes after the response, or the end, met.
func (o outcome) then(err error) outcome { o.After = err; return o }

// but adds how a response departs from the protocol.
func (o outcome) but(departs wire.Deviations) outcome { o.departs = departs; return o }

// failed shortens the outcome of a bad response.
func failed(err *wire.Error, status int, body int64) outcome {
	return outcome{Outcome: wiretest.Outcome{Err: err}, status: status, body: body}
}

// cut shortens the outcome of a response that the end of the connection met.
func cut(status int, body int64, after error) outcome {
	return outcome{Outcome: wiretest.Outcome{After: after}, status: status, body: body}
}

type responseTest struct {
	name    string
	input   string
	request string // getRequest if empty
	small   bool   // a header may have 80 bytes
	accept  func(int) bool
	want    outcome // but for used
	used    int     // all of input if 0
}

func (tt responseTest) config() Config {
	c := Config{Request: []byte(getRequest), Accept: tt.accept}
	if tt.request != "" {
		c.Request = []byte(tt.request)
	}
	if tt.small {
		c.MaxHeader = smallHeader
	}
	return c
}

// smallHeader keeps the tests of limits short.
const smallHeader = 80

const (
	headRequest  = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"
	closeRequest = "GET / HTTP/1.1\r\nHost: h\r\nconnection: foo, Close\r\n\r\n"
)

var responseTests = []responseTest{
	// Bodies.
	{name: "length", input: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: ok(200, 5, true)},
	{name: "lower case, no space, tabs", input: "HTTP/1.1 200 OK\r\ncontent-length:3\r\nconnection:\tfoo\t\r\n\r\nabc", want: ok(200, 3, true)},
	{name: "no reason", input: "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, true)},
	{name: "value beyond ASCII", input: "HTTP/1.1 200 OK\r\nX: \x80\xff\xe9 long enough\r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, true)},
	{name: "tabs in a value", input: "HTTP/1.1 200 OK\r\nX: a\tb\tcdefghijkl\tmnop\r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, true)},
	{name: "same length twice", input: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, true)},
	{name: "same length in a list", input: "HTTP/1.1 200 OK\r\nContent-Length: 2 , 02\r\n\r\nhi", want: ok(200, 2, true)},
	{name: "nginx", input: nginx, want: ok(200, 64, true)},
	{name: "to the end", input: "HTTP/1.1 200 OK\r\n\r\nhello", want: cut(200, 5, nil)},
	{name: "to the end, bad status", input: "HTTP/1.1 500 no\r\n\r\nhello", want: cut(500, 5, wire.StatusError(500))},
	{name: "204 with length", input: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", want: ok(204, 0, true)},
	{name: "304", input: "HTTP/1.1 304 Not Modified\r\n\r\n", want: ok(304, 0, true)},
	{name: "HEAD with length", request: headRequest, input: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", want: ok(200, 0, true)},
	{name: "HEAD chunked", request: headRequest, input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", want: ok(200, 0, true)},
	{name: "HEAD without length", request: headRequest, input: "HTTP/1.1 200 OK\r\n\r\n", want: ok(200, 0, true)},

	// Chunks.
	{name: "chunked", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: ok(200, 5, true)},
	{name: "chunked, sizes", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n00a\r\n0123456789\r\nA\r\n0123456789\r\n1\r\nx\r\n000\r\n\r\n", want: ok(200, 21, true)},
	{name: "chunked, extensions", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a;b=\"c\"\r\nhi\r\n0 ; z\r\n\r\n", want: ok(200, 2, true)},
	{name: "chunked, trailers", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n", want: ok(200, 2, true)},
	{name: "gzip and chunked", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: , chunked ,\r\n\r\n2\r\nhi\r\n0\r\n\r\n", want: ok(200, 2, true)},
	{name: "data that looks like framing", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n", want: ok(200, 5, true)},

	// Keep-alive.
	{name: "close", input: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, false)},
	{name: "close in a list", input: "HTTP/1.1 200 OK\r\nCONNECTION: x,, cLoSe ,y\r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, false)},
	{name: "closed is not close", input: "HTTP/1.1 200 OK\r\nConnection: closed\r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, true)},
	{name: "the request says close", request: closeRequest, input: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", want: ok(200, 0, false)},
	{name: "1.0", input: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, false)},
	{name: "1.0 keep-alive", input: "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, true)},
	{name: "1.0 keep-alive, close", input: "HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, false)},

	// Deviations that leave no doubt.
	{name: "folded field", input: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, true).but(wire.FoldedLines)},
	{name: "folded by a tab, what looks like a field", input: "HTTP/1.1 200 OK\r\nA: b\r\n\tContent-Length: 7\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, true).but(wire.FoldedLines)},
	{name: "folded last field", input: "HTTP/1.1 204 No\r\nA: b\r\n c\r\n\td\r\n\r\n", want: ok(204, 0, true).but(wire.FoldedLines)},
	{name: "folded length", input: "HTTP/1.1 200 OK\r\nContent-Length:\r\n  2\r\n\r\nhi", want: ok(200, 2, true).but(wire.FoldedLines)},
	{name: "folded length of two numbers", input: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n 2\r\n\r\nhi", used: 40, want: failed(ErrContentLength, 200, 0).but(wire.FoldedLines)},
	{name: "folded coding", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip,\r\n chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", want: ok(200, 2, true).but(wire.FoldedLines)},
	{name: "folded name", input: "HTTP/1.1 200 OK\r\nA\r\n : b\r\n\r\n", used: 26, want: failed(ErrFieldNameSpace, 200, 0).but(wire.FoldedLines)},
	{name: "fold with a bare CR", input: "HTTP/1.1 200 OK\r\nA: b\r\n c\rd\r\n\r\n", used: 29, want: failed(ErrBareCR, 200, 0).but(wire.FoldedLines)},
	{name: "fold with a control byte", input: "HTTP/1.1 200 OK\r\nA: b\r\n \x00\r\n\r\n", used: 27, want: failed(ErrControl, 200, 0).but(wire.FoldedLines)},
	{name: "folded trailer", input: chunkedHeader + "0\r\nA: b\r\n c\r\n\r\n", want: ok(200, 0, true).but(wire.FoldedLines)},
	{name: "bare LF", input: "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", want: ok(200, 2, true).but(wire.BareLF)},
	{name: "bare LF at the end", input: "HTTP/1.1 204 No\r\nA: b\r\n\n", want: ok(204, 0, true).but(wire.BareLF)},
	{name: "bare LF and folding", input: "HTTP/1.1 204 No\nA: b\n c\n\n", want: ok(204, 0, true).but(wire.BareLF | wire.FoldedLines)},
	{name: "bare LF of chunks", input: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nhi\n0\nA: b\n\n", want: ok(200, 2, true).but(wire.BareLF)},
	{name: "bare LF after data", input: chunkedHeader + "2\r\nhi\n0\r\n\r\n", want: ok(200, 2, true).but(wire.BareLF)},
	{name: "spaces after sizes", input: chunkedHeader + "2  \r\nhi\r\n0\t\r\n\r\n", want: ok(200, 2, true).but(wire.SpacesAtSizes)},
	{name: "of an informational response", input: "HTTP/1.1 103 E\nLink: a\n b\n\nHTTP/1.1 204 No\r\n\r\n", want: ok(204, 0, true).but(wire.BareLF | wire.FoldedLines)},
	{name: "folds beyond the limit", small: true, input: "HTTP/1.1 204 No\r\nA: b\r\n" + strings.Repeat(" c\r\n", 20) + "\r\n", used: 80, want: failed(ErrHeaderTooLarge, 204, 0)},
	{name: "end in a fold", input: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n", want: cut(200, 0, ErrClosedHeader)},

	// Informational responses.
	{name: "100", input: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", want: ok(200, 2, true)},
	{name: "103 with fields that must not count", input: "HTTP/1.1 103 Early Hints\r\nConnection: close\r\nContent-Length: 7\r\n\r\nHTTP/1.1 204 No\r\n\r\n", want: ok(204, 0, true)},
	{name: "as many as allowed", input: strings.Repeat("HTTP/1.1 102 P\r\n\r\n", wire.MaxInformational) + "HTTP/1.1 204 No\r\n\r\n", want: ok(204, 0, true)},
	{name: "more than allowed", input: strings.Repeat("HTTP/1.1 102 P\r\n\r\n", wire.MaxInformational+1), want: failed(ErrInformational, 102, 0)},
	{name: "101", input: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", want: failed(ErrSwitching, 101, 0)},
	{name: "end after 100", input: "HTTP/1.1 100 Continue\r\n\r\n", want: cut(0, 0, ErrClosedHeader)},

	// Statuses.
	{name: "399", input: "HTTP/1.1 399 ?\r\nContent-Length: 0\r\n\r\n", want: ok(399, 0, true)},
	{name: "400", input: "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", want: outcome{Outcome: wiretest.Outcome{Done: true, Err: wire.StatusError(400), Reusable: true}, status: 400, body: 2}},
	{name: "503 and close", input: "HTTP/1.1 503 no\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", want: outcome{Outcome: wiretest.Outcome{Done: true, Err: wire.StatusError(503)}, status: 503}},
	{name: "404 accepted", accept: func(s int) bool { return s == 404 }, input: "HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n", want: ok(404, 0, true)},
	{name: "200 not accepted", accept: func(s int) bool { return s == 404 }, input: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", want: outcome{Outcome: wiretest.Outcome{Done: true, Err: wire.StatusError(200), Reusable: true}, status: 200}},

	// Bytes of no request.
	{name: "two responses", input: "HTTP/1.1 204 No\r\n\r\nHTTP/1.1 204 No\r\n\r\n", used: 19, want: ok(204, 0, false).then(ErrUnsolicited)},

	// Status lines that are none.
	{name: "nothing", input: "", want: cut(0, 0, ErrClosedEarly)},
	{name: "TLS alert", input: "\x15\x03\x01\x00\x02\x02\x46", used: 1, want: failed(ErrNotHTTP, 0, 0)},
	{name: "SSH", input: "SSH-2.0-OpenSSH_9\r\n", used: 1, want: failed(ErrNotHTTP, 0, 0)},
	{name: "lower-case http", input: "HTTp/1.1 200 OK\r\n\r\n", used: 4, want: failed(ErrNotHTTP, 0, 0)},
	{name: "HTTP/2", input: "HTTP/2.0 200 OK\r\n\r\n", used: 6, want: failed(ErrVersion, 0, 0)},
	{name: "HTTP/1.2", input: "HTTP/1.2 200 OK\r\n\r\n", used: 17, want: failed(ErrVersion, 0, 0)},
	{name: "HTTP/1.11", input: "HTTP/1.11 200 OK\r\n\r\n", used: 18, want: failed(ErrStatusLine, 0, 0)},
	{name: "four digits", input: "HTTP/1.1 2000 OK\r\n\r\n", used: 18, want: failed(ErrStatusLine, 0, 0)},
	{name: "status 099", input: "HTTP/1.1 099 OK\r\n\r\n", used: 17, want: failed(ErrStatusLine, 0, 0)},
	{name: "control byte in the reason", input: "HTTP/1.1 200 O\x00K\r\n\r\n", used: 18, want: failed(ErrControl, 0, 0)},

	// Header lines that are none.
	{name: "bare CR in a value", input: "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", used: 25, want: failed(ErrBareCR, 200, 0)},
	{name: "bare CR in a name", input: "HTTP/1.1 200 OK\r\nA\rB: c\r\n\r\n", used: 25, want: failed(ErrBareCR, 200, 0)},
	{name: "NUL", input: "HTTP/1.1 200 OK\r\nA: long enough a value, with a \x00 in it\r\n\r\n", used: 57, want: failed(ErrControl, 200, 0)},
	{name: "tab, then escape", input: "HTTP/1.1 200 OK\r\nA:\t1234567\x1b89\r\n\r\n", used: 32, want: failed(ErrControl, 200, 0)},
	{name: "space before the first field", input: "HTTP/1.1 200 OK\r\n A: b\r\n\r\n", used: 24, want: failed(ErrFolding, 200, 0)},
	{name: "blanks before the first field, folded", input: "HTTP/1.1 200 OK\r\n \r\n\t\r\n A: b\r\n\r\n", used: 30, want: failed(ErrFolding, 200, 0).but(wire.FoldedLines)},
	{name: "no colon", input: "HTTP/1.1 200 OK\r\nAb\r\n\r\n", used: 21, want: failed(ErrFieldLine, 200, 0)},
	{name: "no name", input: "HTTP/1.1 200 OK\r\n: b\r\n\r\n", used: 22, want: failed(ErrFieldNameEmpty, 200, 0)},
	{name: "space before the colon", input: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", used: 37, want: failed(ErrFieldNameSpace, 200, 0)},
	{name: "name that is no token", input: "HTTP/1.1 200 OK\r\nA(b): c\r\n\r\n", used: 26, want: failed(ErrFieldName, 200, 0)},

	// Framing that is in doubt.
	{name: "lengths differ", input: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", used: 55, want: failed(ErrContentLengths, 200, 0)},
	{name: "lengths differ in a list", input: "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nhi", used: 39, want: failed(ErrContentLengths, 200, 0)},
	{name: "length +2", input: "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", used: 37, want: failed(ErrContentLength, 200, 0)},
	{name: "no length", input: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi", used: 34, want: failed(ErrContentLength, 200, 0)},
	{name: "length 2^63", input: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", used: 54, want: failed(ErrContentLength, 200, 0)},
	{name: "gzip only", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", want: failed(ErrTransferEncoding, 200, 0)},
	{name: "chunked not last", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", used: 51, want: failed(ErrTransferEncoding, 200, 0)},
	{name: "chunked not last, two lines", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", used: 74, want: failed(ErrTransferEncoding, 200, 0)},
	{name: "chunked twice", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", used: 54, want: failed(ErrTransferEncoding, 200, 0)},
	{name: "chunked 1.0", input: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", want: failed(ErrTransferVersion, 200, 0)},
	{name: "chunked and length", input: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", want: failed(ErrBothLengths, 200, 0)},

	// Chunks that are none. The header is 47 bytes.
	{name: "no size", input: chunkedHeader + "\r\nhi", used: 49, want: failed(ErrChunkSize, 200, 0)},
	{name: "size x", input: chunkedHeader + "x\r\nhi", used: 50, want: failed(ErrChunkSize, 200, 0)},
	{name: "size, space, x", input: chunkedHeader + "2 x\r\nhi", used: 52, want: failed(ErrChunkSize, 200, 0)},
	{name: "size 2^63", input: chunkedHeader + "8000000000000000\r\n", want: failed(ErrChunkOverflow, 200, 0)},
	{name: "bare CR in an extension", input: chunkedHeader + "2;\r0\r\nhi", used: 53, want: failed(ErrBareCR, 200, 0)},
	{name: "longest extension", input: chunkedHeader + "1;" + strings.Repeat("x", 4092) + "\r\nx\r\n0\r\n\r\n", want: ok(200, 1, true)},
	{name: "extension too long", input: chunkedHeader + "1;" + strings.Repeat("x", 4093) + "\r\nx\r\n0\r\n\r\n", used: 47 + 4096, want: failed(ErrChunkLine, 200, 0)},
	{name: "data too long", input: chunkedHeader + "2\r\nhi!\r\n", used: 53, want: failed(ErrChunkEnd, 200, 2)},
	{name: "data, CR, no LF", input: chunkedHeader + "2\r\nhi\r0\r\n\r\n", used: 54, want: failed(ErrChunkEnd, 200, 2)},
	{name: "bad trailer", input: chunkedHeader + "0\r\n: b\r\n\r\n", used: 55, want: failed(ErrFieldNameEmpty, 200, 0)},
	{name: "space before the first trailer", input: chunkedHeader + "0\r\n A: b\r\n\r\n", used: 57, want: failed(ErrFolding, 200, 0)},

	// Limits.
	{name: "header at the limit", small: true, input: "HTTP/1.1 204 No\r\nA: " + strings.Repeat("x", 56) + "\r\n\r\n", want: ok(204, 0, true)},
	{name: "header beyond it by the last byte", small: true, input: "HTTP/1.1 204 No\r\nA: " + strings.Repeat("x", 57) + "\r\n\r\n", used: 80, want: failed(ErrHeaderTooLarge, 204, 0)},
	{name: "header beyond it by a line", small: true, input: "HTTP/1.1 204 No\r\n" + strings.Repeat("A: b\r\n", 12) + "\r\n", used: 80, want: failed(ErrHeaderTooLarge, 204, 0)},
	{name: "status line beyond it", small: true, input: "HTTP/1.1 204 " + strings.Repeat("x", 80), used: 80, want: failed(ErrHeaderTooLarge, 0, 0)},
	{name: "each 1xx has the limit to itself", small: true, input: "HTTP/1.1 103 E\r\nA: " + strings.Repeat("x", 50) + "\r\n\r\nHTTP/1.1 204 No\r\nA: " + strings.Repeat("x", 50) + "\r\n\r\n", want: ok(204, 0, true)},
	{name: "trailers at the limit", small: true, input: chunkedHeader + "0\r\nA: " + strings.Repeat("x", 73) + "\r\n\r\n", want: ok(200, 0, true)},
	{name: "trailers beyond it", small: true, input: chunkedHeader + "0\r\nA: " + strings.Repeat("x", 74) + "\r\n\r\n", used: 50 + 80, want: failed(ErrTrailerTooLarge, 200, 0)},

	// The end of the connection.
	{name: "end in the version", input: "HTT", want: cut(0, 0, ErrClosedHeader)},
	{name: "end in the header", input: "HTTP/1.1 200 OK\r\nA: b\r\n", want: cut(200, 0, ErrClosedHeader)},
	{name: "end in the body", input: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", want: cut(200, 2, ErrClosedBody)},
	{name: "end in a chunk", input: chunkedHeader + "3\r\nhi", want: cut(200, 2, ErrClosedBody)},
	{name: "end in the trailers", input: chunkedHeader + "0\r\nA: b\r\n\r", want: cut(200, 0, ErrClosedTrailer)},
}

const chunkedHeader = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// Every case gives the same outcome in one piece, byte by byte, and cut in two at
// any place; and again when a connection or a template is used a second time.
func TestResponse(t *testing.T) {
	for _, tt := range responseTests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want.Used = tt.used; tt.used == 0 {
				want.Used = len(tt.input)
			}
			input := []byte(tt.input)
			c := newTemplate(t, tt.config()).Client()
			check := func(cuts ...int) {
				t.Helper()
				c.Reset()
				if got := feed(t, c, input, cuts...); got != want {
					t.Fatalf("cut at %v:\n got %v\nwant %v", cuts, got, want)
				}
			}
			check()
			check()
			every := make([]int, len(input))
			for i := range input {
				every[i] = i + 1
				check(i)
			}
			check(every...)
			check()
		})
	}
}

func TestUnsolicited(t *testing.T) {
	c := newTemplate(t, testConfig()).Client()
	if c.Reusable() {
		t.Error("reusable before the first exchange")
	}
	if n, done, err := c.Response(nil); n != 0 || done || err != nil {
		t.Errorf("no bytes while idle: %d, %v, %v", n, done, err)
	}
	if got := feed(t, c, []byte(nginx)); !got.Reusable {
		t.Fatal(got)
	}
	if n, done, err := c.Response([]byte("x")); n != 0 || done || !errors.Is(err, ErrUnsolicited) {
		t.Errorf("bytes while idle: %d, %v, %v", n, done, err)
	}
	if c.Reusable() {
		t.Error("reusable after bytes of no request")
	}
	c.Reset()
	if got := feed(t, c, []byte(nginx)); !got.Reusable {
		t.Errorf("after reset: %v", got)
	}
	c.Request()
	if n, done, err := c.Response([]byte(nginx + "x")); n != len(nginx) || !done || err != nil || c.Reusable() {
		t.Errorf("a byte too many: %d, %v, %v, reusable %v", n, done, err, c.Reusable())
	}
}

// A connection given up in the middle leaves nothing to the next one.
func TestResetMidway(t *testing.T) {
	tmpl := newTemplate(t, testConfig())
	for _, input := range []string{nginx, chunkedResponse, "HTTP/1.1 100 C\r\n\r\n" + nginx} {
		for i := range input {
			c := tmpl.Client()
			c.Request()
			if _, done, err := c.Response([]byte(input[:i])); done || err != nil {
				t.Fatalf("first %d bytes: done %v, %v", i, done, err)
			}
			c.Reset()
			if got := feed(t, c, []byte(nginx)); !got.Done || got.Err != nil || got.body != 64 || !got.Reusable {
				t.Fatalf("after reset at %d: %v", i, got)
			}
		}
	}
}

// Every byte in every place of a word is distinguished, whatever surrounds it.
func TestTextLen(t *testing.T) {
	allowed := func(b byte) bool { return b == '\t' || b >= ' ' && b != 0x7f }
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		s := make([]byte, rng.IntN(40))
		for i := range s {
			switch rng.IntN(12) {
			case 0:
				s[i] = byte(rng.IntN(256))
			case 1:
				s[i] = "\t \x1f\x7f\x80\xff~!"[rng.IntN(8)]
			default:
				s[i] = 'a'
			}
		}
		want := slices.IndexFunc(s, func(b byte) bool { return !allowed(b) })
		if want < 0 {
			want = len(s)
		}
		if got := textLen(s); got != want {
			t.Fatalf("textLen(%q) = %d; want %d", s, got, want)
		}
	}
}
