package engine

import (
	"errors"
	"fmt"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// Messages says that exchanges consist of messages, each of which is timed, and how those of
// requests are sent. There is a time of each message of a response (event MuxMessage of a
// mux; what Messages of a client counts): FirstMessage of the first, MessageGap of the others,
// and Message of all if they are answers.
type Messages struct {
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

func (m *Messages) faults(c *Config) (faults []error) {
	if m.Interval < 0 {
		faults = append(faults, fmt.Errorf("engine: interval of messages %v: want no negative duration", m.Interval))
	}
	if m.Goal.First < 0 || m.Goal.Each < 0 {
		faults = append(faults, fmt.Errorf("engine: goal of %v and %v: want no negative duration", m.Goal.First, m.Goal.Each))
	}
	if m.Interval > 0 && (c.NewMuxes == nil || c.NewClients != nil) {
		faults = append(faults, errors.New("engine: interval of messages: want muxes alone, as clients send requests whole"))
	}
	return faults
}

// A messageTimes is what is kept of the messages of an exchange.
type messageTimes struct {
	first    int64 // when the first message of the response came; 0 before
	last     int64 // when the last message of the response came, or the last one to be answered was due
	due      int64 // when the next message of the request is due; 0 without
	received uint32
	alarmed  bool // its alarm is in the heap, be it that of an exchange that has ended
}

// startMessages begins the messages of an exchange, whose request is written now.
func (w *worker) startMessages(e int32, written int64) {
	d := &w.messages[e]
	*d = messageTimes{last: written, alarmed: d.alarmed}
	if interval := int64(w.engine.config.Messages.Interval); interval > 0 {
		w.setMessageAlarm(e, d, written+interval)
	}
}

// setMessageAlarm says when the next message is due. Each place of an exchange has one alarm at
// most, so that those whose exchanges end early do not fill the heap: what an earlier exchange
// left there comes no later than it is needed, and is then set again.
func (w *worker) setMessageAlarm(e int32, d *messageTimes, due int64) {
	d.due = due
	if !d.alarmed {
		d.alarmed = true
		w.messageAlarms.Set(due, e)
	}
}

// recordMessage takes the time of a message of a response.
func (w *worker) recordMessage(e int32, x *exchange, r clock.Reading) {
	d, m := &w.messages[e], w.engine.config.Messages
	arrived := r.After(x.Written).Arrived
	if x.Part == record.Inside {
		if d.received == 0 {
			w.rec.Time(record.FirstMessage, arrived-x.Written)
		}
		switch {
		case !m.Answered && d.received > 0:
			w.rec.Time(record.MessageGap, max(0, arrived-d.last))
		case m.Answered && m.Interval > 0:
			// From when the message was due, be it sent late.
			w.rec.Time(record.Message, max(0, arrived-x.Written-int64(d.received)*int64(m.Interval)))
		case m.Answered:
			w.rec.Time(record.Message, max(0, arrived-d.last))
		}
	}
	if d.received == 0 {
		d.first = arrived
	}
	d.received++
	d.last = arrived
	if m.Answered {
		d.last = r.Read // the next message is due now
	}
}

// countMessages takes the times of the messages that one reading has completed, of a connection
// that carries one exchange at a time.
func (w *worker) countMessages(e int32, x *exchange, c *connection, r clock.Reading) {
	counter, ok := c.client.(wire.MessageCounter)
	if !ok {
		return
	}
	for n := counter.Messages(); w.messages[e].received < n; {
		w.recordMessage(e, x, r)
	}
}

// sendDueMessages sends the messages that are due.
func (w *worker) sendDueMessages(now int64) {
	for w.messageAlarms.Next() <= now {
		a := w.messageAlarms.Pop()
		x, d := &w.exchanges[a.Whose], &w.messages[a.Whose]
		d.alarmed = false
		switch {
		case x.state != inFlight || d.due == 0:
			continue // of an exchange that has ended
		case d.due > a.At: // an exchange has begun in the place of the one that set the alarm
			w.setMessageAlarm(a.Whose, d, d.due)
			continue
		}
		c := &w.conns[x.conn]
		d.due = 0
		w.queueOutput(x.conn, c)
		if c.mux.(wire.Pacer).Next(uint32(a.Whose - x.conn*w.streams)) { //nolint:gosec // not negative
			w.setMessageAlarm(a.Whose, d, a.At+int64(w.engine.config.Messages.Interval))
		}
	}
}
