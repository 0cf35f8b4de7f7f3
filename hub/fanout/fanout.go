// Package fanout delivers a journal's entries to many event-stream subscribers
// from one goroutine. A subscriber costs neither a goroutine nor a buffer: it is a
// socket, a slot in a slab, and, while it is not up to date, a cursor.
//
// Subscribers that want the same entries and may see the same form a group. When
// the journal grows, the loop reads the new entries once, makes each group's bytes
// once, and sends them with one call to every member that is up to date: events
// that came since the last turn share that call.
//
// A socket that does not take everything makes its subscriber late. A late
// subscriber catches up from the journal by its own cursor, a bounded amount at a
// turn and only when its socket is ready, so that it costs the others nothing. What
// it may be owed is bounded; Outcome says what happens beyond. New subscribers
// begin late: history and live entries come out of the same journal, so that there
// is no step between them at which one could be lost.
package fanout

import (
	"errors"
	"fmt"
	"time"

	"dyno/hub/journal"
)

// A Source is what the loop needs of a journal. Its methods may be called from any
// goroutine.
type Source interface {
	// Since appends to dst up to limit entries after seq, in order. Entries before
	// oldest are gone.
	Since(seq uint64, dst []*journal.Entry, limit int) (entries []*journal.Entry, oldest uint64)
	// Head is the newest entry's sequence number.
	Head() uint64
	// Notify has fn called after every change. fn does not block.
	Notify(fn func()) (stop func())
}

var _ Source = (*journal.Journal)(nil)

// An Outcome is what happens to a subscriber that is owed more than the bounds.
type Outcome string

// The outcomes.
const (
	// Disconnect resets its connection. It may come back and name its last event.
	Disconnect Outcome = "disconnect"
	// DropOldest passes over the oldest entries that it is owed, and tells it so by
	// a gap event.
	DropOldest Outcome = "drop_oldest"
	// Coalesce gives it only the latest of the entries that share a first topic, and
	// tells it how many are left out by a gap event before them.
	Coalesce Outcome = "coalesce"
	// Block makes Admit wait, so that publishers are as slow as the slowest
	// subscriber. It is for benchmarks in which publishers are a closed loop.
	Block Outcome = "block"
)

// Config says how a loop delivers. Start from Defaults.
type Config struct {
	// QueueEvents and QueueBytes bound what a subscriber may be owed of what was
	// appended while it was late: entries that it is to get, and bytes of their
	// frames. An entry that is partly sent does not count, nor does history that it
	// asked for.
	QueueEvents int
	QueueBytes  int64
	// Outcome is what happens beyond.
	Outcome Outcome
	// Heartbeat is the longest that a connection is silent; then it gets a comment
	// line. A quarter of the period is used to spread the heartbeats of subscribers
	// who got their last event together. 0 means none.
	Heartbeat time.Duration
	// WriteTimeout ends the connection of a late subscriber whose socket took
	// nothing for so long; it may be noticed up to a quarter later. 0 means never.
	WriteTimeout time.Duration
	// BatchDelay is how long the loop waits after an append for more to send along.
	// It adds to the delay of every event. 0 means not at all.
	BatchDelay time.Duration
	// Arrivals is how many subscribers may wait to be taken over. When so many do,
	// Add waits.
	Arrivals int
	// ReadBytes is how much a subscriber may send, which nobody reads, before its
	// connection is reset.
	ReadBytes int
	// Ended, if not nil, is told of every subscriber that the loop has taken over, when
	// its connection has ended. It is called on the loop's goroutine, or by Close, and
	// must not block.
	Ended func(owner any, why End)
	// Farewell, if not nil, makes the last bytes for a subscriber that Drain
	// disconnects, such as a retry field of its own. It is called on the loop's
	// goroutine and must not block.
	Farewell func() []byte
}

// Bounds of Config's numbers.
const (
	maxQueueEvents = 1 << 26
	maxArrivals    = 1 << 20
	maxReadBytes   = 1 << 30
	maxBatchDelay  = 10 * time.Second
)

// Bounds of Config's Heartbeat and WriteTimeout.
const (
	MinPeriod = 4 * looks * minTick
	MaxPeriod = 24 * time.Hour
)

