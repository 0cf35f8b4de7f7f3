package scenario

import (
	"time"

	"dyno/load/feed"
	"dyno/load/pace"
	"dyno/load/wire"
)

// Bounds of a Spec. The caller bounds its other lists and numbers, and checks its names.
const (
	MaxSteps      = 1000     // of all flows together
	MaxValue      = 16 << 10 // bytes of an extracted value
	MaxExpression = 4096     // bytes of a regular expression
	maxProgram    = 10_000   // instructions of one
	MaxTimeouts   = 16       // different ones of steps
)

// DefaultMaxBody is how many bytes of a response's body a step wants at most unless it says
// otherwise.
const DefaultMaxBody = 1 << 20

// A Spec describes a scenario.
type Spec struct {
	// Variables have a value from the start. An extraction may change it, for its user.
	Variables []Variable

	// Feeds are data, 32 at most. Each column is a variable.
	Feeds []Feed

	// Steps are what every user does. Set either Steps or Flows.
	Steps []Step
	Flows []Flow

	// InTurn says that an iteration carries out one of the steps that are not marked Once: that
	// whose turn it is among all users of the flow.
	InTurn bool

	// BodyOnly says that requests and responses consist of bodies alone, as in protocols
	// that have no methods, paths, headers and statuses.
	BodyOnly bool

	// Calls says that requests are calls of remote procedures; nil: they are of HTTP, unless
	// they are BodyOnly.
	Calls *Calls

	// Cookies gives each user a jar of cookies (RFC 6265).
	Cookies bool
	Host    string // of the requests, without the port; only for Cookies
	Secure  bool   // requests go over TLS; only for Cookies
}

// Calls says what calls of remote procedures have in common. A call has a path that never
// varies, metadata in place of a header, and a message in place of a body. The response's
// Body is whatever form of its messages the engine is given, such as JSON.
type Calls struct {
	// Statuses are the names of statuses, which are numbers from 0. Status 0 alone is accepted
	// unless a step says otherwise.
	Statuses []string

	// Error returns the error of a call that ended with a status other than 0: the same
	// pointer for the same status.
	Error func(status int) *wire.Error
}

// An Encoder makes what is sent of a body of which some places vary: with the texts that
// stand in them, in their order. It may be used by several goroutines. It appends to dst; after
// an error dst is as it was.
type Encoder interface {
	Append(dst []byte, parts [][]byte) ([]byte, error)
}

// A Variable is a name with its first value.
type Variable struct{ Name, Value string }

// A Feed is a table whose rows are dealt to users.
type Feed struct {
	Name  string // for messages, and for NAME.COLUMN in templates
	Table *feed.Table
	Order feed.Order
	End   feed.End // with feed.Stop, a user for whom there is no row left has come to its end
	Per   Per
}

// A Per says how long a user keeps a row.
type Per uint8

// For how long a user keeps a row. It takes the row when a step first needs it.
const (
	PerNeed      Per = iota // PerUser if a step that is marked Once uses a column, else PerIteration
	PerIteration            // for one iteration
	PerUser                 // for good
)

// A Flow is what one kind of user does.
type Flow struct {
	Name   string
	Weight int // its share of the users, in relation to the others' weights; default 1
	Steps  []Step
}

// A Step is one request, what is expected of the response, and the pause after it.
type Step struct {
	Name string // unique in the whole scenario: results are told by it
	Once bool   // each user carries it out once, before the steps that are not marked so

	// If is a condition, such as status == "vip". Where it does not hold, the step is skipped.
	// Empty: it always holds.
	If string

	// Weight has the steps of the flow that are not marked Once drawn by weight. Either
	// all of them have one or none.
	Weight int

	Method string  // default GET, or POST with a body
	Path   string  // with the query; a template
	Header []Field // values are templates
	Body   string  // a template

	// Encode makes an Encoder of the text between the places of Body that vary: one piece more
	// than places. Nil sends the text as it is. A body that does not vary is encoded once.
	Encode func(pieces ...[]byte) (Encoder, error)

	// Timeout is how long the response may take; 0: as long as any.
	Timeout time.Duration

	Think pace.Think // the pause after the response

	Status  []StatusRange // accepted; default below 400
	Assert  []Assertion
	Extract []Extraction

	// MaxBody is how many bytes of the response's body are kept for Assert and Extract. A
	// longer body fails them. Default DefaultMaxBody.
	MaxBody int
}

// A Field is a header field of a request.
type Field struct{ Name, Value string }

// A Part is a part of a response.
type Part uint8

// The parts of a response.
const (
	Body    Part = iota
	Header       // the first header field of a name
	JSON         // a value in the body, by a path as package jsonpath has it
	Trailer      // of calls: the first entry of a name in the metadata behind the messages
)

// A Comparison says what an Assertion asks.
type Comparison uint8

// The comparisons. A JSON string is compared without its quotes and escapes, any other
// value as it is written in the body.
const (
	Equals Comparison = iota
	Contains
	Matches // a regular expression (RE2) finds something
	Exists  // of Header, Trailer and JSON: it is there, whatever it says
)

// An Assertion is something that must be true of a response.
type Assertion struct {
	Of    Part
	Name  string // of Header and Trailer: the field's name; of JSON: the path
	Is    Comparison
	Value string // for Equals and Contains a template of variables; for Matches the expression
}

// An Otherwise says what an extraction does when it finds nothing. It is counted in any
// case.
type Otherwise uint8

// What an extraction may do when it finds nothing.
const (
	Fail       Otherwise = iota // the request fails, with kind assertion
	Keep                        // the variable keeps its value
	UseDefault                  // the variable becomes Default
)

// An Extraction takes a value out of a response into a variable of the user.
type Extraction struct {
	Name string // of the variable
	From Part
	Of   string // of Header and Trailer: the field's name; of JSON: the path

	// Pattern is a regular expression (RE2). What it finds in the part is taken; without
	// one, the whole part. A JSON string is searched without its quotes and escapes.
	Pattern string
	// Group is the group of the pattern that is taken, from 1; 0: the first group, or the
	// whole match if there is none.
	Group int

	Otherwise Otherwise
	Default   string
}
