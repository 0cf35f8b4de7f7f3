package engine

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"dyno/load/hist"
	"dyno/load/wire"
)

// A Tag names one of the times recorded per request.
type Tag uint8

// What is recorded, each for the requests of the window.
const (
	// Response runs from the intended start to the last byte's arrival, or its being
	// read where that is not known (see Clock). It holds the good
	// responses and, at the time they had taken when they were given up, the
	// requests that timed out or were unfinished: they took at least that long.
	Response Tag = iota
	// Service runs from the write to the last byte's arrival, of the same requests.
	Service
	// SendLag runs from the intended start to the write.
	SendLag
	// GeneratorLag is the part of the send lag that the generator itself caused:
	// from when the request was due and a connection was at hand to the write.
	GeneratorLag
	// FirstByte runs from the write to the arrival of the segment that the first read of
	// the response ended with.
	FirstByte
	// Failed is the response time of requests that failed at once: errors of
	// every kind but timeouts and unfinished ones.
	Failed
	// ConnectTime is the time to open a connection, with a proxy's tunnel and without TLS. Connections belong to no
	// request, so those of the warm-up are recorded too.
	ConnectTime
	// Opening runs from the beginning of a subscriber's connecting to the end of the
	// response's head, TLS included. Subscriptions are opened before the window too, so that all
	// are recorded.
	Opening
	// FirstEvent runs from the write of a subscription to its first event. All are
	// recorded.
	FirstEvent
	// EventGap runs from one event of a subscriber to the next, which arrived in the
	// window.
	EventGap
	// Delivery runs from an event's stamp, which is when its publication was due,
	// until its last byte arrived. It holds the events that arrived in the window.
	// Where the stamp is of another machine, it is off by the clocks' difference.
	Delivery
	// ReadDelay runs from a response's or an event's arrival until it was read, of those
	// of the window that ended by arrival: how far behind the generator was.
	ReadDelay
	// ServiceRead runs from the write until the last byte was read, of the same requests
	// as Service. Where reading ends all responses, it is the same.
	ServiceRead
	// SharedStamp holds, of each event of the window that was followed by more in the
	// same read, by how much its arrival may be too late: its stamp is that of what came
	// last, and it came after the socket had last been empty.
	SharedStamp
	// HandshakeTime runs from the beginning of a TLS handshake, on a connection that is open,
	// until the arrival of what completed it. Those of the warm-up are recorded too.
	HandshakeTime
	// FirstMessage runs from the write of a request until the arrival of the first message of
	// its response, where responses consist of messages. It and the next two are of the
	// requests of the window, whenever the message arrived.
	FirstMessage
	// MessageGap runs from one message of a response to the next, where they answer nothing.
	MessageGap
	// Message runs from when a message of a request was due to be sent until the arrival of the
	// one that answers it. Without an interval between messages, it is due when the answer to
	// the one before has been read.
	Message
	// FirstToken runs from the intended start of a request to a language model until the
	// arrival of the first piece of the answer. It and the next are of good answers to
	// requests of the window.
	FirstToken
	// TokenTime is the time per token of an answer after the first: from the first piece of
	// the answer until the last, divided by the tokens but one. An answer in one piece has none.
	TokenTime
	Tags // the number of tags
)

var tagNames = [Tags]string{
	"response", "service", "send_lag", "generator_lag", "first_byte", "failed", "connect",
	"opening", "first_event", "event_gap", "delivery",
	"read_delay", "service_read", "shared_stamp", "handshake",
	"first_message", "message_gap", "message",
	"first_token", "token_time",
}

// String returns the tag's name as it stands in latency.hlog.
func (t Tag) String() string {
	if t < Tags {
		return tagNames[t]
	}
	return "unknown"
}

// Counts holds what became of a set of requests.
type Counts struct {
	Scheduled  uint64 // were due
	Sent       uint64 // were given to a connection, or to the attempt to open one
	Dropped    uint64 // never got a connection: too many waited, or the end came first
	Unsent     uint64 // of Dropped: those that the generator could open no connection for, for want of descriptors, ports or memory
	OK         uint64
	Errors     uint64 // failed, but for those below
	Generator  uint64 // failed for want of descriptors, ports or memory of the generator's own
	Timeouts   uint64
	Unfinished uint64             // were under way when the measurement ended
	ByKind     [wire.Kinds]uint64 // of everything that was sent and is not OK
}

