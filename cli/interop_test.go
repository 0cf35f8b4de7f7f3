package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"dyno/load/rpc"
)

// TestInteropServer makes the calls of gRPC's interoperability cases to grpc-go's own server
// for them. What was sent and answered is read off the wire, by another HTTP/2 than dyno's:
// a load counts responses, and does not keep them.
//
// Cases about features that a load does not have are not here. These are Google's credentials
// (compute_engine_creds, jwt_token_creds, oauth2_auth_token, per_rpc_creds and the like) and
// reports to load balancers (orca_per_rpc, orca_oob). Cases that only repeat calls for long
// are not here either (rpc_soak, channel_soak, pick_first_unary).
func TestInteropServer(t *testing.T) {
	server := interopServer(t)
	schema, err := rpc.FromProtos(t.Context(), []string{interopProto}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const (
		unary, output, input, duplex = "TestService/UnaryCall", "TestService/StreamingOutputCall", "TestService/StreamingInputCall", "TestService/FullDuplexCall"

		special = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
	)
	requests, responses := []int{27182, 8, 1828, 45904}, []int{31415, 9, 2653, 58979}
	var uploads, pings, sizes []string
	for i, size := range requests {
		uploads = append(uploads, fmt.Sprintf(`{"payload": %s}`, payload(size)))
		sizes = append(sizes, fmt.Sprintf(`{"size": %d}`, responses[i]))
		pings = append(pings, fmt.Sprintf(`{"response_parameters": [{"size": %d}], "payload": %s}`, responses[i], payload(size)))
	}
	quoted, err := json.Marshal(special)
	if err != nil {
		t.Fatal(err)
	}
	said := func(code int, message string) string {
		return fmt.Sprintf(`{"response_status": {"code": %d, "message": %s}}`, code, message)
	}
	metadata := []string{"-H", "x-grpc-test-echo-initial: test_initial_metadata_value", "-H", "x-grpc-test-echo-trailing-bin: q6ur"}
	large := fmt.Sprintf(`{"response_size": 314159, "payload": %s}`, payload(271828))
	const calls = 3 // of each case, one after another on one connection
	for _, c := range []struct {
		name, method string
		message      string // on standard input; none: nothing is said of it
		args         []string
		status       string // of all calls
		failure      string // by which all are counted
		ended        string // how, if not by the server's status: "given up"
		sent         []int  // bytes of the payloads of each call
		received     []int
		total        int // bytes, as the server says
		echoed       bool
	}{
		{name: "empty_unary", method: "TestService/EmptyCall", status: "OK", sent: []int{0}, received: []int{0}},
		{name: "large_unary", method: unary, message: large, status: "OK", sent: []int{271828}, received: []int{314159}},
		{name: "client_streaming", method: input, message: strings.Join(uploads, "\n"), status: "OK", sent: requests, received: []int{0}, total: 74922},
		{name: "server_streaming", method: output, message: fmt.Sprintf(`{"response_parameters": [%s]}`, strings.Join(sizes, ",")), status: "OK", sent: []int{0}, received: responses},
		{name: "ping_pong", method: duplex, message: strings.Join(pings, " "), status: "OK", sent: requests, received: responses},
		{name: "ping_pong without awaiting answers", method: duplex, message: strings.Join(pings, " "), args: []string{"--answered=false"}, status: "OK", sent: requests, received: responses},
		{name: "empty_stream", method: duplex, message: "[]", status: "OK"},
		{name: "custom_metadata unary", method: unary, message: large, args: metadata, status: "OK", sent: []int{271828}, received: []int{314159}, echoed: true},
		{name: "custom_metadata stream", method: duplex, message: pings[0], args: metadata, status: "OK", sent: requests[:1], received: responses[:1], echoed: true},
		{name: "status_code_and_message unary", method: unary, message: said(2, `"test status message"`), status: "UNKNOWN", failure: "status: grpc UNKNOWN: test status message", sent: []int{0}},
		{name: "status_code_and_message stream", method: duplex, message: said(2, `"test status message"`), status: "UNKNOWN", failure: "status: grpc UNKNOWN: test status message", sent: []int{0}},
		{name: "special_status_message", method: unary, message: said(2, string(quoted)), status: "UNKNOWN", failure: "status: grpc UNKNOWN: test with whitespace and Unicode BMP ☺ and non-BMP 😈", sent: []int{0}},
		{name: "unimplemented_method", method: "TestService/UnimplementedCall", status: "UNIMPLEMENTED", failure: "status: grpc UNIMPLEMENTED: ", sent: []int{0}},
		{name: "unimplemented_service", method: "UnimplementedService/UnimplementedCall", status: "UNIMPLEMENTED", failure: "status: grpc UNIMPLEMENTED: unknown service grpc.testing.UnimplementedService", sent: []int{0}},

		// A load gives calls up when their time is over. The case would send nothing before.
		{name: "cancel_after_begin", method: input, message: uploads[1] + uploads[1], args: []string{"--stream-interval", "1h", "--timeout", "100ms"},
			failure: "timeout: grpc DEADLINE_EXCEEDED: no complete response in time", ended: givenUp, sent: []int{8}},
		{name: "cancel_after_first_response", method: duplex, message: pings[0] + pings[0], args: []string{"--stream-interval", "1h", "--timeout", "200ms"},
			failure: "timeout: grpc DEADLINE_EXCEEDED: no complete response in time", ended: givenUp, sent: requests[:1], received: responses[:1]},
		{name: "timeout_on_sleeping_server", method: duplex, message: uploads[0] + uploads[0], args: []string{"--stream-interval", "1h", "--deadline", "1ms"}, ended: inTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			between := newTap(t, server)
			args := append([]string{"grpc", "-q", "-n", fmt.Sprint(calls), "-c", "1", "--check", "--proto", interopProto}, c.args...)
			if c.message != "" {
				args = append(args, "-d", "@")
			}
			trial := load(t, c.message, append(args, between.address, "grpc.testing."+c.method)...).trial
			if c.status != "" && (trial.Counts.ByStatus[c.status] != calls || len(trial.Counts.ByStatus) != 1) {
				t.Errorf("by status %v, want all %s; failures %v", trial.Counts.ByStatus, c.status, trial.Failures)
			}
			late := trial.Counts.Timeouts + trial.Counts.ByStatus["DEADLINE_EXCEEDED"]
			if c.ended == inTime {
				// dyno may lose the CPU between a write and reading the clock. The server's reset then
				// seems to come before the deadline.
				late += trial.Counts.ByKind["reset"]
			}
			if c.ended != "" && late != calls {
				t.Errorf("%+v, want all calls past their deadline; failures %v", trial.Counts, trial.Failures)
			}
			for failure, times := range trial.Failures {
				if c.ended != inTime && (c.failure == "" || !strings.HasPrefix(failure, c.failure) || times != calls) {
					t.Errorf("%d times %q, want %q", times, failure, c.failure)
				}
			}
			method, err := schema.Method("grpc.testing." + c.method)
			if err != nil {
				t.Fatal(err)
			}
			seen := between.calls(t)
			if len(seen) != calls {
				t.Fatalf("%d calls on the wire, want %d", len(seen), calls)
			}
			for _, call := range seen {
				if c.ended != inTime { // when a message may be cut off
					call.expect(t, method, c.sent, c.received, c.total)
				}
				if ok := call.status() != ""; ok != (c.ended == "") && c.ended != inTime {
					t.Errorf("grpc-status %q; the call was to be %s", call.status(), c.ended)
				}
				if c.ended == givenUp && call.reset != http2.ErrCodeCancel {
					t.Errorf("it was reset with %v, want %v", call.reset, http2.ErrCodeCancel)
				}
				if initial, trailing := value(call.header, "x-grpc-test-echo-initial"), value(call.trailers, "x-grpc-test-echo-trailing-bin"); c.echoed &&
					(initial != "test_initial_metadata_value" || strings.TrimRight(trailing, "=") != "q6ur") {
					t.Errorf("the server returns %q and %q of the metadata", initial, trailing)
				}
			}
		})
	}
	// The server has no decompressor: that is said to the client, and by it to people.
	t.Run("client_compressed_unary", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		Main(t.Context(), []string{"grpc", "-q", "-n", "3", "-c", "1", "--compression", "gzip", "--proto", interopProto, "-d", large, server, "grpc.testing." + unary},
			strings.NewReader(""), &stdout, &stderr)
		if want := `status UNIMPLEMENTED × 3 (grpc: Decompressor is not installed for grpc-encoding "gzip")`; !strings.Contains(strings.Join(strings.Fields(stdout.String()), " "), want) {
			t.Errorf("want %q in:\n%s%s", want, stdout.String(), stderr.String())
		}
	})
}

