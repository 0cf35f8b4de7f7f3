// Package rpc describes the services that dyno calls by gRPC: their methods and messages.
//
// A Schema comes from .proto files (FromProtos), from a descriptor set that a compiler of
// such files has written (FromProtoset), or from the server itself by reflection
// (FromReflection). Each of the three may be wrong, and the last may come from anybody:
// number, size and depth of what is read are bounded, and a fault says in which file or at
// which server it is.
//
// A Schema and its Methods do not change and may be used by several goroutines.
//
// To read the source: schema.go is what there is. link.go makes a Schema of descriptors from any of
// the three sources. Package message translates the messages of a Method.
package rpc