func (c *Counts) add(o *Counts) {
	c.Scheduled += o.Scheduled
	c.Sent += o.Sent
	c.Dropped += o.Dropped
	c.Unsent += o.Unsent
	c.Generator += o.Generator
	c.OK += o.OK
	c.Errors += o.Errors
	c.Timeouts += o.Timeouts
	c.Unfinished += o.Unfinished
	for k, n := range o.ByKind {
		c.ByKind[k] += n
	}
}

// Conserved reports whether every request is accounted for exactly once:
// scheduled = sent + dropped, and sent = ok + errors + generator + timeouts + unfinished.
func (c *Counts) Conserved() error {
	var faults []error
	if c.Scheduled != c.Sent+c.Dropped {
		faults = append(faults, fmt.Errorf("scheduled %d ≠ sent %d + dropped %d", c.Scheduled, c.Sent, c.Dropped))
	}
	if c.Sent != c.OK+c.Errors+c.Generator+c.Timeouts+c.Unfinished {
		faults = append(faults, fmt.Errorf("sent %d ≠ ok %d + errors %d + generator %d + timeouts %d + unfinished %d",
			c.Sent, c.OK, c.Errors, c.Generator, c.Timeouts, c.Unfinished))
	}
	if c.Unsent > c.Dropped {
		faults = append(faults, fmt.Errorf("unsent %d of dropped %d", c.Unsent, c.Dropped))
	}
	var kinds uint64
	for _, n := range c.ByKind {
		kinds += n
	}
	if kinds != c.Errors+c.Generator+c.Timeouts+c.Unfinished {
		faults = append(faults, fmt.Errorf("failures by kind %d ≠ errors %d + generator %d + timeouts %d + unfinished %d",
			kinds, c.Errors, c.Generator, c.Timeouts, c.Unfinished))
	}
	return errors.Join(faults...)
}

// Connections counts connections from the beginning to the end, warm-up included.
type Connections struct {
	Requested  int           // as configured
	Unopened   int           // of a closed loop: those that were not open when the load began
	Streams    int           // exchanges that each carries at once at most, as configured
	Opened     uint64        // were established
	Failed     uint64        // were not
	Generator  uint64        // of Failed: for want of descriptors, ports or memory of the generator's own
	Served     int           // places for a connection with a good response to a request of the window or carried into it
	Unanswered int           // places with such requests, none of which was answered at all, well or badly
	Hung       int           // places whose last such request had waited for an answer for hangTime or more when the measurement ended
	HungFor    time.Duration // how long those had waited, summed
	// Omitted is how long users of a closed loop waited in vain within the window, summed: on a
	// place that hung, or for a target that answered nothing any more. What they would
	// have sent is in no count of requests.
	Omitted     time.Duration
	PeerClosed  uint64 // were closed by the peer while no exchange was under way
	Unsolicited uint64 // were closed here because bytes came that nobody asked for
	Multiplexed uint64 // of Opened: speak a protocol that carries many exchanges at once
	Peak        int    // the most that were open at once, summed over the workers
	Reused      uint64 // exchanges on a connection that had carried one before
	Exchanges   uint64 // all exchanges that were begun

	// The same of the requests of the window. A request that is sent once more is counted
	// again, and one that no connection could be opened for is not.
	WindowReused, WindowExchanges uint64

	// Of protocols whose connections carry many exchanges at once. An exchange is refused
	// that the peer says it has not processed: because its connection takes no more, or for
	// reasons of its own.
	GoAways uint64 // connections on which the peer said that it takes no more exchanges
	Refused uint64 // exchanges that were refused
	Resent  uint64 // of those, the ones whose requests were sent once more; the others failed

	Pings           uint64 // keepalive: pings that were sent
	PingsUnanswered uint64 // keepalive: connections that were given up because a ping was not answered
}

func (c *Connections) add(o *Connections) {
	c.Unopened += o.Unopened
	c.Opened += o.Opened
	c.Multiplexed += o.Multiplexed
	c.Failed += o.Failed
	c.Generator += o.Generator
	c.Served += o.Served
	c.Unanswered += o.Unanswered
	c.Hung += o.Hung
	c.HungFor += o.HungFor
	c.Omitted += o.Omitted
	c.PeerClosed += o.PeerClosed
	c.Unsolicited += o.Unsolicited
	c.Peak += o.Peak
	c.Reused += o.Reused
	c.Exchanges += o.Exchanges
	c.WindowReused += o.WindowReused
	c.WindowExchanges += o.WindowExchanges
	c.GoAways += o.GoAways
	c.Refused += o.Refused
	c.Resent += o.Resent
	c.Pings += o.Pings
	c.PingsUnanswered += o.PingsUnanswered
}

