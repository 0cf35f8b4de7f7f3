package grpcecho

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/services/echo/rpc/contract"
	"dyno/services/echo/rpc/echopb"
	"dyno/services/echo/rpc/go/program"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The contract holds in this process, too, where the race detector sees the workers.
func TestContract(t *testing.T) {
	server := New(program.Options{MaxMessage: 4<<20 + 64, Middleware: 2}, VTProtobuf, grpc.NumStreamWorkers(2))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve([]net.Listener{l}) }()
	contract.Test(t, l.Addr().String())
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	server.Drain(ctx)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// All serializations write the same bytes, and read each other's.
func TestCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &echopb.ExpandRequest{
			Message: &echopb.EchoRequest{
				Text: rapid.String().Draw(t, "text"), Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
				Status: rapid.Uint32().Draw(t, "status"), DelayMs: rapid.Uint32().Draw(t, "delay"),
			},
			Count: rapid.Uint32().Draw(t, "count"),
		}
		var first []byte
		for i, s := range Serializations() {
			data, err := s.Codec().Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			b := data.Materialize()
			if i == 0 {
				first = b
			}
			if string(b) != string(first) {
				t.Fatalf("%s: % x, %s: % x", s, b, Serializations()[0], first)
			}
			// In two pieces, as a message may come.
			half := len(b) / 2
			pieces := mem.BufferSlice{mem.SliceBuffer(b[:half]), mem.SliceBuffer(b[half:])}
			for _, other := range Serializations() {
				got := new(echopb.ExpandRequest)
				if err := other.Codec().Unmarshal(pieces, got); err != nil || !proto.Equal(got, m) {
					t.Fatalf("%s written, %s read: %v, %v; want %v", s, other, got, err, m)
				}
			}
		}
	})
}
