// Package rpc describes the services that dyno calls by gRPC: their methods and messages.
//
// A Schema has one of three sources: .proto files (FromProtos), a compiler's descriptor set of such
// files (FromProtoset), or the server's reflection (FromReflection). Each of the three may be wrong,
// and the last may come from anybody: number, size and depth of its elements are bounded, and a fault
// names the file or the server.
//
// A Schema and its Methods do not change and may be used by several goroutines.
//
// To read the source: schema.go is what there is. link.go makes a Schema of descriptors from any of
// the three sources. Package message translates the messages of a Method.
package rpc
