package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"dyno/services/echo/rpc/echopb"
	"dyno/services/echo/rpc/go/connect/healthpb"
	"dyno/services/echo/rpc/go/program"
)

// What a call brings under these keys comes back, in the header and in the trailers.
const (
	initialKey  = "X-Grpc-Test-Echo-Initial"
	trailingKey = "X-Grpc-Test-Echo-Trailing-Bin"
)

// service answers as the contract says.
type service struct{}

// carry copies what comes back under a key.
func carry(to, from http.Header, key string) {
	if v := from[key]; len(v) > 0 {
		to[key] = v
	}
}

// await carries out the delay and the status that a message asks for.
func await(ctx context.Context, m *echopb.EchoRequest) error {
	if m.GetDelayMs() > 0 {
		if err := pause(ctx, time.Duration(m.DelayMs)*time.Millisecond); err != nil {
			return err
		}
	}
	if m.GetStatus() != 0 {
		return connect.NewError(connect.Code(m.Status), errors.New(m.Text))
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
		return ctx.Err() // which the library gives its code
	}
}

// Echo answers one message.
func (service) Echo(ctx context.Context, r *connect.Request[echopb.EchoRequest]) (*connect.Response[echopb.EchoResponse], error) {
	if err := await(ctx, r.Msg); err != nil {
		return nil, err
	}
	answer := connect.NewResponse(&echopb.EchoResponse{Text: r.Msg.Text, Payload: r.Msg.Payload})
	carry(answer.Header(), r.Header(), initialKey)
	carry(answer.Trailer(), r.Header(), trailingKey)
	return answer, nil
}

// Collect counts the messages of a stream.
func (service) Collect(ctx context.Context, stream *connect.ClientStream[echopb.EchoRequest]) (*connect.Response[echopb.CollectResponse], error) {
	var sum echopb.CollectResponse
	for stream.Receive() {
		m := stream.Msg()
		if err := await(ctx, m); err != nil {
			return nil, err
		}
		sum.Messages++
		sum.Bytes += uint64(len(m.Text) + len(m.Payload))
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	answer := connect.NewResponse(&sum)
	carry(answer.Header(), stream.RequestHeader(), initialKey)
	carry(answer.Trailer(), stream.RequestHeader(), trailingKey)
	return answer, nil
}

// Expand answers one message with many.
func (service) Expand(ctx context.Context, r *connect.Request[echopb.ExpandRequest], stream *connect.ServerStream[echopb.EchoResponse]) error {
	carry(stream.ResponseHeader(), r.Header(), initialKey)
	carry(stream.ResponseTrailer(), r.Header(), trailingKey)
	m := r.Msg.GetMessage()
	if err := await(ctx, m); err != nil {
		return err
	}
	for i := range r.Msg.GetCount() {
		if i > 0 && r.Msg.IntervalUs > 0 {
			if err := pause(ctx, time.Duration(r.Msg.IntervalUs)*time.Microsecond); err != nil {
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
func (service) Chat(ctx context.Context, stream *connect.BidiStream[echopb.EchoRequest, echopb.EchoResponse]) error {
	carry(stream.ResponseHeader(), stream.RequestHeader(), initialKey)
	carry(stream.ResponseTrailer(), stream.RequestHeader(), trailingKey)
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := await(ctx, m); err != nil {
			return err
		}
		if err := stream.Send(&echopb.EchoResponse{Text: m.Text, Payload: m.Payload}); err != nil {
			return err
		}
	}
}

// The names of services that health checks know.
var healthy = map[string]bool{"": true, "dyno.echo.v1.Echo": true}

// check answers a health check.
func check(_ context.Context, r *connect.Request[healthpb.HealthCheckRequest]) (*connect.Response[healthpb.HealthCheckResponse], error) {
	if !healthy[r.Msg.GetService()] {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown service"))
	}
	return connect.NewResponse(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}), nil
}

// watch answers once: the answer does not change while calls are served.
func watch(ctx context.Context, r *connect.Request[healthpb.HealthCheckRequest], stream *connect.ServerStream[healthpb.HealthCheckResponse]) error {
	answer := &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
	if !healthy[r.Msg.GetService()] {
		answer.Status = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	}
	if err := stream.Send(answer); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// layer is one layer of middleware.
type layer struct{ *program.Layer }

func (l layer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		l.Calls.Add(1)
		return next(ctx, r)
	}
}

func (l layer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (l layer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		l.Calls.Add(1)
		return next(ctx, conn)
	}
}
