package differential

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protowire"
)

// written is the server's address in inputs and recordings. It is as long as any address of a real server. Some inputs have
// the port alone.
const (
	written     = writtenHost + writtenPort
	writtenHost = "127.0.0.1:"
	writtenPort = "18080"
)

// A server records the requests that it answers: of HTTP/1.1 as they were sent, and calls of gRPC.
type server struct {
	address  string
	answer   func(method, target string) (status int, header, body string)
	serving  sync.WaitGroup // connections of WebSocket
	mu       sync.Mutex     // guards requests
	requests []request
}

// A request is what was sent.
type request struct {
	method, target string
	header         []string // "name: value", names in small letters
	body           []byte
}

// newServer starts a server, which ends with the test.
func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: l.Addr().String()}
	calls := &handed{conns: make(chan net.Conn), closed: make(chan struct{}), address: l.Addr()}
	grpc := &http.Server{Handler: http.HandlerFunc(s.call), Protocols: new(http.Protocols)} //nolint:gosec // clients are this test's
	grpc.Protocols.SetUnencryptedHTTP2(true)
	var serving sync.WaitGroup
	serving.Go(func() { _ = grpc.Serve(calls) })
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			serving.Go(func() { s.serve(conn, calls) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		_ = grpc.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return s
}

// handed is a listener of connections that another one has accepted.
type handed struct {
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	address net.Addr
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handed) Addr() net.Addr { return h.address }

// A peekedConn is a connection whose first bytes were read.
type peekedConn struct {
	net.Conn
	in *bufio.Reader
}

func (b peekedConn) Read(p []byte) (int, error) { return b.in.Read(p) }

// serve answers the requests of a connection until it ends. The standard library's server would refuse what tools may
// send, such as odd targets.
func (s *server) serve(conn net.Conn, calls *handed) {
	in := bufio.NewReader(conn)
	if start, err := in.Peek(len("PRI ")); err == nil && string(start) == "PRI " {
		select {
		case calls.conns <- peekedConn{conn, in}:
		case <-calls.closed:
			_ = conn.Close()
		}
		return
	}
	defer func() { _ = conn.Close() }()
	for {
		r, err := readRequest(in, conn)
		if err != nil {
			return
		}
		s.keep(r)
		if slices.ContainsFunc(r.header, func(field string) bool { return strings.HasPrefix(field, "sec-websocket-key: ") }) {
			s.serving.Add(1)
			defer s.serving.Done()
			s.repeat(conn, in, r)
			return
		}
		status, header, body := 200, "", defaultAnswer
		if s.answer != nil {
			status, header, body = s.answer(r.method, r.target)
		}
		if !strings.Contains(strings.ToLower(header), "content-type:") {
			header += "Content-Type: application/json\r\n"
		}
		text := fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n", status, cmp.Or(http.StatusText(status), "Status"), header, len(body))
		if r.method != "HEAD" {
			text += body
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// repeat sends the messages of a WebSocket connection back, and records them and the code by which the client closes it.
func (s *server) repeat(conn net.Conn, in *bufio.Reader, r request) {
	h := &http.Request{Method: r.method, Header: http.Header{}}
	for _, field := range r.header {
		name, value, _ := strings.Cut(field, ": ")
		h.Header.Add(name, value)
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, EnableCompression: true}
	c, err := upgrader.Upgrade(hijacked{conn, in}, h, nil)
	if err != nil {
		return
	}
	for {
		kind, message, err := c.ReadMessage()
		if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
			s.keep(request{method: "CLOSE", target: strconv.Itoa(closed.Code)})
		}
		if err != nil {
			return
		}
		s.keep(request{method: "MESSAGE", target: strconv.Itoa(kind), body: message})
		if c.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// hijacked is the answer to a request whose connection is taken over.
type hijacked struct {
	net.Conn
	in *bufio.Reader
}

func (h hijacked) Header() http.Header { return http.Header{} }

func (h hijacked) WriteHeader(int) {}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.Conn, bufio.NewReadWriter(h.in, bufio.NewWriter(h.Conn)), nil
}

// defaultAnswer has what tests of scripts take from responses.
const defaultAnswer = `{"id": 17, "name": "ann", "token": "t0k3n", "items": [{"id": 1}, {"id": 2}], "ok": true}`

func (s *server) keep(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// take returns the requests since the last time, after those of the connections of WebSocket that clients have ended.
func (s *server) take() []request {
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// maxBody bounds what is recorded of a body.
const maxBody = 16 << 20

// readRequest reads a request of HTTP/1.1 as it stands.
func readRequest(in *bufio.Reader, out io.Writer) (r request, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return r, err
	}
	line = strings.TrimRight(line, "\r\n")
	r.method, line, _ = strings.Cut(line, " ")
	if at := strings.LastIndexByte(line, ' '); at >= 0 {
		line = line[:at]
	}
	r.target = line
	length, chunked := 0, false
	for {
		field, err := in.ReadString('\n')
		if err != nil {
			return r, err
		}
		if field = strings.TrimRight(field, "\r\n"); field == "" {
			break
		}
		name, value, _ := strings.Cut(field, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		r.header = append(r.header, name+": "+value)
		switch name {
		case "content-length":
			if length, err = strconv.Atoi(value); err != nil || length > maxBody {
				return r, fmt.Errorf("content-length %s: %w", value, err)
			}
		case "transfer-encoding":
			chunked = true
		case "expect":
			if _, err := io.WriteString(out, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return r, err
			}
		}
	}
	if chunked {
		if r.body, err = io.ReadAll(io.LimitReader(httputil.NewChunkedReader(in), maxBody)); err != nil {
			return r, err
		}
		_, err = in.ReadString('\n')
		return r, err
	}
	r.body = make([]byte, length)
	_, err = io.ReadFull(in, r.body)
	return r, err
}

// call records a call of gRPC, and answers it with an empty message; a method named Chat answers each message.
func (s *server) call(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	answer := make([]byte, 5)
	isChat := strings.HasSuffix(r.URL.Path, "/Chat")
	var body []byte
	for frame := make([]byte, 5); ; {
		if _, err := io.ReadFull(r.Body, frame); err != nil {
			break
		}
		message := make([]byte, min(binary.BigEndian.Uint32(frame[1:]), maxBody))
		if _, err := io.ReadFull(r.Body, message); err != nil {
			return
		}
		if body = slices.Concat(body, frame, message); isChat {
			_, _ = w.Write(answer) // the client may be gone
			_ = http.NewResponseController(w).Flush()
		}
	}
	kept := request{method: r.Method, target: r.RequestURI, body: framesOf(body)}
	for name, values := range r.Header {
		for _, value := range values {
			kept.header = append(kept.header, strings.ToLower(name)+": "+value)
		}
	}
	kept.header = append(kept.header, "host: "+r.Host)
	s.keep(kept)
	if !isChat {
		_, _ = w.Write(answer)
	}
	w.Header().Set("Grpc-Status", "0")
}

// framesOf writes the messages of a call one a line, in hexadecimal digits, as they were framed.
func framesOf(body []byte) (text []byte) {
	for len(body) >= 5 {
		end := 5 + int(binary.BigEndian.Uint32(body[1:5]))
		if end > len(body) {
			break
		}
		message := body[5:end]
		if body[0] == 1 { // how well it was compressed does not matter
			if r, err := gzip.NewReader(bytes.NewReader(message)); err == nil {
				if plain, err := io.ReadAll(io.LimitReader(r, maxBody)); err == nil {
					message = plain
				}
			}
		}
		text = fmt.Appendf(text, "compressed %d: %x\n", body[0], inOrder(message))
		body = body[end:]
	}
	return text
}

// inOrder returns a message of protocol buffers with its fields by number: any order means the same.
func inOrder(message []byte) []byte {
	type numbered struct {
		number protowire.Number
		bytes  []byte
	}
	var all []numbered
	for rest := message; len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return message
		}
		all = append(all, numbered{number, rest[:n]})
		rest = rest[n:]
	}
	slices.SortStableFunc(all, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	var out []byte
	for _, f := range all {
		out = append(out, f.bytes...)
	}
	return out
}

// An omission is a header field that is not compared. The pattern matches "name: value" as a whole.
type omission struct{ pattern, reason string }

// omitted are the fields that say nothing about what a file asks for.
var omitted = []omission{
	{`host: ` + regexp.QuoteMeta(written), "it is what the URL says"},
	{`connection: .*`, "each client decides on its own connections"},
	{`keep-alive: .*`, "each client decides on its own connections"},
	{`content-length: .*`, "the body is compared"},
	{`transfer-encoding: .*`, "the body is compared, however it was framed"},
	{`expect: .*`, "it is about how the body is sent"},
	{`accept: \*/\*`, "it means the same as no such field (RFC 9110, 12.5.1)"},
	{`user-agent: (dyno|curl|k6|Go-http-client|grpc-go|grpc-dyno|PostmanRuntime|python-requests|Apache-HttpClient)\b.*`, "each tool names itself"},
	{`(upgrade|sec-websocket-(key|version|extensions)): .*`, "it is about how the connection is opened"},
	{`te: trailers`, "each client of gRPC sends it"},
	{`grpc-timeout: .*`, "it is the rest of a time limit"},
	{`grpc-accept-encoding: .*`, "it is about the answer"},
}

var boundaryOf = regexp.MustCompile(`boundary="?([^";,]+)"?`)

// text writes a request as recordings have it. Own are fields that the tool adds of its own accord.
func (s *server) text(r request, own []omission) string {
	r.body = bytes.Clone(r.body)
	var fields []string
	for _, field := range r.header {
		if m := boundaryOf.FindStringSubmatch(field); m != nil && strings.HasPrefix(field, "content-type: multipart/") {
			field = boundaryOf.ReplaceAllLiteralString(field, "boundary=BOUNDARY")
			r.body = bytes.ReplaceAll(r.body, []byte("--"+m[1]), []byte("--BOUNDARY"))
		}
		field = strings.ReplaceAll(field, ":"+strings.TrimPrefix(s.address, writtenHost), ":"+writtenPort)
		left := func(o omission) bool { return regexp.MustCompile(`\A(?:` + o.pattern + `)\z`).MatchString(field) }
		if !slices.ContainsFunc(omitted, left) && !slices.ContainsFunc(own, left) {
			fields = append(fields, field)
		}
	}
	slices.SortStableFunc(fields, func(a, b string) int { // fields of one name keep their order
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return cmp.Compare(nameA, nameB)
	})
	var b strings.Builder
	for _, line := range append([]string{r.method + " " + r.target}, fields...) {
		b.WriteString(escape(line) + "\n")
	}
	if len(r.body) > 0 {
		for line := range strings.SplitSeq(string(r.body), "\n") {
			b.WriteString("> " + escape(line) + "\n")
		}
	}
	return strings.ReplaceAll(b.String(), s.address, written) // in bodies
}

// escape writes what cannot be read, and backslashes, as Go does.
func escape(line string) string {
	var b strings.Builder
	for len(line) > 0 {
		r, size := utf8.DecodeRuneInString(line)
		if quoted := strconv.Quote(line[:size]); r == '"' {
			b.WriteByte('"')
		} else {
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		line = line[size:]
	}
	return b.String()
}

// texts writes requests as recordings have them: in their order, or sorted.
func (s *server) texts(all []request, own []omission, inOrder bool) string {
	var texts []string
	for _, r := range all {
		texts = append(texts, s.text(r, own))
	}
	if !inOrder {
		slices.Sort(texts)
	}
	return strings.Join(texts, "\n")
}
