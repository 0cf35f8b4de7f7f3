package tcp

import "dyno/load/wire"

// Faults of a response's bytes. Each is returned as it is, so that == and errors.Is both find it.
var (
	ErrEcho        = &wire.Error{Kind: wire.Assertion, Text: "the echo differs from what was sent"}
	ErrLineTooLong = &wire.Error{Kind: wire.Limit, Text: "line longer than the limit, which is 16 MiB"}
	ErrTooLong     = &wire.Error{Kind: wire.Limit, Text: "length prefix above the limit, which is 16 MiB"}
	ErrUnsolicited = &wire.Error{Kind: wire.Protocol, Text: "bytes that belong to no request"}

	// ErrClosedEarly is the usual fate of a request that crossed with the server's
	// closing of an idle connection.
	ErrClosedEarly = &wire.Error{Kind: wire.Reset, Text: "connection closed before the first byte of the response"}
	ErrClosed      = &wire.Error{Kind: wire.Reset, Text: "connection closed inside the response"}
)
