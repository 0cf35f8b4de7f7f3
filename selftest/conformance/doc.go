// Package conformance holds what calls by gRPC here to connect's conformance suite
// (connectrpc.com/conformance): the codecs of the load, as a client. It has tests alone.
//
// The suite has servers of its own. It starts a program and writes to its standard input which calls to make. It
// compares the answers with what it expects. That program is the test itself, started again. Messages of the
// suite are read by its own .proto files in go's module cache. So none of it is part of this module.
package conformance