const (
	interopProto = "testdata/grpc/interop.proto"

	givenUp = "given up by dyno"
	inTime  = "over at its deadline, by the side that noticed it first"
)

// payload is a payload of zeros in JSON.
func payload(size int) string {
	return fmt.Sprintf(`{"body": %q}`, base64.StdEncoding.EncodeToString(make([]byte, size)))
}

// interopServer builds grpc-go's server for interoperability tests, in the version that go.mod
// has of its module, and starts it. The test is skipped where the server's own dependencies,
// which are not this module's, cannot be had.
func interopServer(t *testing.T) (address string) {
	t.Helper()
	const module = "google.golang.org/grpc"
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	install := exec.CommandContext(ctx, "go", "install", module+"/interop/server@"+strings.TrimSpace(string(version)))
	folder := t.TempDir()
	install.Env = append(os.Environ(), "GOBIN="+folder)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("grpc-go's interoperability server cannot be built here: %v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(folder, "server"), "-port", "0")
	cmd.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info") // it tells its port in its log alone
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	port := make(chan string, 1)
	go func() {
		defer close(read)
		listening := regexp.MustCompile(`listening on \S*:(\d+)`)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case port <- m[1]:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, log)
	}()
	select {
	case p := <-port:
		return "127.0.0.1:" + p
	case <-read:
	case <-time.After(hangGuard):
	}
	t.Fatal("the interoperability server does not say where it listens")
	return ""
}

