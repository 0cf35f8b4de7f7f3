// Package contract checks a server of the echo over gRPC against README.md. Its client is grpc-go; requests made by
// hand test what that hides.
package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // for compressed calls
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

// caseTimeout bounds each case. Only a server that hangs needs that long.
const caseTimeout = 2 * time.Minute

// maxPayload is the longest payload that every server accepts.
const maxPayload = 4 << 20

// A Quirk is a deviation of a library from the contract, which a program on that library shares.
type Quirk string

// The quirks of the libraries that programs are written with.
const (
	// PlainAnswers: no answer is compressed.
	PlainAnswers Quirk = "plain answers"
	// ShortStrings: a string that the message's end cuts short is accepted.
	ShortStrings Quirk = "short strings"
	// NoReflection: there is no server reflection.
	NoReflection Quirk = "no reflection"
	// ReflectionEnds: the answer to a symbol that does not exist is the end of the call.
	ReflectionEnds Quirk = "reflection ends"
)

// Test runs all cases against the server at an address, each as a subtest.
func Test(t *testing.T, address string, quirks ...Quirk) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *peer)
	}{
		{"unary", unary},
		{"sizes", sizes},
		{"metadata", echoMetadata},
		{"statuses", statuses},
		{"deadline", deadline},
		{"cancel", cancel},
		{"unimplemented", unimplemented},
		{"too large", tooLarge},
		{"gzip", compressed},
		{"collect", collect},
		{"expand", expand},
		{"chat", chat},
		{"streams that end early", streamsEndEarly},
		{"large streams", largeStreams},
		{"health", health},
		{"reflection", reflection},
		{"raw", raw},
		{"many calls on one connection", manyCalls},
		{"1,000 streams at once", manyStreams},
		{"a client that goes away", goesAway},
		{"a client that does not read", doesNotRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := dial(t, address)
			p.quirks = quirks
			c.run(t, p)
		})
	}
}

// A peer is a connection to the server.
type peer struct {
	address string
	conn    *grpc.ClientConn
	echogrpc.EchoClient
	ctx    context.Context // ends with the case
	quirks []Quirk
}

func (p *peer) has(quirk Quirk) bool { return slices.Contains(p.quirks, quirk) }

func dial(t *testing.T, address string) *peer {
	t.Helper()
	conn, err := Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), caseTimeout)
	t.Cleanup(func() {
		stop()
		_ = conn.Close()
	})
	return &peer{address: address, conn: conn, EchoClient: echogrpc.NewEchoClient(conn), ctx: ctx}
}

// Dial returns a client's connection on which messages may be of any size.
func Dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
}

// expect compares an answer with the message that was sent.
func expect(t *testing.T, got *echopb.EchoResponse, text string, payload []byte) {
	t.Helper()
	if got.GetText() != text || !bytes.Equal(got.GetPayload(), payload) {
		t.Fatalf("answer: text %.40q, %d bytes of payload; want %.40q, %d bytes, the same",
			got.GetText(), len(got.GetPayload()), text, len(payload))
	}
}

// expectCode holds an error to the statuses that are right.
func expectCode(t *testing.T, err error, want ...codes.Code) {
	t.Helper()
	if !slices.Contains(want, status.Code(err)) {
		t.Fatalf("%v; want status %v", err, want)
	}
}

// noise returns bytes that do not compress, the same for equal arguments.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

func unary(t *testing.T, p *peer) {
	for _, m := range []*echopb.EchoRequest{
		{},
		{Text: "hello"},
		{Payload: []byte{0}},
		{Text: "héllo, 世界 👋🏽 \x00 \u202eabc", Payload: []byte("\xff\xfe\x00")},
		{Text: strings.Repeat("ß", 10_000)},
		{Text: "late", DelayMs: 20},
	} {
		start := time.Now()
		got, err := p.Echo(p.ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, m.Text, m.Payload)
		if took := time.Since(start); took < time.Duration(m.DelayMs)*time.Millisecond {
			t.Fatalf("answered after %v, want a delay of %d ms", took, m.DelayMs)
		}
	}
}

func sizes(t *testing.T, p *peer) {
	// Around the lengths that varints, frames and windows have.
	for _, n := range []int{1, 127, 128, 129, 16_383, 16_384, 16_385, 65_534, 65_535, 65_536, 1 << 20, maxPayload} {
		payload := noise(n, uint64(n))
		got, err := p.Echo(p.ctx, &echopb.EchoRequest{Payload: payload})
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		expect(t, got, "", payload)
	}
}

