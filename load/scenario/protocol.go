package scenario

import (
	"time"

	"dyno/load/feed"
	"dyno/load/wire"
)

// A Protocol is what a Spec does not say: how requests are sent, and where rows come from.
type Protocol struct {
	// BodyOnly says that requests and responses are bodies alone, in protocols without methods, paths,
	// headers and statuses.
	BodyOnly bool

	// Calls says that requests are calls of remote procedures; nil: HTTP requests, unless BodyOnly.
	Calls *Calls

	// Host and Secure are for Cookies: the host of the requests, without the port, and whether
	// they go over TLS.
	Host   string
	Secure bool

	// Request returns what a step sends. The paths of faults of type *Fault are below the step.
	// Nil: steps send what they say.
	Request func(st *Step) (StepRequest, error)

	// Tables are the open files of the Spec's Data, 32 at most.
	Tables []*feed.Table
}

// A StepRequest is what a step sends, and which responses it accepts, as a protocol has it.
type StepRequest struct {
	Method string   // default GET, or POST with a body
	Path   string   // with the query; a template
	Header []Header // after the step's own
	Body   string   // a template

	// Encode makes an Encoder of the text between the places of Body that vary: one piece more
	// than places. Nil sends the text as it is. A body that does not vary is encoded once.
	Encode func(pieces ...[]byte) (Encoder, error)

	Timeout time.Duration // how long the response may take; 0: as long as any
	Status  []StatusRange // accepted; default below 400
}

// Calls says what calls of remote procedures have in common. A call has a path that never varies.
// Metadata takes the place of a header, and a message that of a body. The response's Body is whatever
// form of its messages the engine is given, such as JSON.
type Calls struct {
	// Statuses are the names of statuses, which are numbers from 0. Status 0 alone is accepted
	// unless a step says otherwise.
	Statuses []string

	// Error returns the error of a call that ended with a status other than 0: the same
	// pointer for the same status.
	Error func(status int) *wire.Error
}

// An Encoder encodes a body with varying places: with the texts that stand in them, in their order. It
// may be used by several goroutines. It appends to dst; after an error dst is as it was.
type Encoder interface {
	Append(dst []byte, parts [][]byte) ([]byte, error)
}
