package calls

import (
	"time"

	"dyno/experiments/subjects/grpcloop/http2"
)

// A Service has methods of its own, whose calls a Loop carries out in addition to those of the echo. It
// is how suites of tests bring the services that they call. All loops of a server share it, so
// that what it knows of a call is kept with the call.
type Service interface {
	// Methods are the paths of its methods. Their numbers are their places here.
	Methods() []string
	// Streams tells whether a method's client may send any number of messages. Calls of the
	// others have exactly one, or end with a status before the service hears of them.
	Streams(method int) bool
	// Message takes a message, which is valid during the call of Message. The next one comes
	// when all answers so far are sent.
	Message(c Call, b []byte)
	// Ended tells that a client that may send any number of messages sends no more. What is
	// told to the call by then must lead to its end.
	Ended(c Call)
}

// A Call is a call of a Service's method, valid during the call of Message or Ended.
type Call struct {
	l *Loop
	k *call
}

// A step is what is still to be done for a call.
type step struct {
	after   time.Duration
	message []byte
	ends    bool
	status  uint32
	text    string
}

// Method is the method's number.
func (c Call) Method() int { return c.k.stream.Request.Method - ownMethods - 1 }

// Fields are those of the request's header, without pseudo-headers.
func (c Call) Fields() []http2.Field { return c.k.stream.Request.Fields }

// Timeout is how long the client gives the call; 0 is no limit.
func (c Call) Timeout() time.Duration { return c.k.stream.Request.Timeout }

// State is where a service keeps what it knows of the call. It is nil at first.
func (c Call) State() *any { return &c.k.state }

// Add adds fields to the header of the answer, and to its trailers. It is of use for headers
// until the first answer or Respond, and for trailers until End.
func (c Call) Add(header, trailer []http2.Field) {
	s := c.k.stream
	s.Header, s.Trailer = append(s.Header, header...), append(s.Trailer, trailer...)
}

// Respond sends the header of the answer now. Without, it goes with what is sent first.
func (c Call) Respond() {
	s := c.k.stream
	s.Conn.Respond(s, s.Request.Encoding == http2.Gzip && s.Request.AcceptsGzip)
}

// Answer sends a message, some time after what was to be sent before it. The service must not
// change it afterwards.
func (c Call) Answer(after time.Duration, message []byte) {
	c.k.steps = append(c.k.steps, step{after: after, message: message})
}

// End ends the call with a status of gRPC's, some time after what was to be sent before it.
func (c Call) End(after time.Duration, status uint32, text string) {
	c.k.steps = append(c.k.steps, step{after: after, ends: true, status: status, text: text})
}

// step does what a service has asked for, as far as there is room and time for it.
func (l *Loop) step(k *call) {
	for k.stream != nil && len(k.steps) > 0 && k.wake == 0 && k.sent == len(k.out) {
		next := k.steps[0]
		if next.after > 0 && !k.waited {
			l.pause(k, next.after)
			return
		}
		k.waited = false
		if next.ends {
			l.end(k, next.status, next.text)
			return
		}
		k.steps = k.steps[1:]
		l.answer(k, k.zips, next.message)
	}
}