func echoMetadata(t *testing.T, p *peer) {
	const initialKey, trailingKey = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
	sent := metadata.Pairs(initialKey, "first value, 100% ~", trailingKey, "\x00\x01\xfe\xff,= ",
		"x-other", "not sent back", "x-other-bin", "\x80", "x-long", strings.Repeat("v", 2000))
	check := func(t *testing.T, header, trailer metadata.MD) {
		t.Helper()
		if got, want := header.Get(initialKey), sent.Get(initialKey); !slices.Equal(got, want) {
			t.Errorf("header %q, want %q", got, want)
		}
		if got, want := trailer.Get(trailingKey), sent.Get(trailingKey); !slices.Equal(got, want) {
			t.Errorf("trailer %q, want %q", got, want)
		}
		if header.Get("x-other") != nil || trailer.Get("x-other-bin") != nil {
			t.Errorf("header %v, trailer %v: more than was asked for", header, trailer)
		}
	}
	ctx := metadata.NewOutgoingContext(p.ctx, sent)
	// Twice: the second call's fields may come out of a table of header compression.
	for range 2 {
		var header, trailer metadata.MD
		if _, err := p.Echo(ctx, &echopb.EchoRequest{}, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		check(t, header, trailer)
	}
	stream, err := p.Chat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	say(t, stream, "x")
	hear(t, stream, "x")
	header, err := stream.Header()
	if err != nil {
		t.Fatal(err)
	}
	end(t, stream)
	check(t, header, stream.Trailer())
}

func statuses(t *testing.T, p *peer) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, text := range []string{"", "what went wrong", "100 %, \n ünïcödé 🚫 \x7f"} {
			_, err := p.Echo(p.ctx, &echopb.EchoRequest{Text: text, Status: uint32(code), DelayMs: uint32(code) % 2})
			if got := status.Convert(err); got.Code() != code || got.Message() != text {
				t.Fatalf("status %v %q, want %v %q", got.Code(), got.Message(), code, text)
			}
		}
	}
}

