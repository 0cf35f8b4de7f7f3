package record

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
	// GivenUp is the part of Response of the requests that timed out or were unfinished, and GivenUpService that of
	// Service: what is left are good responses.
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

// String returns the tag's name as it stands in latency.hlog.
func (t Tag) String() string {
	if t < Tags {
		return tagNames[t]
	}
	return "unknown"
}
