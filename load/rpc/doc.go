// Package rpc is what dyno knows of the services that it calls by gRPC: their methods,
// and the messages of these in Protocol Buffers. It translates messages between JSON, as
// people write it, and bytes, as they are sent.
//
// A Schema comes from .proto files (FromProtos), from a descriptor set that a compiler of
// such files has written (FromProtoset), or from the server itself by reflection
// (FromReflection). Each of the three may be wrong, and the last may come from anybody:
// number, size and depth of what is read are bounded, and a fault says in which file or at
// which server it is.
//
// A Schema, its Methods and Encoders do not change and may be used by several goroutines.
// Nothing here is made for the path of a request except Method.Check, Encoder.Append and
// Method.AppendJSON, which do not allocate. Messages that are known ahead are encoded ahead: a small one takes
// some microseconds and two dozen allocations. For those of which only some texts are not
// known ahead, Method.Prepare makes an Encoder.
//
// JSON is that of Protocol Buffers (https://protobuf.dev/programming-guides/json): a field
// has its name in lowerCamelCase, and the name of the .proto file is understood too.
//
// To read the source: schema.go is what there is. link.go makes a Schema of descriptors from any of
// the three sources. prepare.go encodes messages in which some texts vary, and translate.go
// writes responses in JSON.
package rpc
