package formats

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/services/echo/rpc/contract"
	"dyno/services/echo/rpc/echofb"
	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/program"
)

func TestMain(m *testing.M) {
	Register()
	leak.Main(m)
}

// serve starts the echo and returns its address.
func serve(t testing.TB, o program.Options) string {
	server := grpcecho.Open(o, Service())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve([]net.Listener{l}) }()
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		server.Drain(ctx)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// The contract holds: clients with Protocol Buffers notice nothing of other formats.
func TestContract(t *testing.T) {
	contract.Test(t, serve(t, program.Options{MaxMessage: 4<<20 + 64, Middleware: 2}))
}

// A raw codec sends bytes as they are, as messages of the format that it is named after.
type raw string

func (r raw) Name() string { return string(r) }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func connect(t *testing.T, address string) *grpc.ClientConn {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// decoded returns an answer in a format, decoded by other code than the server's.
func decoded(format string, b []byte) (m *echopb.EchoResponse, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	m = new(echopb.EchoResponse)
	switch format {
	case FlatBuffers:
		table := echofb.GetRootAsEchoResponse(b, 0)
		m.Text, m.Payload = string(table.Text()), table.PayloadBytes()
	case Gob:
		var plain struct {
			Text    string
			Payload []byte
		}
		err = gob.NewDecoder(bytes.NewReader(b)).Decode(&plain)
		m.Text, m.Payload = plain.Text, plain.Payload
	default:
		err = proto.Unmarshal(b, m)
	}
	return m, err
}

// TestEcho: a call in each format gets an answer in that format, with metadata, statuses and delays.
func TestEcho(t *testing.T) {
	conn := connect(t, serve(t, program.Options{MaxMessage: 1 << 20, Middleware: 1}))
	for _, format := range All() {
		for _, m := range []*echopb.EchoRequest{
			{},
			{Text: "grüße, 世界"},
			{Payload: bytes.Repeat([]byte{0, 255}, 100)},
			{Text: strings.Repeat("t", 3000), Payload: bytes.Repeat([]byte("payload"), 10_000), DelayMs: 1},
			{Text: "refused", Status: uint32(codes.FailedPrecondition)},
		} {
			in, err := AppendRequest(nil, format, m)
			if err != nil {
				t.Fatal(err)
			}
			var out []byte
			err = conn.Invoke(t.Context(), echogrpc.Echo_Echo_FullMethodName, in, &out, grpc.ForceCodecV2(raw(format)))
			if m.Status != 0 {
				if s := status.Convert(err); s.Code() != codes.Code(m.Status) || s.Message() != m.Text {
					t.Errorf("%s: %v, want status %d", format, err, m.Status)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			got, err := decoded(format, out)
			if want := (&echopb.EchoResponse{Text: m.Text, Payload: m.Payload}); err != nil || !proto.Equal(got, want) {
				t.Errorf("%s: got %v (%v), want %v", format, got, err, want)
			}
		}
	}
}

// TestDamaged holds that messages that are none are refused, and the server goes on.
func TestDamaged(t *testing.T) {
	conn := connect(t, serve(t, program.Options{MaxMessage: 1 << 10}))
	good, err := AppendRequest(nil, Gob, &echopb.EchoRequest{Text: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		format string
		in     []byte
		code   codes.Code
	}{
		{FlatBuffers, nil, codes.Internal},
		{FlatBuffers, []byte{1, 2, 3}, codes.Internal},
		{FlatBuffers, bytes.Repeat([]byte{255}, 100), codes.Internal},
		{FlatBuffers, make([]byte, 2000), codes.ResourceExhausted},
		{Gob, nil, codes.Internal},
		{Gob, []byte("no gob"), codes.Internal},
		{Gob, append(good[:len(good):len(good)], good...), codes.Internal},
		{Protobuf, bytes.Repeat([]byte{255}, 100), codes.Internal},
	} {
		var out []byte
		err := conn.Invoke(t.Context(), echogrpc.Echo_Echo_FullMethodName, c.in, &out, grpc.ForceCodecV2(raw(c.format)))
		if status.Code(err) != c.code {
			t.Errorf("%s, % x: %v, want %v", c.format, c.in[:min(len(c.in), 8)], err, c.code)
		}
	}
	// Streams have no tables.
	s, err := conn.NewStream(t.Context(), &echogrpc.Echo_ServiceDesc.Streams[0], echogrpc.Echo_Collect_FullMethodName, grpc.ForceCodecV2(raw(FlatBuffers)))
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	if err := s.SendMsg([]byte{}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&out); status.Code(err) != codes.Internal {
		t.Errorf("%v, want INTERNAL", err)
	}
}

// TestTables: a request in FlatBuffers is what was built, and so is its answer, with many builders at once.
func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &echopb.EchoRequest{
			Text: rapid.String().Draw(t, "text"), Payload: rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "payload"),
			Status: rapid.Uint32().Draw(t, "status"), DelayMs: rapid.Uint32().Draw(t, "delay"),
		}
		b, err := AppendRequest(nil, FlatBuffers, m)
		if err != nil {
			t.Fatal(err)
		}
		var q question
		half := len(b) / 2
		if err := (tables{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[:half]), mem.SliceBuffer(b[half:])}, &q); err != nil {
			t.Fatal(err)
		}
		got := &echopb.EchoRequest{Text: string(q.table.text), Payload: q.table.payload, Status: q.table.status, DelayMs: q.table.delay}
		if !proto.Equal(got, m) {
			t.Fatalf("got %v, want %v", got, m)
		}
		first, second := response(q.table.text, q.table.payload), response([]byte("x"), nil)
		q.table.free()
		for _, r := range []*built{first, second} {
			data, err := tables{}.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := decoded(FlatBuffers, data.Materialize())
			if err != nil || r == first && (answer.Text != m.Text || !bytes.Equal(answer.Payload, m.Payload)) {
				t.Fatalf("got %v (%v), want the text and payload of %v", answer, err, m)
			}
			data.Free()
		}
	})
}

func FuzzTables(f *testing.F) {
	good, err := AppendRequest(nil, FlatBuffers, &echopb.EchoRequest{Text: "text", Payload: []byte("payload"), Status: 1, DelayMs: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{255}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m table
		if err := m.read(b); err != nil {
			if m.text != nil || m.payload != nil {
				t.Error("a damaged message has fields")
			}
			return
		}
		if len(m.text) > len(b) || len(m.payload) > len(b) {
			t.Errorf("%d and %d bytes of %d", len(m.text), len(m.payload), len(b))
		}
	})
}
