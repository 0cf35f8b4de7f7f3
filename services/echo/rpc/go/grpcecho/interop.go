//go:build interop

package grpcecho

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// registerInterop adds the service that interoperability tests of gRPC call. Programs that
// are measured are built without it.
func registerInterop(s *grpc.Server) { testpb.RegisterTestServiceServer(s, testService{}) }

type testService struct {
	testpb.UnimplementedTestServiceServer
}

func (testService) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return new(testpb.Empty), nil
}

// payload returns an answer's payload, or why there is none.
func payload(size int32) (*testpb.Payload, error) {
	if size < 0 || size > 4<<20 {
		return nil, status.Errorf(codes.InvalidArgument, "an answer of %d bytes", size)
	}
	return &testpb.Payload{Body: make([]byte, size)}, nil
}

// wanted returns the status that a request asks for.
func wanted(s *testpb.EchoStatus) error { return status.Error(codes.Code(s.GetCode()), s.GetMessage()) }

func (testService) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := bringBack(ctx); err != nil {
		return nil, err
	}
	if err := wanted(r.GetResponseStatus()); err != nil {
		return nil, err
	}
	p, err := payload(r.GetResponseSize())
	answer := &testpb.SimpleResponse{Payload: p}
	if r.GetFillServerId() {
		answer.ServerId = "dyno"
	}
	return answer, err
}

func (testService) StreamingInputCall(stream grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	sum := 0
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(r.GetPayload().GetBody())
	}
}

func (testService) StreamingOutputCall(r *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	return answerAll(stream.Context(), r, stream.Send)
}

func (testService) FullDuplexCall(stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	if err := returnMetadata(stream); err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := answerAll(stream.Context(), r, stream.Send); err != nil {
			return err
		}
	}
}

// answerAll sends the answers that a request asks for.
func answerAll(ctx context.Context, r *testpb.StreamingOutputCallRequest, send func(*testpb.StreamingOutputCallResponse) error) error {
	if err := wanted(r.GetResponseStatus()); err != nil {
		return err
	}
	for _, want := range r.GetResponseParameters() {
		if us := want.GetIntervalUs(); us > 0 {
			if err := pause(ctx, time.Duration(us)*time.Microsecond); err != nil {
				return err
			}
		}
		p, err := payload(want.GetSize())
		if err != nil {
			return err
		}
		if err := send(&testpb.StreamingOutputCallResponse{Payload: p}); err != nil {
			return err
		}
	}
	return nil
}
