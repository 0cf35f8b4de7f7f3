package grpc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	theirs "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // the server compresses what was asked for in gzip
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dyno/load/wire"
	"dyno/load/wire/http2"
	"dyno/load/wire/wiretest"
)

// A rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}
func (rawCodec) Name() string { return "proto" }

// handle is a service in gRPC's own library, with one method of each kind.
func handle(_ any, stream theirs.ServerStream) error {
	method, _ := theirs.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	var messages [][]byte
	for {
		var m []byte
		err := stream.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		messages = append(messages, m)
		if method == "/t.S/Chat" {
			if err := stream.SendMsg(&m); err != nil {
				return err
			}
		}
	}
	switch method {
	case "/t.S/Chat":
	case "/t.S/Echo":
		return stream.SendMsg(&messages[0])
	case "/t.S/Collect":
		sum := []byte(strconv.Itoa(len(messages)))
		return stream.SendMsg(&sum)
	case "/t.S/Expand":
		for n, _ := strconv.Atoi(string(messages[0])); n > 0; n-- {
			m := []byte(strconv.Itoa(n))
			if err := stream.SendMsg(&m); err != nil {
				return err
			}
		}
	case "/t.S/Metadata":
		m := fmt.Appendf(nil, "%q %q", md.Get("x-text"), md.Get("x-bin"))
		return stream.SendMsg(&m)
	case "/t.S/Late":
		<-stream.Context().Done()
		return status.FromContextError(stream.Context().Err()).Err()
	default:
		return status.Error(codes.Unimplemented, "no such method: "+method)
	}
	return nil
}

