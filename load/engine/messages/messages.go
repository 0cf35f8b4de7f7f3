// Package messages times the messages of requests and responses. It says when a request's next message
// is due.
package messages

import (
	"errors"
	"fmt"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// A Config says that exchanges consist of messages, each of which is timed. It says how the messages of
// requests are sent. There is a time of each message of a response (event MuxMessage of a mux; what
// Messages of a client counts): FirstMessage of the first, MessageGap of the others, and Message of all
// if they are answers.
type Config struct {
	// Answered tells that each message of a request is answered by one of the response, in
	// their order.
	Answered bool

	// Interval is the time from one message of a request to the next, whatever is answered:
	// the muxes are wire.Pacers. Without, they send as they were prepared to.
	Interval time.Duration

	// Goal is what good answers of language models hold, to be counted as Within. The zero
	// value is held by all.
	Goal record.Goal
}

// Validate reports every fault of the configuration at once.
func (c *Config) Validate() error {
	var faults []error
	if c.Interval < 0 {
		faults = append(faults, fmt.Errorf("engine: interval of messages %v: want no negative duration", c.Interval))
	}
	if c.Goal.First < 0 || c.Goal.Each < 0 {
		faults = append(faults, fmt.Errorf("engine: goal of %v and %v: want no negative duration", c.Goal.First, c.Goal.Each))
	}
	return errors.Join(faults...)
}

// Times are the messages' times in a worker's exchanges, by the exchanges' numbers. The worker's thread
// alone uses them.
type Times struct {
	config *Config
	rec    *record.Recorder
	of     []times
	timers queue.Timers // of exchanges whose next message is due at a time
}

// times are the times of one exchange's messages.
type times struct {
	first    int64 // when the first message of the response came; 0 before
	last     int64 // when the last message of the response came, or the last one to be answered was due
	received uint32
}

// New returns the times of a number of exchanges.
func New(c *Config, exchanges int, rec *record.Recorder) *Times {
	t := &Times{config: c, rec: rec, of: make([]times, exchanges)}
	if c.Interval > 0 {
		t.timers = queue.NewTimers(exchanges)
	}
	return t
}

// Start begins the messages of an exchange, whose request is written now.
func (t *Times) Start(e int32, written int64) {
	t.of[e] = times{last: written}
	if interval := int64(t.config.Interval); interval > 0 {
		t.timers.Set(e, written+interval)
	}
}

// Next returns when the next message may be due: later than any time if none is.
func (t *Times) Next() int64 { return t.timers.Next() }

// Due returns an exchange whose next message is due, and since when; queue.None if there is none.
// The exchange may have ended.
func (t *Times) Due(now int64) (e int32, at int64) {
	if t.timers.Next() > now {
		return queue.None, 0
	}
	return t.timers.Pop()
}

// Sent notes that an exchange sent a message, not its last, that was due at a time.
func (t *Times) Sent(e int32, at int64) { t.timers.Set(e, at+int64(t.config.Interval)) }

// Received takes the time of a message of a response.
func (t *Times) Received(e int32, x *record.Request, r clock.Reading) {
	d, c := &t.of[e], t.config
	arrived := r.After(x.Written).Arrived
	t.rec.Message(arrived)
	if x.Part == record.Inside {
		if d.received == 0 {
			t.rec.Time(record.FirstMessage, arrived-x.Written)
		}
		switch {
		case !c.Answered && d.received > 0:
			t.rec.Time(record.MessageGap, max(0, arrived-d.last))
		case c.Answered && c.Interval > 0:
			// From when the message was due, be it sent late.
			t.rec.Time(record.Message, max(0, arrived-x.Written-int64(d.received)*int64(c.Interval)))
		case c.Answered:
			t.rec.Time(record.Message, max(0, arrived-d.last))
		}
	}
	if d.received == 0 {
		d.first = arrived
	}
	d.received++
	d.last = arrived
	if c.Answered {
		d.last = r.Read // the next message is due now
	}
}

// Count notes the times of messages that one reading has completed, on a connection with one exchange
// at a time.
func (t *Times) Count(e int32, x *record.Request, client wire.Client, r clock.Reading) {
	counter, ok := client.(wire.MessageCounter)
	if !ok {
		return
	}
	for n := counter.Messages(); t.of[e].received < n; {
		t.Received(e, x, r)
	}
}

// Answer records a good response to a request of a step, if it is the answer of a language model.
func (t *Times) Answer(e int32, x *record.Request, step int, client wire.Client, r clock.Reading) {
	answer, ok := client.(wire.TokenCounter)
	d := &t.of[e]
	if !ok || d.received == 0 {
		return
	}
	a := record.Answer{First: d.first - x.Intended, Tokens: answer.Tokens(), Prompt: answer.Prompt()}
	// Without several pieces nothing is known of the time between tokens.
	if shown := answer.Shown(); shown > 1 && d.received > 1 {
		a.Several, a.Each = true, max(0, d.last-d.first)/int64(shown-1)
	}
	t.rec.Answer(x, step, r, &a, t.config.Goal)
}
