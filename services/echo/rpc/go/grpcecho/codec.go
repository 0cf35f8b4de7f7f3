package grpcecho

import (
	"context"
	"flag"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	standard "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoiface"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

// Serialization is how messages are encoded and decoded.
type Serialization string

// The serializations that grpc-go can be given.
const (
	Reflection Serialization = "reflection" // field by field, by the message's description
	Generated  Serialization = "generated"  // Go's standard Protocol Buffers
	VTProtobuf Serialization = "vtprotobuf" // code without reflection, with pools of messages
)

// Serializations lists them.
func Serializations() []Serialization { return []Serialization{Reflection, Generated, VTProtobuf} }

// Define adds the option to those of a program; s is its default.
func (s *Serialization) Define(flags *flag.FlagSet) {
	flags.Func("serialization", fmt.Sprintf("`HOW` messages are encoded: %v (default %s)", Serializations(), *s), func(v string) error {
		if !slices.Contains(Serializations(), Serialization(v)) {
			return fmt.Errorf("must be one of %v", Serializations())
		}
		*s = Serialization(v)
		return nil
	})
}

// Service describes the echo as it is carried out with the serialization.
func (s Serialization) Service() *grpc.ServiceDesc {
	if s == VTProtobuf {
		return pooled()
	}
	return &echogrpc.Echo_ServiceDesc
}

// Codec encodes and decodes messages.
func (s Serialization) Codec() encoding.CodecV2 {
	switch s {
	case Reflection:
		return reflecting{}
	case VTProtobuf:
		return tableless{encoding.GetCodecV2(standard.Name)}
	case Generated:
	}
	return encoding.GetCodecV2(standard.Name)
}

// slow is a message without the methods by which Go's standard library would go round its
// description.
type slow struct{ protoreflect.Message }

func (s slow) ProtoReflect() protoreflect.Message { return s }
func (slow) ProtoMethods() *protoiface.Methods    { return nil }
func (s slow) Interface() protoreflect.ProtoMessage {
	return s
}

// reflecting is the codec by description.
type reflecting struct{}

func (reflecting) Name() string { return standard.Name }

func (reflecting) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("marshal %T: not a message", v)
	}
	b, err := proto.Marshal(slow{m.ProtoReflect()})
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (reflecting) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("unmarshal %T: not a message", v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), slow{m.ProtoReflect()})
}

// tableless is vtprotobuf's code, and the standard's for messages of others.
type tableless struct{ encoding.CodecV2 }

// lent is an answer that belongs to the pool, and whose payload is its own.
type lent struct{ *echopb.EchoResponse }

// vtMessage is what vtprotobuf generates.
type vtMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

func (c tableless) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(vtMessage)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := m.SizeVT()
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	_, err := m.MarshalToSizedBufferVT((*buf)[:size])
	if l, ok := v.(lent); ok {
		l.ReturnToVTPool() // nobody needs an answer after it was encoded
	}
	if err != nil {
		pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

func (c tableless) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(vtMessage)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if len(data) == 1 {
		return m.UnmarshalVT(data[0].ReadOnlyData())
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return m.UnmarshalVT(buf.ReadOnlyData())
}

// pooled returns the service with unary calls whose messages come from vtprotobuf's
// pools. The generated code makes a new message for each call.
func pooled() *grpc.ServiceDesc {
	desc := echogrpc.Echo_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	desc.Methods[0].Handler = echoPooled
	return &desc
}

var echoPooled grpc.MethodHandler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	in := echopb.EchoRequestFromVTPool()
	defer in.ReturnToVTPool()
	if err := decode(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return answerPooled(ctx, in)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: echogrpc.Echo_Echo_FullMethodName}
	return interceptor(ctx, in, info, func(ctx context.Context, m any) (any, error) {
		return answerPooled(ctx, m.(*echopb.EchoRequest))
	})
}

// answerPooled is Echo with an answer from the pool. The payload changes hands: each of
// the two messages goes back to its pool with one buffer.
func answerPooled(ctx context.Context, in *echopb.EchoRequest) (any, error) {
	if err := Prepare(ctx, in); err != nil {
		return nil, err
	}
	out := echopb.EchoResponseFromVTPool()
	out.Text = in.Text
	out.Payload, in.Payload = in.Payload, out.Payload
	return lent{out}, nil
}
