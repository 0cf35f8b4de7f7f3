// Package wire is the contract between the engine and the protocols it
// speaks. A protocol is a Client: bytes in, bytes out, no sockets, no clock, no
// goroutine. Where one request is answered by events without end, it is a Stream; where a
// connection carries many exchanges at once, a Mux. The packages below this one (http1,
// http2, grpc, tcp, sse) implement them; the engine carries the bytes and keeps the time.
package wire

import (
	"errors"
	"strconv"
	"sync"
)

// A Client is one connection's side of a request-response protocol. The engine
// calls it from one thread at a time, in this order:
//
//	Reset                          a connection was opened
//	Request                        bytes to write; once they are on their way:
//	Response, Response, … | End    until done or an error
//	Reusable                       may the connection carry the next Request?
//
// None of the methods may block or, once warm, allocate.
type Client interface {
	// Reset forgets everything about an earlier connection.
	Reset()

	// Request prepares the next exchange and returns the bytes that start it.
	// They stay valid and unchanged until the exchange has ended.
	Request() []byte

	// Response consumes bytes that arrived. It returns the number of bytes of p it used, and whether
	// the response is complete. It uses all of p unless done or err is set. A complete response that
	// counts as a failure (status, assertion) is done with an error; an error without done means that
	// the connection's framing is lost and that it must be closed. Errors have type *Error.
	Response(p []byte) (n int, done bool, err error)

	// End tells that the peer closed its side while a response was awaited. Where
	// the end of the connection completes the response, it returns nil, or the
	// failure of the completed response.
	End() error

	// Reusable tells, after an exchange has ended, whether the connection may
	// carry another.
	Reusable() bool
}

// A Composer is a Client that sends different requests. They were prepared when it was made, with
// numbers from 0. Some of their parts may vary, as with a Mux. It delivers the requested fields and
// content.
type Composer interface {
	Client

	// Compose takes the place of Request. It puts together the prepared request with that number. The
	// parts take the varying places, in the order of the request. The parts are not kept.
	Compose(request int, parts [][]byte) []byte

	// Content takes the place of Response for those who want the content of the response: it stops
	// before each stretch of it. The first size bytes of p[n:] are content. The caller uses them up by
	// Take, in one go or several, before the next Content. Without content in p, size is 0, and n, done
	// and err are as of Response.
	Content(p []byte) (n, size int, done bool, err error)
	Take(n int)

	// Fields returns the fields that were asked for by name, of the header of the response
	// that was awaited last. They are valid until the next call of Compose or Reset.
	Fields() []MuxField
}

// A Collector is a Composer that builds the content of a response itself from what arrives. So Content
// announces none.
type Collector interface {
	Composer

	// Collected returns the kept beginning of the complete response's content, and its whole size in
	// bytes. It is valid until the next call of Compose or Reset.
	Collected() (beginning []byte, size int64)
}

// A Messenger is a Client that sends the messages of a scenario's steps, and keeps the answers.
type Messenger interface {
	Client

	// Send takes the place of Request. The bytes that it returns carry the message. The message is not kept.
	Send(message []byte) []byte

	// Answer returns the content of the complete response. It is valid until the next call of Send or Reset.
	Answer() []byte
}

// A StatusCoder is a Client whose responses have a status code.
type StatusCoder interface {
	Client

	// Status returns the code of the response that came last; 0 before its head is complete.
	Status() int
}

// A MessageCounter is a Client whose responses consist of messages.
type MessageCounter interface {
	Client

	// Messages returns how many messages of the response have come so far.
	Messages() uint32
}

// A TokenCounter is a Client whose responses are answers of language models, and whose messages
// are pieces of them.
type TokenCounter interface {
	MessageCounter

	// Tokens returns the complete answer's token count.
	Tokens() uint32

	// Prompt returns the prompt's token count; 0 where the server does not say.
	Prompt() uint32

	// Shown returns how many of these have come in messages. Some servers keep the model's
	// reasoning to themselves.
	Shown() uint32
}

// Bounds on one response that HTTP/1.1 and HTTP/2 share.
const (
	DefaultMaxHeader = 64 << 10 // bytes of a header, or of trailers
	MaxInformational = 8        // 1xx responses before the final one
)

// Deviations are ways in which a response departs from its protocol and can be read nevertheless.
type Deviations uint8

// The deviations, one bit each (RFC 9112).
const (
	FoldedLines   Deviations = 1 << iota // field lines that are folded (section 5.2)
	BareLF                               // lines ended by LF without CR (section 2.2)
	SpacesAtSizes                        // whitespace after the sizes of chunks (section 7.1)

	DeviationKinds = 3
)

var deviationNames = [DeviationKinds]string{"folded_lines", "bare_lf", "spaces_at_chunk_sizes"}

// Names calls f with the name of each deviation, as it stands in trial.json.
func (d Deviations) Names(f func(name string)) {
	for i, name := range deviationNames {
		if d&(1<<i) != 0 {
			f(name)
		}
	}
}

// A Deviant is a Client or a Stream that says how its last response departed from the protocol.
type Deviant interface{ Deviations() Deviations }

// A Kind says in which way a request failed. Every failed request has exactly
// one.
type Kind uint8

// The kinds, in the order in which a request meets them.
const (
	None       Kind = iota
	Generator       // the sender was out of descriptors, ports or memory: not the peer's doing
	Connect         // the connection could not be opened
	TLS             // the handshake failed
	Refused         // the peer says that it has not processed the request, and it was not sent once more
	Timeout         // no complete response in time
	Keepalive       // the peer did not answer a ping in time, and nothing else came on the connection
	Reset           // the peer closed or reset the connection mid-exchange
	Protocol        // the peer's bytes break the protocol's rules
	Limit           // the response is larger than this side takes
	Status          // a complete response whose status says failure
	Assertion       // a complete response that is not what was expected
	Unfinished      // still under way when the measurement ended
	Kinds           // the number of kinds
)

var kindNames = [Kinds]string{
	"none", "generator", "connect", "tls", "refused", "timeout", "keepalive", "reset", "protocol", "limit", "status", "assertion", "unfinished",
}

// String returns the kind's name as it stands in run.json.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return "unknown"
}

// An Error is a failed exchange. Codecs return pointers to package-level values
// wherever they can, so that failing is as cheap as succeeding.
type Error struct {
	Kind Kind
	Text string // what was wrong, lower case, without the request's own bytes
}

func (e *Error) Error() string { return e.Kind.String() + ": " + e.Text }

// StatusError returns the error of a complete HTTP response whose status, 100 to 999, was
// not accepted: the same pointer for the same status.
func StatusError(status int) *Error { return &statusErrors()[status] }

var statusErrors = sync.OnceValue(func() *[1000]Error {
	var errs [1000]Error
	for status := range errs {
		errs[status] = Error{Kind: Status, Text: "status " + strconv.Itoa(status)}
	}
	return &errs
})

// KindOf returns the kind of the error a Client returned: None for nil, Protocol
// for an error that is not an *Error.
func KindOf(err error) Kind {
	if err == nil {
		return None
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // the hot path's case: no allocation
		return e.Kind
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Protocol
}
