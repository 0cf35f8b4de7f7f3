package record

import "slices"

// A Tag names one of the times recorded per request.
type Tag uint8

// Recorded times, each for the window's requests.
const (
	// Response runs from the intended start to the last byte's arrival. If the arrival is unknown it
	// runs to the read (see Clock). It holds good responses. It also holds timed-out and unfinished
	// requests, with the time they had taken when they were given up: they took at least that long.
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
	// ConnectTime is the time to open a connection, with a proxy's tunnel and without TLS. Connections
	// belong to no request, so the warm-up's are recorded too.
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
	// Delivery runs from an event's stamp, which is when its publication was due, until its last byte
	// arrived. It holds the events that arrived in the window. If the stamp comes from another machine,
	// it is off by the clocks' difference.
	Delivery
	// ReadDelay runs from the arrival of a response or event of the window until it was read. It holds
	// those that ended by arrival: the generator's backlog.
	ReadDelay
	// ServiceRead runs from the write until the last byte was read, of the same requests
	// as Service. Where reading ends all responses, it is the same.
	ServiceRead
	// SharedStamp bounds the error of an arrival, for each event of the window followed by more in the
	// same read: its stamp belongs to the last bytes, and it came after the socket had last been empty.
	SharedStamp
	// HandshakeTime runs from the beginning of a TLS handshake, on an open connection, until its
	// completing bytes arrive. Those of the warm-up are recorded too.
	HandshakeTime
	// FirstMessage runs from a request's write until the first message of its response arrives, where
	// responses consist of messages. It and the next two count requests of the window, whenever the
	// message arrived.
	FirstMessage
	// MessageGap runs from one message of a response to the next, where they answer nothing.
	MessageGap
	// Message runs from when a request's message was due until the arrival of its answer. Without an
	// interval between messages, it is due when the answer to the one before has been read.
	Message
	// FirstToken runs from the intended start of a request to a language model until the answer's first
	// piece arrives. It and the next count good answers to requests of the window.
	FirstToken
	// TokenTime is the time per token of an answer after the first: from the first piece of
	// the answer until the last, divided by the tokens but one. An answer in one piece has none.
	TokenTime
	// GivenUp is the part of Response that timed out or was unfinished, and GivenUpService the same
	// part of Service: what is left are good responses.
	GivenUp
	GivenUpService
	Tags // the number of tags
)

var tagNames = [Tags]string{
	"response", "service", "send_lag", "generator_lag", "first_byte", "failed", "connect",
	"opening", "first_event", "event_gap", "delivery",
	"read_delay", "service_read", "shared_stamp", "handshake",
	"first_message", "message_gap", "message",
	"first_token", "token_time", "given_up", "given_up_service",
}

// A TagSet is some of the tags.
type TagSet [Tags]bool

// TagOf returns the tag of a name.
func TagOf(name string) (t Tag, known bool) {
	i := slices.Index(tagNames[:], name)
	return Tag(max(i, 0)), i >= 0 //nolint:gosec // there are few tags
}

// String returns the tag's name as it stands in latency.hlog.
func (t Tag) String() string {
	if t < Tags {
		return tagNames[t]
	}
	return "unknown"
}