// Defaults returns the Config that every field starts from.
func Defaults() Config {
	return Config{
		QueueEvents: 1000, QueueBytes: 1 << 20, Outcome: Disconnect,
		Heartbeat: 15 * time.Second, WriteTimeout: time.Minute,
		Arrivals: 1024, ReadBytes: 16 << 10,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.QueueEvents < 1 || c.QueueEvents > maxQueueEvents {
		fault("queue events: %d: must be from 1 to %d", c.QueueEvents, maxQueueEvents)
	}
	if c.QueueBytes < 1 {
		fault("queue bytes: %d: must be 1 or more", c.QueueBytes)
	}
	switch c.Outcome {
	case Disconnect, DropOldest, Coalesce, Block:
	default:
		fault("outcome: %q: must be %s, %s, %s or %s", c.Outcome, Disconnect, DropOldest, Coalesce, Block)
	}
	for _, p := range []struct {
		name  string
		value time.Duration
	}{{"heartbeat", c.Heartbeat}, {"write timeout", c.WriteTimeout}} {
		if p.value != 0 && (p.value < MinPeriod || p.value > MaxPeriod) {
			fault("%s: %v: must be 0 (none) or from %v to %v", p.name, p.value, MinPeriod, MaxPeriod)
		}
	}
	if c.BatchDelay < 0 || c.BatchDelay > maxBatchDelay {
		fault("batch delay: %v: must be from 0 to %v", c.BatchDelay, maxBatchDelay)
	}
	if c.Arrivals < 1 || c.Arrivals > maxArrivals {
		fault("arrivals: %d: must be from 1 to %d", c.Arrivals, maxArrivals)
	}
	if c.ReadBytes < 1 || c.ReadBytes > maxReadBytes {
		fault("read bytes: %d: must be from 1 to %d", c.ReadBytes, maxReadBytes)
	}
	return errors.Join(errs...)
}

// A Subscriber is who gets what. The loop keeps it by reference where it can:
// nothing in it may change after Add.
type Subscriber struct {
	// Owner is who Config.Ended and the list of clients name; the loop only keeps it.
	Owner any
	// Until is when the connection is ended whatever comes, such as the expiry of a
	// token; zero is never. It is noticed up to two seconds later, or a quarter of the
	// heartbeat's period or of the write timeout if one of these is shorter.
	Until time.Time
	// Address is the peer's, for the list of clients.
	Address string
	// Group is equal for subscribers whose Match gives the same answers; the loop
	// asks the first one's Match for all of them.
	Group string
	// Topics are the group's selectors, for the list of clients.
	Topics []string
	// Match tells whether an entry is for this subscriber. It is called on the loop's
	// goroutine, once for a group, and must not block.
	Match func(*journal.Entry) bool
	// Cursor is the sequence number of the last entry that the subscriber has: what
	// follows it is sent.
	Cursor uint64
	// Preamble goes out first: the response's head, the retry field, a gap event.
	Preamble []byte
}

// An End is why a subscriber's connection ended.
type End int

// The ends.
const (
	Gone      End = iota // it hung up, or its connection failed
	Slow                 // it was owed more than the bounds, and the outcome is Disconnect
	Stalled              // its socket took nothing for the write timeout
	Talkative            // it sent more than ReadBytes
	Drained              // Drain ended it in order, up to date
	Cut                  // Close, or the end of Drain's time, reset it
	Refused              // the kernel would not watch its socket
	Expired              // its time was up
	ends
)

// String names the end as metrics do.
func (e End) String() string {
	if e < 0 || e >= ends {
		return fmt.Sprintf("end %d", int(e))
	}
	return [...]string{"gone", "slow", "stalled", "talkative", "drained", "cut", "refused", "expired"}[e]
}

// Stats are counts since the loop began, but for the first two, which are of now.
type Stats struct {
	Subscribers int64
	Late        int64 // of them: have not been sent all that there is for them

	Deliveries int64 // entries sent whole, once for each subscriber
	Writes     int64 // send calls that the kernel took something of
	Bytes      int64 // what it took
	Short      int64 // send calls that a full socket took less of than there was, or nothing
	Turns      int64 // looks at the journal that found something new
	Heartbeats int64
	Gaps       int64 // gap events sent
	Dropped    int64 // entries passed over, by DropOldest
	Coalesced  int64 // entries left out, by Coalesce
	Ended      [ends]int64
}

// A Client is a subscriber as the list of slow clients shows it.
type Client struct {
	ID      uint64 // of the connection, as long as the loop lives
	Owner   any    // Subscriber.Owner
	Address string
	Topics  []string
	Since   time.Time
	Late    bool
	// LagEvents and LagBytes are what it is owed of what came while it was late;
	// history that it is still reading is on top and shows in Cursor.
	LagEvents int64
	LagBytes  int64
	Cursor    uint64 // last entry sent, or passed over
	Events    int64  // entries sent
	Bytes     int64  // sent, of any kind
}
