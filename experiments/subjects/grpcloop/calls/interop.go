package calls

import "dyno/experiments/subjects/grpcloop/http2"

// grpc.testing.TestService: what interoperability tests of gRPC call. The cost of the
// other calls is not changed by it.

// Numbers of its methods, after those of the echo.
const (
	methodEmpty = methodReflectAlpha + 1 + iota
	methodUnary
	methodStreamIn
	methodStreamOut
	methodFullDuplex

	ownMethods = methodFullDuplex // how many there are
)

// interopMethods are their paths, in the order of their numbers.
var interopMethods = []string{
	"/grpc.testing.TestService/EmptyCall",
	"/grpc.testing.TestService/UnaryCall",
	"/grpc.testing.TestService/StreamingInputCall",
	"/grpc.testing.TestService/StreamingOutputCall",
	"/grpc.testing.TestService/FullDuplexCall",
}

// testMessage is what the requests of TestService have that matters: SimpleRequest,
// StreamingInputCallRequest and StreamingOutputCallRequest.
type testMessage struct {
	sizes   []int  // of the answers that are wanted
	payload int    // length of the payload's body
	named   bool   // the answer says who the server is
	status  uint32 // 0, or how the call ends
	text    string
}

// decode reads the request of a method. The fields have the numbers of that method's
// message.
func (m *testMessage) decode(method int, b []byte) bool {
	payload := 3
	if method == methodStreamIn {
		payload = 1
	}
	for len(b) > 0 {
		f, rest, valid := next(b)
		if !valid {
			return false
		}
		b = rest
		switch {
		case f.number == payload && f.wire == wireBytes:
			for inner := range fields(f.bytes) {
				if inner.number == 2 {
					m.payload = len(inner.bytes)
				}
			}
		case f.number == 2 && f.wire == wireVarint && method == methodUnary:
			m.sizes = append(m.sizes[:0], int(int32(f.value)))
		case f.number == 9 && f.wire == wireVarint && method == methodUnary:
			m.named = f.value != 0
		case f.number == 2 && f.wire == wireBytes && method != methodStreamIn:
			size := 0
			for inner := range fields(f.bytes) {
				if inner.number == 1 {
					size = int(int32(inner.value))
				}
			}
			m.sizes = append(m.sizes, size)
		case f.number == 7 && f.wire == wireBytes:
			for inner := range fields(f.bytes) {
				switch inner.number {
				case 1:
					m.status = uint32(inner.value)
				case 2:
					m.text = string(inner.bytes)
				}
			}
		}
	}
	return true
}

// interop takes one message of TestService.
func (l *Loop) interop(k *call, compressed bool, b []byte) {
	s := k.stream
	method := s.Request.Method
	if method == methodEmpty {
		if l.answer(k, compressed, nil) {
			l.end(k, ok, "")
		}
		return
	}
	var m testMessage
	if !m.decode(method, b) {
		l.malformed(k)
		return
	}
	if method == methodStreamIn {
		k.bytes += uint64(m.payload)
		return
	}
	if m.status != 0 {
		l.end(k, m.status, m.text)
		return
	}
	if method == methodUnary && len(m.sizes) == 0 {
		m.sizes = []int{0}
	}
	total := 0
	for _, size := range m.sizes {
		if size < 0 || size > l.config.MaxMessage-total {
			l.end(k, resourceExhausted, "the answers are too large")
			return
		}
		total += size
	}
	s.Conn.Respond(s, s.Request.Encoding == http2.Gzip && s.Request.AcceptsGzip)
	k.out, k.sent = k.out[:0], 0
	for _, size := range m.sizes {
		l.plain = appendMessage(l.plain[:0], 1, appendBytes(nil, 2, make([]byte, size)))
		if m.named {
			l.plain = appendBytes(l.plain, 4, "dyno")
		}
		k.out = append(k.out, l.framed(nil, compressed, l.plain)...)
	}
	if l.flush(k) && l.unary(method) {
		l.end(k, ok, "")
	}
}
