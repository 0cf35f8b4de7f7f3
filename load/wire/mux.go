package wire

// A Mux is one connection's side of a protocol that carries many exchanges at once (HTTP/2). Its
// requests are prepared when it is made: they have numbers from 0, and some of their parts may vary
// from exchange to exchange. The engine calls it from one thread at a time:
//
//	Reset                     a connection was opened
//	Free, Begin, Cancel       exchanges are begun and given up
//	Output, Wrote             after each of the others: bytes to write, and how many were
//	Input, Input, …           bytes arrived, or it has an event without
//	End, End, …               the peer closed its side, or Input returned an error
//
// The caller numbers an exchange, from 0 to one below the number of exchanges configured for a
// connection. The number is taken from Begin until the exchange's last event (Ended, Failed, Refused)
// or Cancel.
//
// None of the methods may block or, once warm, allocate. A Mux holds nothing without a
// bound: a peer that does not read, or that sends much without saying anything, is an
// error of the connection.
type Mux interface {
	// Reset forgets everything about an earlier connection.
	Reset()

	// Output returns the bytes that are to be written now: what exchanges send, and
	// what the protocol says by itself. They are valid until the next call of another
	// method. More may be due once these are written.
	Output() []byte

	// Wrote tells that the first n bytes of Output were written.
	Wrote(n int)

	// Free returns how many exchanges may begin now. It changes with Begin, Cancel and
	// Input. After MuxGoAway, and after an error, it is 0 for good.
	Free() int

	// Begin begins an exchange under a number that is free: the prepared request with that number. The
	// parts take the varying places, in the order of the request. The parts are not kept. An error
	// means that nothing was begun; it is the caller's doing.
	Begin(id uint32, request int, parts [][]byte) error

	// Cancel gives an exchange up. There will be no event of it.
	Cancel(id uint32)

	// Input consumes bytes that arrived, up to one event, and says in e what it was, whatever e was
	// before. Without an event (MuxNothing) and without an error all of p is used; until then it is to
	// be called again, with what it left of p, be it nothing. An error concerns the connection: after
	// the rest of Output it must be closed. Errors have type *Error.
	Input(p []byte, e *MuxEvent) (n int, err error)

	// Waiting tells whether Input may have an event without more bytes. Output can bring one about
	// (MuxRoom), which calls of Input with nothing collect. Bytes that they cause are in Output only
	// then.
	Waiting() bool

	// Fields returns the fields that were asked for by name, of the section that came
	// with the last event: of the header with MuxHead, or with the end when there was no
	// MuxHead; of the trailer section with MuxEnded when it says Trailers. They are valid
	// until the next call of Input, be it of another Mux of the same worker.
	Fields() []MuxField

	// End tells that the peer closed its side, or that the caller is about to, because
	// of an error. It returns how one of the open exchanges ends, and is to be called
	// until it returns MuxNothing.
	End() MuxEvent
}

// A MuxEvent is what a Mux's Input or End found.
type MuxEvent struct {
	Kind     MuxEventKind
	Trailers bool   // MuxEnded: a trailer section ended the exchange; Fields are its fields
	Status   int16  // of the final response; 0 while there is none, NoStatus where the protocol has none
	ID       uint32 // the exchange; 0 with MuxGoAway
	Bytes    int64  // content of the response so far, in bytes
	Data     []byte // a piece of the content, if it was asked for, be it the last; valid until the next call of Input
	Err      *Error // why; see the kinds
}

// NoStatus is the status of a response of a protocol that has none.
const NoStatus = -1

// A MuxEventKind says what a MuxEvent is.
type MuxEventKind uint8

// The kinds of events of a Mux.
const (
	MuxNothing MuxEventKind = iota // no event is complete yet

	// MuxHead is the final response's header. An exchange whose header and end arrive
	// together may have its end alone, with Status and Fields of the header.
	MuxHead

	MuxData // a piece of the content, when it was asked for

	// MuxEnded is the end of a complete response. Err is set when it counts as a failure
	// (of kind Status).
	MuxEnded

	// MuxFailed is an exchange that ended without a complete response; Err says why. The
	// connection goes on.
	MuxFailed

	// MuxRefused is an exchange that the peer has not processed, and says so: the request
	// may be sent again, on this connection if it has Free, or on another. Err says how it
	// was refused, for those who do not send it again.
	MuxRefused

	// MuxGoAway is the peer's notice that it takes no more exchanges on this connection.
	// Those it has taken go on. Err is set when it says that something was wrong.
	MuxGoAway

	MuxRoom // there is room again for more of a request, for a protocol on top that sends it bit by bit

	// MuxMessage is the end of a message, in protocols whose responses consist of messages. Data is the
	// message, if it was asked for, or its share of content made from messages.
	MuxMessage
)

// A Pacer is a Mux whose requests may consist of messages that are sent at a pace of the
// caller's. The first one goes with Begin.
type Pacer interface {
	Mux

	// Next sends the next message of an exchange under way, if it has one, and tells whether another
	// follows.
	Next(id uint32) (more bool)
}

// A Pinger is a Mux that can ask its peer for a sign of life.
type Pinger interface {
	Mux

	// Ping puts a ping into Output. It tells whether it could: not before the peer may be
	// spoken to, nor after many pings that are unanswered. The answer is no event; that
	// bytes came is enough of a sign.
	Ping() bool
}

// A Renewer is a Mux of which some requests begin a conversation that takes a new connection.
type Renewer interface {
	Mux

	// Renews tells whether a request takes a new connection, because this one has had such a conversation. It is called
	// before the request begins, be the connection open or not.
	Renews(request int) bool
}

// A Pusher is a Mux whose peer sends messages of its own.
type Pusher interface {
	Mux

	// Pushed returns how many messages of this connection no exchange awaited.
	Pushed() int64
}

// A Talker has bytes to write that nobody has asked for, as a Mux has.
type Talker interface {
	Output() []byte
	Wrote(n int)
}

// A Closer is a Mux or a Stream that tells its peer that a connection is no longer needed.
type Closer interface {
	Talker

	// Close puts that into Output, after which the connection is closed.
	Close()
}

// A StreamLimiter is a Mux whose peer may allow fewer exchanges at once than it was prepared for.
type StreamLimiter interface {
	Mux

	// PeerStreams returns how many the peer allows now; 0 if it has not said so, or sets no limit.
	PeerStreams() int
}

// A MuxField is one field of a header or trailer section, of a Composer's response too.
type MuxField struct {
	Name  int // which of the names that were asked for
	Value []byte
}