func serve(t *testing.T, options ...theirs.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := theirs.NewServer(append(options, theirs.ForceServerCodec(rawCodec{}), theirs.UnknownServiceHandler(handle))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

// A link carries a client's bytes over a connection.
type link struct {
	t    *testing.T
	c    wire.Mux
	conn net.Conn
	read []byte
}

// dial connects a client with a server until the test ends.
func dial(t *testing.T, c wire.Mux, address string) *link {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c.Reset()
	return &link{t, c, conn, make([]byte, 5000)}
}

// exchange writes what there is, reads what comes, and hands over the events.
func (k *link) exchange(event func(wire.MuxEvent)) {
	k.t.Helper()
	if _, err := k.conn.Write(wiretest.Take(k.c)); err != nil {
		k.t.Fatal(err)
	}
	n, err := k.conn.Read(k.read)
	if err != nil {
		k.t.Fatal(err)
	}
	for p := k.read[:n]; ; {
		var e wire.MuxEvent
		used, err := k.c.Input(p, &e)
		if err != nil {
			k.t.Fatal(err)
		}
		if p = p[used:]; e.Kind == wire.MuxNothing {
			return
		}
		event(e)
	}
}

// call carries out one call, and returns the messages of its response and how it ended.
func (k *link) call(request int) (messages []string, end wire.MuxEvent) {
	k.t.Helper()
	begin(k.t, k.c, 0, request)
	for end.Kind == wire.MuxNothing {
		k.exchange(func(e wire.MuxEvent) {
			switch e.Kind {
			case wire.MuxMessage:
				messages = append(messages, string(e.Data))
			case wire.MuxEnded, wire.MuxFailed, wire.MuxRefused:
				end = e
			}
		})
	}
	return messages, end
}

// TestPeer holds the client to gRPC's own library for Go.
func TestPeer(t *testing.T) {
	address := serve(t)
	method := func(name string, messages ...string) Call {
		c := Call{Scheme: "http", Authority: address, Path: "/t.S/" + name}
		for _, m := range messages {
			c.Messages = append(c.Messages, []byte(m))
		}
		return c
	}
	with := func(c Call, change func(*Call)) Call { change(&c); return c }
	large := strings.Repeat("large ", 500_000)
	random := string(noise(100_000))
	for _, tt := range []struct {
		name string
		call Call
		want []string
		code Code
		err  string
	}{
		{"unary", method("Echo", "hello"), []string{"hello"}, OK, ""},
		{"empty", method("Echo", ""), []string{""}, OK, ""},
		{"large", method("Echo", large), []string{large}, OK, ""},
		{"compressed", with(method("Echo", large), func(c *Call) { c.Gzip = true }), []string{large}, OK, ""},
		{"compressed, of random bytes", with(method("Echo", random), func(c *Call) { c.Gzip = true }), []string{random}, OK, ""},
		{"through small windows", method("Echo", random), []string{random}, OK, ""},
		{"client stream", with(method("Collect", "a", "b"), func(c *Call) { c.ClientStream, c.Count = true, 1001 }), []string{"1001"}, OK, ""},
		{"client stream without messages", with(method("Collect"), func(c *Call) { c.ClientStream = true }), []string{"0"}, OK, ""},
		{"large client stream", with(method("Collect", large), func(c *Call) { c.ClientStream, c.Count = true, 10 }), []string{"10"}, OK, ""},
		{"server stream", with(method("Expand", "3"), func(c *Call) { c.ServerStream = true }), []string{"3", "2", "1"}, OK, ""},
		{"server stream without messages", with(method("Expand", "0"), func(c *Call) { c.ServerStream = true }), nil, OK, ""},
		{"both, as fast as it goes", with(method("Chat", "a", "b"), func(c *Call) { c.ClientStream, c.ServerStream, c.Count = true, true, 3 }), []string{"a", "b", "a"}, OK, ""},
		{"both, in lockstep", with(method("Chat", "a", "b"), func(c *Call) { c.ClientStream, c.ServerStream, c.Lockstep, c.Count = true, true, true, 3 }), []string{"a", "b", "a"}, OK, ""},
		{"both, compressed", with(method("Chat", large, "b"), func(c *Call) { c.ClientStream, c.ServerStream, c.Lockstep, c.Gzip = true, true, true, true }), []string{large, "b"}, OK, ""},
		{"metadata", with(method("Metadata", ""), func(c *Call) {
			c.Metadata = []Metadata{{Name: "x-text", Value: "a b"}, {Name: "x-text", Value: "c"}, {Name: "x-bin", Value: "\x00\xffbin"}}
		}), []string{`["a b" "c"] ["\x00\xffbin"]`}, OK, ""},
		{"no such method", method("None", ""), nil, Unimplemented, "status: grpc UNIMPLEMENTED: no such method: /t.S/None"},
		{"deadline", with(method("Late", ""), func(c *Call) { c.Timeout = time.Millisecond }), nil, DeadlineExceeded, ""},
		{"one message of a stream", method("Expand", "2"), nil, Unimplemented, "protocol: grpc UNIMPLEMENTED: more than one message in a response that has one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config(tt.call)
			c.Content = true
			if tt.name == "through small windows" {
				c.Settings = http2.Settings{StreamWindow: 500, ConnectionWindow: 65535}
			}
			k := dial(t, newClient(t, c), address)
			for range 2 { // on one connection
				got, end := k.call(0)
				if tt.code == DeadlineExceeded {
					// The library's handler notices when the time is over, and so does its
					// transport, which resets the stream: either may come first.
					if end.Status != int16(DeadlineExceeded) && end.Status != int16(Cancelled) {
						t.Fatalf("ended with status %d, %v", end.Status, end.Err)
					}
					continue
				}
				if tt.err != "" {
					if end.Err == nil || end.Err.Error() != tt.err || end.Status != int16(tt.code) {
						t.Fatalf("ended with status %d, %v", end.Status, end.Err)
					}
					continue
				}
				if end.Kind != wire.MuxEnded || end.Err != nil || end.Status != 0 {
					t.Fatalf("ended with %v", end)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got %.100q, want %.100q", got, tt.want)
				}
			}
		})
	}
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return b
}

func TestPeerTooLarge(t *testing.T) {
	address := serve(t, theirs.MaxRecvMsgSize(1000))
	call := Call{Scheme: "http", Authority: address, Path: "/t.S/Echo", Messages: [][]byte{make([]byte, 1001)}}
	k := dial(t, newClient(t, config(call)), address)
	if _, end := k.call(0); end.Status != int16(ResourceExhausted) || end.Err == nil || end.Err.Kind != wire.Status {
		t.Errorf("ended with %v", end)
	}
}

// TestPeerMany has many calls under way at once, as many as the server lets it.
func TestPeerMany(t *testing.T) {
	address := serve(t, theirs.MaxConcurrentStreams(7))
	c := config(Call{Scheme: "http", Authority: address, Path: "/t.S/Echo", Messages: [][]byte{[]byte("hello")}})
	c.Streams, c.Optimistic = 100, false
	client := newClient(t, c)
	k := dial(t, client, address)
	free := make([]uint32, 0, 100)
	for id := range uint32(100) {
		free = append(free, id)
	}
	const total = 500
	begun, ended := 0, 0
	for ended < total {
		for begun < total && client.Free() > 0 {
			begin(t, client, free[len(free)-1], 0)
			free = free[:len(free)-1]
			begun++
		}
		k.exchange(func(e wire.MuxEvent) {
			if e.Kind == wire.MuxEnded {
				if e.Err != nil {
					t.Fatal(e.Err)
				}
				free = append(free, e.ID)
				ended++
			}
		})
	}
	if len(free) != 100 {
		t.Errorf("%d places are free, want all 100", len(free))
	}
}
