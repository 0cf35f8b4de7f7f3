package wire

import "time"

// A Stream is one subscriber's side of a protocol in which one request is answered
// by events without end. The engine calls it from one thread at a time, in this
// order:
//
//	Reset                    a connection was opened
//	Request, Resumes         bytes to write; once they are on their way:
//	Next, Next, … | End      until an error, or until the stream is exhausted
//
// State that matters on the next connection outlives Reset, such as the last event's ID and the
// server's reconnection pause. None of the methods may block or, once warm, allocate; Request may
// allocate.
type Stream interface {
	// Reset forgets everything about an earlier connection, but for what is meant
	// for the next.
	Reset()

	// Request returns the bytes that ask for the events that follow the last one
	// seen. They stay valid and unchanged until the Event of kind Opened.
	Request() []byte

	// Resumes tells whether the last Request named the last event seen, so that the server continues
	// after it. Without, it begins wherever it likes.
	Resumes() bool

	// Next consumes bytes that arrived, up to the end of one event, and says what it was. Without an
	// event (kind Nothing) and without an error all of p is used; until then it is to be called again,
	// with what it left of p, be it nothing. An error means that the subscription has failed and that
	// the connection must be closed. Errors have type *Error.
	Next(p []byte) (n int, e Event, err error)

	// End tells that the peer closed its side. It returns nil where that is the
	// orderly end of the stream.
	End() error

	// Retry returns how long the server asked to wait before reconnecting; 0 when it
	// did not.
	Retry() time.Duration

	// Closed tells whether the server asked not to come back.
	Closed() bool

	// Follows tells whether the stream asks for the events of a topic, by its
	// number among the publishers' topics (Source.Topic). Its answer never changes.
	Follows(topic int) bool
}

// An Event is what a Stream's Next found.
type Event struct {
	Kind     EventKind
	Stamped  bool   // the fields Source, Sequence and Time are there
	Source   uint32 // who published it
	Sequence uint64 // its number among the source's publications to the topic, from 1
	Time     int64  // when its publication was due, Unix time in nanoseconds
	Bytes    int    // of the stream, from the end of the event before to the end of this one
}

// An EventKind says what an Event is.
type EventKind uint8

// The kinds of events.
const (
	Nothing   EventKind = iota // no event is complete yet
	Opened                     // the server has accepted the subscription
	Message                    // an event
	Gap                        // an event by which the server says that events are missing
	Exhausted                  // the server's orderly end of the stream, before it closes the connection
)

// A Stamper is a Client or a Mux that publishes events which a Stream can recognise. Each
// request carries a source, a sequence number and a time.
type Stamper interface {
	// Stamp gives the time at which the next request was due, Unix time in
	// nanoseconds. The engine calls it before each Request or Begin.
	Stamp(due int64)

	// Sources calls yield for each of the codec's sources, in their present state,
	// until it returns false. Before the first request it tells which there will be.
	Sources(yield func(Source) bool)
}

// A Source is one numbered sequence of publications: one publisher's to one topic.
type Source struct {
	ID        uint32
	Topic     int    // its number among the publishers' topics
	Published uint64 // the last sequence number that was used; 0 before the first

	// Uncertain are the numbers, in ascending order, whose publication was not
	// acknowledged: they may have been published or not.
	Uncertain []Span

	// Unlisted is the number of further unacknowledged ones, for which Uncertain has no room.
	Unlisted uint64
}

// A Span is the sequence numbers First to Last.
type Span struct{ First, Last uint64 }
