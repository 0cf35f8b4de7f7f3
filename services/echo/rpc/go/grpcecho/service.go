// Package grpcecho is the echo on google.golang.org/grpc, for the programs that differ in
// how they use that library.
package grpcecho

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

// What a call brings under these keys comes back, in the header and in the trailers.
const (
	initialKey  = "x-grpc-test-echo-initial"
	trailingKey = "x-grpc-test-echo-trailing-bin"
)

// Service answers as the contract says.
type Service struct {
	echogrpc.UnimplementedEchoServer
}

// Echo answers one message.
func (Service) Echo(ctx context.Context, m *echopb.EchoRequest) (*echopb.EchoResponse, error) {
	if err := Prepare(ctx, m); err != nil {
		return nil, err
	}
	return &echopb.EchoResponse{Text: m.Text, Payload: m.Payload}, nil
}

// Prepare does all that comes before a unary call's answer: it sends back the metadata, and
// carries out the delay and the status that the message asks for.
func Prepare(ctx context.Context, m *echopb.EchoRequest) error {
	if err := bringBack(ctx); err != nil {
		return err
	}
	return await(ctx, m)
}

// bringBack sends back what a unary call brought.
func bringBack(ctx context.Context) error {
	if v := metadata.ValueFromIncomingContext(ctx, initialKey); len(v) > 0 {
		if err := grpc.SetHeader(ctx, metadata.MD{initialKey: v}); err != nil {
			return err
		}
	}
	if v := metadata.ValueFromIncomingContext(ctx, trailingKey); len(v) > 0 {
		return grpc.SetTrailer(ctx, metadata.MD{trailingKey: v})
	}
	return nil
}

// await carries out the delay and the status that a message asks for.
func await(ctx context.Context, m *echopb.EchoRequest) error {
	if m.GetDelayMs() > 0 {
		if err := pause(ctx, time.Duration(m.DelayMs)*time.Millisecond); err != nil {
			return err
		}
	}
	if m.GetStatus() != 0 {
		return status.Error(codes.Code(m.Status), m.Text)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// returnMetadata sends back what a stream's call brought.
func returnMetadata(stream grpc.ServerStream) error {
	if v := metadata.ValueFromIncomingContext(stream.Context(), trailingKey); len(v) > 0 {
		stream.SetTrailer(metadata.MD{trailingKey: v})
	}
	if v := metadata.ValueFromIncomingContext(stream.Context(), initialKey); len(v) > 0 {
		return stream.SetHeader(metadata.MD{initialKey: v})
	}
	return nil
}

// Collect counts the messages of a stream.
func (Service) Collect(stream grpc.ClientStreamingServer[echopb.EchoRequest, echopb.CollectResponse]) error {
	if err := returnMetadata(stream); err != nil {
		return err
	}
	var sum echopb.CollectResponse
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&sum)
		}
		if err != nil {
			return err
		}
		if err := await(stream.Context(), m); err != nil {
			return err
		}
		sum.Messages++
		sum.Bytes += uint64(len(m.Text) + len(m.Payload))
	}
}

// Expand answers one message with many.
func (Service) Expand(r *echopb.ExpandRequest, stream grpc.ServerStreamingServer[echopb.EchoResponse]) error {
	if err := returnMetadata(stream); err != nil {
		return err
	}
	m := r.GetMessage()
	if err := await(stream.Context(), m); err != nil {
		return err
	}
	for i := range r.GetCount() {
		if i > 0 && r.IntervalUs > 0 {
			if err := pause(stream.Context(), time.Duration(r.IntervalUs)*time.Microsecond); err != nil {
				return err
			}
		}
		if err := stream.Send(&echopb.EchoResponse{Text: m.GetText(), Payload: m.GetPayload()}); err != nil {
			return err
		}
	}
	return nil
}

// Chat answers each message as it comes.
func (Service) Chat(stream grpc.BidiStreamingServer[echopb.EchoRequest, echopb.EchoResponse]) error {
	if err := returnMetadata(stream); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := await(stream.Context(), m); err != nil {
			return err
		}
		if err := stream.Send(&echopb.EchoResponse{Text: m.Text, Payload: m.Payload}); err != nil {
			return err
		}
	}
}