// A tap carries bytes between clients and a server, and keeps them.
type tap struct {
	address  string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []*tapped
}

// A tapped connection is what either side has said on one.
type tapped struct{ client, server bytes.Buffer }

func newTap(t *testing.T, server string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{address: l.Addr().String(), listener: l}
	t.Cleanup(func() {
		l.Close()
		p.done.Wait()
	})
	p.done.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c := &tapped{}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.done.Go(func() { c.carry(client, server) })
		}
	})
	return p
}

// carry ends when both sides have.
func (c *tapped) carry(client net.Conn, server string) {
	defer client.Close()
	peer, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer peer.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(io.MultiWriter(client, &c.server), peer)
		client.Close()
	})
	_, _ = io.Copy(io.MultiWriter(peer, &c.client), client)
	peer.Close()
	back.Wait()
}

// A tappedCall is a call as it was on the wire.
type tappedCall struct {
	request, header, trailers []hpack.HeaderField
	sent, received            []byte        // content: messages, each with what stands before it
	reset                     http2.ErrCode // by the client; NO_ERROR without
}

// calls takes what was said on all connections apart, once the clients have ended them. The
// calls are in the order in which they began.
func (p *tap) calls(t *testing.T) (all []*tappedCall) {
	t.Helper()
	p.listener.Close()
	p.done.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		calls := map[uint32]*tappedCall{}
		preface := c.client.Next(len(http2.ClientPreface))
		if string(preface) != http2.ClientPreface {
			t.Fatalf("a connection begins with %q", preface)
		}
		frames(t, &c.client, func(f http2.Frame) {
			id := f.Header().StreamID
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				calls[id] = &tappedCall{request: f.Fields}
				all = append(all, calls[id])
			case *http2.DataFrame:
				calls[id].sent = append(calls[id].sent, f.Data()...)
			case *http2.RSTStreamFrame:
				calls[id].reset = f.ErrCode
			}
		})
		frames(t, &c.server, func(f http2.Frame) {
			call := calls[f.Header().StreamID]
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				if call.header == nil {
					call.header = f.Fields
				}
				if f.StreamEnded() {
					call.trailers = f.Fields
				}
			case *http2.DataFrame:
				call.received = append(call.received, f.Data()...)
			}
		})
	}
	return all
}

// frames calls each with the frames that were said.
func frames(t *testing.T, said io.Reader, each func(http2.Frame)) {
	t.Helper()
	framer := http2.NewFramer(io.Discard, said)
	framer.ReadMetaHeaders = hpack.NewDecoder(1<<16, nil)
	framer.SetMaxReadFrameSize(1<<24 - 1)
	for {
		f, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		each(f)
	}
}

func value(fields []hpack.HeaderField, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func (c *tappedCall) status() string { return value(c.trailers, "grpc-status") }

// expect compares the payloads of a call's messages.
func (c *tappedCall) expect(t *testing.T, m rpc.Method, sent, received []int, total int) {
	t.Helper()
	var got []int
	for _, message := range messages(t, c.sent) {
		got = append(got, payloadOf(t, message, m.Name))
	}
	if !slices.Equal(got, sent) {
		t.Errorf("payloads of %d bytes were sent, want %d", got, sent)
	}
	got = nil
	for _, message := range messages(t, c.received) {
		text, err := m.Decode(message)
		var answer struct {
			Payload               struct{ Body []byte }
			AggregatedPayloadSize int
		}
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(answer.Payload.Body))
		if answer.AggregatedPayloadSize != total {
			t.Errorf("the server has received %d bytes, want %d", answer.AggregatedPayloadSize, total)
		}
	}
	if !slices.Equal(got, received) {
		t.Errorf("payloads of %d bytes were answered, want %d", got, received)
	}
}

// payloadOf returns the size of the payload in a request of a method.
func payloadOf(t *testing.T, request []byte, method string) int {
	t.Helper()
	number := protowire.Number(3)
	if method == "StreamingInputCall" {
		number = 1
	}
	return len(field(t, field(t, request, number), 2))
}

// field returns a field of a message that has a length; nothing if it is not there.
func field(t *testing.T, message []byte, wanted protowire.Number) []byte {
	t.Helper()
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatalf("%.20q is no message", message)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			t.Fatalf("%.20q is no field", message)
		}
		if number == wanted && kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(message[n:])
			return v
		}
		message = message[n+size:]
	}
	return nil
}

// messages takes content apart.
func messages(t *testing.T, content []byte) (all [][]byte) {
	t.Helper()
	for len(content) > 0 {
		if len(content) < 5 || content[0] != 0 || len(content)-5 < int(binary.BigEndian.Uint32(content[1:])) {
			t.Fatalf("content ends with %.20q", content)
		}
		size := int(binary.BigEndian.Uint32(content[1:]))
		all, content = append(all, content[5:5+size]), content[5+size:]
	}
	return all
}
