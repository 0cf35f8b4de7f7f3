// Package fanout delivers a journal's entries to many event-stream subscribers from one
// goroutine. A subscriber costs neither a goroutine nor a buffer: it is a socket, a place
// in a slab and, while it is not up to date, a cursor.
//
// Subscribers that want the same entries and have the same rights form a group. When the journal grows, the loop
// reads the new entries once and makes each group's bytes once. It sends them with one call to every member that is
// up to date; events that came since the last round share that call.
//
// If a socket does not take everything, its subscriber becomes late. A late subscriber catches up from the journal by
// its own cursor. It gets a bounded amount per round, and only when its socket is ready: so it costs the others
// nothing. Its pending entries are bounded; Outcome says what happens beyond. New subscribers begin as late ones:
// history and live entries come from the same journal, so no entry can be lost between them.
package fanout

import (
	"time"

	"dyno/hub/journal"
)

// A Source is the part of a journal that the loop needs. Its methods may be called from
// any goroutine.
type Source interface {
	// Since appends up to limit entries after seq to dst, in order. Entries before oldest
	// are gone.
	Since(seq uint64, dst []*journal.Entry, limit int) (entries []*journal.Entry, oldest uint64)
	// Head is the newest entry's sequence number.
	Head() uint64
	// Notify makes fn be called after every change. fn does not block.
	Notify(fn func()) (stop func())
}

var _ Source = (*journal.Journal)(nil)

// An Outcome is what happens to a subscriber with more pending entries than the bounds allow.
type Outcome string

// The outcomes.
const (
	// Disconnect resets its connection. It may come back and name its last event.
	Disconnect Outcome = "disconnect"
	// DropOldest skips its oldest pending entries, and announces that by a gap event.
	DropOldest Outcome = "drop_oldest"
	// Coalesce gives it only the latest of the entries that share a first topic. A gap
	// event before them says how many are left out.
	Coalesce Outcome = "coalesce"
	// Block makes Admit wait, so that publishers are as slow as the slowest
	// subscriber. It is for benchmarks in which publishers are a closed loop.
	Block Outcome = "block"
)

// Config configures a loop. Start from Defaults. The caller checks its values.
type Config struct {
	// QueueEvents and QueueBytes bound the pending entries of a late subscriber: their number, and the bytes of their
	// frames. Partly sent entries, and history that the subscriber asked for, do not count.
	QueueEvents int
	QueueBytes  int64
	// Outcome is what happens to a subscriber beyond the bounds.
	Outcome Outcome
	// Heartbeat is the longest time that a connection is silent; after that it gets a
	// comment line. A quarter of the period is used to spread the heartbeats of
	// subscribers that got their last event together. 0 means none.
	Heartbeat time.Duration
	// WriteTimeout ends the connection of a late subscriber whose socket took nothing for
	// so long. The loop may notice this up to a quarter of that time later. 0 means
	// never.
	WriteTimeout time.Duration
	// BatchDelay is how long the loop waits after an append for more entries to send
	// together. It adds to the delay of every event. 0 means no wait.
	BatchDelay time.Duration
	// Arrivals is how many subscribers may wait to be taken over. If that many wait, Add
	// waits, too.
	Arrivals int
	// ReadBytes is how much a subscriber may send before its connection is reset. The
	// loop ignores these bytes.
	ReadBytes int
	// Ended, if not nil, is called for every subscriber that the loop has taken over,
	// when its connection has ended. It is called on the loop's goroutine, or by Close,
	// and must not block.
	Ended func(owner any, why End)
	// Farewell, if not nil, returns the last bytes for a subscriber that Drain disconnects, such as a retry field. It
	// is called on the loop's goroutine and must not block.
	Farewell func() []byte
}

// MinPeriod is the shortest that Config's Heartbeat and WriteTimeout may be.
const MinPeriod = 4 * looks * minTick

// Defaults returns a Config with every default.
func Defaults() Config {
	return Config{
		QueueEvents: 1000, QueueBytes: 1 << 20, Outcome: Disconnect,
		Heartbeat: 15 * time.Second, WriteTimeout: time.Minute,
		Arrivals: 1024, ReadBytes: 16 << 10,
	}
}

// A Subscriber says which entries are sent to whom. The loop keeps references to it, so
// nothing in it may change after Add.
type Subscriber struct {
	// Owner identifies the subscriber to Config.Ended and in the list of clients. The
	// loop does not use it otherwise.
	Owner any
	// Until is when the connection is ended in any case, for example because a token expires; zero is never. The loop
	// notices it up to two seconds later. If the heartbeat or the write timeout is short, that is a quarter of it.
	Until time.Time
	// Group is equal for subscribers whose Match gives the same answers. The loop calls
	// only the first one's Match for all of them.
	Group string
	// Match reports whether an entry is for this subscriber. It is called on the loop's
	// goroutine, once for a group, and must not block.
	Match func(*journal.Entry) bool
	// Cursor is the sequence number of the last entry that the subscriber has. It gets
	// the entries after that.
	Cursor uint64
	// Preamble is sent first: the response's head, the retry field, a gap event.
	Preamble []byte
}

// An End is the reason why a subscriber's connection ended.
type End int

// The ends.
const (
	Gone      End = iota // the peer hung up, or its connection failed
	Slow                 // it had too many pending entries, and the outcome is Disconnect
	Stalled              // its socket took nothing for the write timeout
	Talkative            // the peer sent more than ReadBytes
	Drained              // Drain ended it in order, up to date
	Cut                  // it was reset by Close, or at the end of Drain's time
	Refused              // the kernel refused to watch its socket
	Expired              // Subscriber.Until has passed
	ends
)

// Stats are counts since the loop began, except for the first two, which are current.
type Stats struct {
	Subscribers int64
	Late        int64 // of these, those with pending entries

	Deliveries int64 // entries sent whole, counted for each subscriber
	Writes     int64 // send calls of which the kernel took at least a part
	Bytes      int64 // taken by the kernel
	Short      int64 // send calls of which a full socket took only a part, or nothing
	Rounds     int64 // times that the journal was read and had something new
	Heartbeats int64
	Gaps       int64 // gap events sent
	Dropped    int64 // entries passed over, by DropOldest
	Coalesced  int64 // entries left out, by Coalesce
	Ended      [ends]int64
}

// A Client is a subscriber as an entry of the list of slow clients.
type Client struct {
	Owner any // Subscriber.Owner
	Late  bool
	// LagEvents and LagBytes count its pending entries. They do not include history that it is still reading.
	LagEvents, LagBytes int64
}
