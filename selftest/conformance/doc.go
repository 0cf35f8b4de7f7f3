// Package conformance holds what calls by gRPC here to connect's conformance suite
// (connectrpc.com/conformance): the codecs of the load, as a client. It has tests alone.
//
// The suite has servers of its own, and tells the client what to do: it starts a program, writes to
// its standard input which calls to make, and compares what comes back with what it expects. That
// program is the test itself, started again.
// What the suite says is read by its own .proto files, from where go keeps the suite's
// module, so that none of it is part of this module.
package conformance