func deadline(t *testing.T, p *peer) {
	ctx, stop := context.WithTimeout(p.ctx, 50*time.Millisecond)
	defer stop()
	_, err := p.Echo(ctx, &echopb.EchoRequest{DelayMs: 60_000})
	expectCode(t, err, codes.DeadlineExceeded)
	stream, err := p.Chat(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	expectCode(t, err, codes.DeadlineExceeded)
	// The connection is still good, and a deadline that does not pass does nothing.
	long, stop := context.WithTimeout(p.ctx, time.Hour)
	defer stop()
	if _, err = p.Echo(long, &echopb.EchoRequest{DelayMs: 1}); err != nil {
		t.Fatal(err)
	}
}

func cancel(t *testing.T, p *peer) {
	for range 50 {
		ctx, stop := context.WithCancel(p.ctx)
		stream, err := p.Chat(ctx)
		if err != nil {
			t.Fatal(err)
		}
		say(t, stream, "x")
		hear(t, stream, "x")
		stop()
		_, err = stream.Recv()
		expectCode(t, err, codes.Canceled)
	}
	ctx, stop := context.WithCancel(p.ctx)
	time.AfterFunc(10*time.Millisecond, stop)
	_, err := p.Echo(ctx, &echopb.EchoRequest{DelayMs: 60_000})
	expectCode(t, err, codes.Canceled)
	if _, err = p.Echo(p.ctx, &echopb.EchoRequest{}); err != nil {
		t.Fatal(err)
	}
}

func unimplemented(t *testing.T, p *peer) {
	for _, method := range []string{"/dyno.echo.v1.Echo/Nothing", "/dyno.echo.v1.Nothing/Echo", "/Echo/Echo", "/a/b/c"} {
		err := p.conn.Invoke(p.ctx, method, &echopb.EchoRequest{Text: "x"}, &echopb.EchoResponse{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want %v", method, err, codes.Unimplemented)
		}
	}
	if _, err := p.Echo(p.ctx, &echopb.EchoRequest{}); err != nil {
		t.Fatal(err)
	}
}

func tooLarge(t *testing.T, p *peer) {
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
		// Zeros: compressed they are few, and they are too many still.
		_, err := p.Echo(p.ctx, &echopb.EchoRequest{Payload: make([]byte, maxPayload+1<<20)}, options...)
		expectCode(t, err, codes.ResourceExhausted)
		if _, err := p.Echo(p.ctx, &echopb.EchoRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}

func compressed(t *testing.T, p *peer) {
	for _, payload := range [][]byte{nil, make([]byte, 100_000), noise(100_000, 1), make([]byte, maxPayload)} {
		got, err := p.Echo(p.ctx, &echopb.EchoRequest{Text: "x", Payload: payload}, grpc.UseCompressor("gzip"))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, "x", payload)
	}
	stream, err := p.Chat(p.ctx, grpc.UseCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		text := strings.Repeat("again ", i*100)
		say(t, stream, text)
		hear(t, stream, text)
	}
	end(t, stream)
}

func collect(t *testing.T, p *peer) {
	for _, n := range []int{0, 1, 1000} {
		stream, err := p.Collect(p.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := stream.Send(&echopb.EchoRequest{Text: "ü", Payload: noise(i, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := stream.CloseAndRecv()
		if err != nil {
			t.Fatal(err)
		}
		if want := n*(n-1)/2 + 2*n; got.Messages != uint64(n) || got.Bytes != uint64(want) {
			t.Fatalf("%d messages, %d bytes; want %d, %d", got.Messages, got.Bytes, n, want)
		}
	}
}

func expand(t *testing.T, p *peer) {
	for _, c := range []struct{ count, interval, delay uint32 }{{0, 0, 0}, {1, 0, 0}, {1, 1_000_000_000, 0}, {5000, 0, 0}, {10, 2000, 5}} {
		start := time.Now()
		stream, err := p.Expand(p.ctx, &echopb.ExpandRequest{
			Message: &echopb.EchoRequest{Text: "x", Payload: []byte("y"), DelayMs: c.delay},
			Count:   c.count, IntervalUs: c.interval,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range c.count {
			got, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			expect(t, got, "x", []byte("y"))
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last answer: %v, want the end", err)
		}
		least := time.Duration(c.delay) * time.Millisecond
		if c.count > 1 {
			least += time.Duration(c.count-1) * time.Duration(c.interval) * time.Microsecond
		}
		if took := time.Since(start); took < least {
			t.Fatalf("%+v took %v, want at least %v", c, took, least)
		}
	}
	// A message that is not there is an empty one.
	stream, err := p.Expand(p.ctx, &echopb.ExpandRequest{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, "", nil)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// talk is a stream of both directions.
type talk = grpc.BidiStreamingClient[echopb.EchoRequest, echopb.EchoResponse]

func say(t *testing.T, stream talk, text string) {
	t.Helper()
	if err := stream.Send(&echopb.EchoRequest{Text: text}); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, stream talk, text string) {
	t.Helper()
	got, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, text, nil)
}

func end(t *testing.T, stream talk) {
	t.Helper()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last answer: %v, want the end", err)
	}
}

func chat(t *testing.T, p *peer) {
	stream, err := p.Chat(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 { // each is answered before the next is sent
		text := fmt.Sprint("message ", i)
		say(t, stream, text)
		hear(t, stream, text)
	}
	for i := range 200 { // and many at a time
		say(t, stream, fmt.Sprint(i))
	}
	for i := range 200 {
		hear(t, stream, fmt.Sprint(i))
	}
	end(t, stream)

	// Nothing at all.
	if stream, err = p.Chat(p.ctx); err != nil {
		t.Fatal(err)
	}
	end(t, stream)
}

func streamsEndEarly(t *testing.T, p *peer) {
	stop := &echopb.EchoRequest{Text: "enough", Status: uint32(codes.Aborted)}
	early := func(t *testing.T, err error) {
		t.Helper()
		if got := status.Convert(err); got.Code() != codes.Aborted || got.Message() != "enough" {
			t.Fatalf("%v, want %v, \"enough\"", err, codes.Aborted)
		}
	}
	ch, err := p.Chat(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	say(t, ch, "one")
	if err := ch.Send(stop); err != nil {
		t.Fatal(err)
	}
	hear(t, ch, "one")
	_, err = ch.Recv()
	early(t, err)

	co, err := p.Collect(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*echopb.EchoRequest{{}, stop} {
		if err := co.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	err = co.RecvMsg(new(echopb.CollectResponse)) // before the client has ended its side
	early(t, err)

	ex, err := p.Expand(p.ctx, &echopb.ExpandRequest{Message: stop, Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ex.Recv()
	early(t, err)
}

func largeStreams(t *testing.T, p *peer) {
	payload := noise(100_000, 2)
	stream, err := p.Expand(p.ctx, &echopb.ExpandRequest{Message: &echopb.EchoRequest{Payload: payload}, Count: 200})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing reads the stream yet, so its window is full. Other calls must not wait.
	if _, err := p.Echo(p.ctx, &echopb.EchoRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, "", payload)
	}
	// Both directions at once, more than the windows hold.
	ch, err := p.Chat(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for range 100 {
			if err := ch.Send(&echopb.EchoRequest{Payload: payload}); err != nil {
				sent <- err
				return
			}
		}
		sent <- ch.CloseSend()
	}()
	for range 100 {
		got, err := ch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, "", payload)
	}
	if err := errors.Join(<-sent); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func manyCalls(t *testing.T, p *peer) {
	payload := noise(3000, 3)
	for i := range 1000 {
		m := &echopb.EchoRequest{Text: fmt.Sprint(i), Payload: payload[:3*i]}
		got, err := p.Echo(p.ctx, m)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		expect(t, got, m.Text, m.Payload)
	}
}

// manyStreams holds streams open, each of which says something while all are. There are
// 100 on a connection, which every server allows (RFC 9113, section 6.5.2).
func manyStreams(t *testing.T, p *peer) {
	const connections, each = 10, 100
	var open, done sync.WaitGroup
	open.Add(connections * each)
	errs := make(chan error, connections*each)
	for i := range connections {
		client := dial(t, p.address)
		for j := range each {
			done.Go(func() {
				errs <- func() error {
					stream, err := client.Chat(p.ctx)
					opened := sync.OnceFunc(open.Done)
					defer opened()
					for round := 0; round < 3 && err == nil; round++ {
						text := fmt.Sprint(i, " ", j, " ", round)
						if err = stream.Send(&echopb.EchoRequest{Text: text}); err != nil {
							break
						}
						var got *echopb.EchoResponse
						if got, err = stream.Recv(); err == nil && got.Text != text {
							err = fmt.Errorf("%q was answered with %q", text, got.Text)
						}
						opened()
						open.Wait() // for all to be open
					}
					if err != nil {
						return err
					}
					if err := stream.CloseSend(); err != nil {
						return err
					}
					if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
						return fmt.Errorf("after the last answer: %w, want the end", err)
					}
					return nil
				}()
			})
		}
	}
	done.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// goesAway lets clients end in the middle of their calls, in every way that there is.
func goesAway(t *testing.T, p *peer) {
	for i := range 20 {
		conn, err := Dial(p.address)
		if err != nil {
			t.Fatal(err)
		}
		client := echogrpc.NewEchoClient(conn)
		stream, err := client.Chat(p.ctx)
		if err != nil {
			t.Fatal(err)
		}
		say(t, stream, "x")
		hear(t, stream, "x")
		calls := make(chan error, 10)
		for range cap(calls) {
			go func() {
				_, err := client.Echo(p.ctx, &echopb.EchoRequest{DelayMs: 60_000})
				calls <- err
			}()
		}
		say(t, stream, strings.Repeat("x", i*1000))
		_ = conn.Close()
		for range cap(calls) {
			expectCode(t, <-calls, codes.Canceled, codes.Unavailable)
		}
	}
	// Half a preface, half a frame, a reset.
	for i, bytes := range []string{"", "PRI * HTTP", Preface, Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x10\x01"} {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, bytes); err != nil {
			t.Fatal(err)
		}
		if tcp, ok := c.(*net.TCPConn); ok && i%2 == 0 {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
	if _, err := p.Echo(p.ctx, &echopb.EchoRequest{}); err != nil {
		t.Fatal(err)
	}
}

// mostUnread is how many bytes a server may take, and hold answers of, while the client reads none. The
// windows of both sides, at most 16 MiB each, bound what is on its way.
const mostUnread = 64 << 20

// doesNotRead lets a client send until the server takes no more, and only then read all
// answers.
func doesNotRead(t *testing.T, p *peer) {
	stream, err := p.Chat(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	message := &echopb.EchoRequest{Payload: make([]byte, 64<<10)}
	sent, enough, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			if err := stream.Send(message); err != nil {
				ended <- err
				return
			}
			select {
			case sent <- struct{}{}:
			case <-enough:
				ended <- stream.CloseSend()
				return
			}
		}
	}()
	messages, stands := 0, false
	for !stands && messages*len(message.Payload) <= mostUnread {
		select {
		case <-sent:
			messages++
		case <-time.After(time.Second):
			stands = true
		}
	}
	if !stands {
		t.Errorf("the server has taken %d messages of 64 KiB whose answers nobody reads", messages)
	}
	close(enough)
	answers := 0
	for ; ; answers++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil || answers != messages+1 {
		t.Errorf("%d answers to %d messages, %v", answers, messages+1, err)
	}
}

// Preface is what a client's connection of HTTP/2 begins with (RFC 9113, section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
