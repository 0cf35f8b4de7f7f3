// Package formats is the echo on google.golang.org/grpc with messages in other formats than
// Protocol Buffers, too. A call says by its content-type which format its messages have:
// application/grpc+flatbuffers, application/grpc+gob, or application/grpc for Protocol
// Buffers. All formats have the same server around them.
package formats

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	standard "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
	"dyno/services/echo/rpc/go/grpcecho"
)

// The formats, as they are called after application/grpc+ in a content-type.
const (
	Protobuf    = standard.Name
	FlatBuffers = "flatbuffers" // of unary Echo only
	Gob         = "gob"         // each message with the description of its type, as each stands alone
)

// All lists the formats.
func All() []string { return []string{Protobuf, FlatBuffers, Gob} }

// Register makes the formats known to all servers and clients of grpc-go in the process. It
// must not be called during calls.
func Register() {
	encoding.RegisterCodecV2(tables{})
	encoding.RegisterCodecV2(gobs{})
}

// Codec returns what encodes and decodes the messages of a format; nil of no format.
func Codec(format string) encoding.CodecV2 {
	switch format {
	case Protobuf:
		return encoding.GetCodecV2(standard.Name)
	case FlatBuffers:
		return tables{}
	case Gob:
		return gobs{}
	}
	return nil
}

// Service describes the echo whose unary calls may be in any of the formats.
func Service() *grpc.ServiceDesc {
	desc := echogrpc.Echo_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	desc.Methods[0].Handler = echo
	return &desc
}

// A question is the request of a unary call. The codec of the call's format fills it in.
type question struct {
	message echopb.EchoRequest // unless it is a table
	table   table
	isTable bool
}

// ProtoReflect lets the codec of Protocol Buffers, which takes whatever has this method, fill in
// the message.
func (q *question) ProtoReflect() protoreflect.Message { return q.message.ProtoReflect() }

func echo(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the order is that of grpc.MethodDesc
	q := new(question)
	if err := decode(q); err != nil {
		return nil, err
	}
	defer q.table.free()
	if interceptor == nil {
		return answer(ctx, q)
	}
	info := &grpc.UnaryServerInfo{FullMethod: echogrpc.Echo_Echo_FullMethodName}
	return interceptor(ctx, q, info, func(ctx context.Context, m any) (any, error) { return answer(ctx, m.(*question)) })
}

func answer(ctx context.Context, q *question) (any, error) {
	if !q.isTable {
		return grpcecho.Service{}.Echo(ctx, &q.message)
	}
	t := &q.table
	m := echopb.EchoRequest{Status: t.status, DelayMs: t.delay}
	if m.Status != 0 {
		m.Text = string(t.text)
	}
	if err := grpcecho.Prepare(ctx, &m); err != nil {
		return nil, err
	}
	return response(t.text, t.payload), nil
}

// AppendRequest appends a request in a format to b.
func AppendRequest(b []byte, format string, m *echopb.EchoRequest) ([]byte, error) {
	codec := Codec(format)
	if codec == nil {
		return b, fmt.Errorf("format %q: want one of %v", format, All())
	}
	data, err := codec.Marshal(m)
	if err != nil {
		return b, err
	}
	defer data.Free()
	for _, part := range data {
		b = append(b, part.ReadOnlyData()...)
	}
	return b, nil
}