// CPUTime is processor time.
type CPUTime struct{ User, System time.Duration }

// Total is user and system time together.
func (t CPUTime) Total() time.Duration { return t.User + t.System }

func (t CPUTime) sub(o CPUTime) CPUTime {
	return CPUTime{User: t.User - o.User, System: t.System - o.System}
}

func (t CPUTime) plus(o CPUTime) CPUTime {
	return CPUTime{User: t.User + o.User, System: t.System + o.System}
}

// An Interval is what happened in one stretch of the time line.
type Interval struct {
	Start, Length time.Duration         // from the beginning of the warm-up
	Completed     uint64                // good responses that ended in it, of the warm-up too
	ByKind        [wire.Kinds]uint64    // requests that failed in it, of the warm-up too
	Delivered     uint64                // events that arrived in it, of the warm-up too; slow subscribers' not
	Connections   int                   // open at its end, subscriptions included, as each worker last counted its own
	Status        map[int]uint64        // complete responses to the window's requests by status code; nil without any
	Latency       [Tags]*hist.Histogram // of the window's requests; nil where empty
}

// Failed is the number of requests that failed in the interval.
func (i *Interval) Failed() uint64 {
	var n uint64
	for _, k := range i.ByKind {
		n += k
	}
	return n
}

// AddCounts adds what another interval counted, except connections, which are a state.
func (i *Interval) AddCounts(o *Interval) {
	i.Completed += o.Completed
	i.Delivered += o.Delivered
	for k, n := range o.ByKind {
		i.ByKind[k] += n
	}
	if len(o.Status) == 0 {
		return
	}
	sum := map[int]uint64{} // copies of an interval share their map
	maps.Copy(sum, i.Status)
	for code, n := range o.Status {
		sum[code] += n
	}
	i.Status = sum
}

// A Result is what one Run saw.
type Result struct {
	Start       time.Time     // when the warm-up began: zero of the time line
	WindowStart time.Duration // on the time line
	Window      time.Duration // the window's actual length
	Interrupted bool          // the context ended the measurement before its time

	Counts    Counts  // of the requests of the window: those due in it
	Carried   Counts  // of those due before it that were unanswered when it began
	AllCounts Counts  // of all requests, the warm-up's too
	Completed uint64  // good responses that ended inside the window
	Received  uint64  // bytes that arrived inside the window, TLS and framing included
	Tokens    *Tokens // of those, where they are answers of language models; nil elsewhere
	Redirects *uint64 // that requests of the window followed; nil where none are

	Latency   [Tags]*hist.Histogram // of the window
	Intervals []Interval
	Status    map[int]uint64    // responses to requests of the window by status code, for protocols that have one
	Failures  map[string]uint64 // failures of requests of the window and of those carried into it by text, the first 32 texts

	// Deviations counts the responses to requests of the window, and all those that opened a
	// subscription, that departed from their protocol and could be read, by wire.Deviations' names.
	Deviations map[string]uint64

	GoAways map[string]uint64 // connections that peers ended by GOAWAY for an error, by its text, bounded in the same way, warm-up included

	Steps []StepResult // of the users' scenario; nil without
	Users UsersResult  // the zero value without

	Ends        Ends
	Connections Connections
	Handshakes  Handshakes
	Silence     Silence       // of the requests
	Streams     Streams       // the zero value without subscribers
	Process     CPUTime       // this process, over the window
	Workers     CPUTime       // its workers, over the window
	Spun        time.Duration // the part of the workers' time that was spent polling before a start
}

// Throughput returns good responses per second of the window.
func (r *Result) Throughput() float64 { return r.perSecond(r.Completed) }

// Deliveries returns events per second of the window, over all subscribers that are
// not slow.
func (r *Result) Deliveries() float64 { return r.perSecond(r.Streams.Delivered) }

func (r *Result) perSecond(n uint64) float64 {
	if r.Window <= 0 {
		return 0
	}
	return float64(n) / r.Window.Seconds()
}
