package message

import (
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Codec translates the requests and responses of a method.
type Codec struct {
	in, out protoreflect.MessageType
	types   *Types
	shape   func() *shape // of out
}

// New returns the codec of a method which takes in and returns out.
func New(in, out protoreflect.MessageDescriptor, types *Types) *Codec {
	return &Codec{
		in:    dynamicpb.NewMessageType(in),
		out:   dynamicpb.NewMessageType(out),
		types: types,
		shape: sync.OnceValue(func() *shape { return newShape(out) }),
	}
}
