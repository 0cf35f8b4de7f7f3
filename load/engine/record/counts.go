package record

import (
	"errors"
	"fmt"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/wire"
)

// Counts holds what became of a set of requests.
type Counts struct {
	Scheduled uint64 // were due
	Sent      uint64 // were given to a connection, or to the attempt to open one
	Outcomes
}

// Outcomes counts requests by how they ended. In JSON, it has only what is not zero.
type Outcomes struct {
	Dropped    uint64             `json:",omitzero"` // never got a connection: too many waited, or the end came first
	Unsent     uint64             `json:",omitzero"` // of Dropped: those that the generator could open no connection for, for want of descriptors, ports or memory
	OK         uint64             `json:",omitzero"`
	Errors     uint64             `json:",omitzero"` // failed, but for those below
	Generator  uint64             `json:",omitzero"` // failed for want of descriptors, ports or memory of the generator's own
	Timeouts   uint64             `json:",omitzero"`
	Unfinished uint64             `json:",omitzero"` // were under way when the measurement ended
	ByKind     [wire.Kinds]uint64 `json:",omitzero"` // of everything that was sent and is not OK
}

// since returns what was counted after an earlier state of the same outcomes.
func (c *Outcomes) since(o *Outcomes) Outcomes {
	d := Outcomes{
		Dropped: c.Dropped - o.Dropped, Unsent: c.Unsent - o.Unsent, Generator: c.Generator - o.Generator,
		OK: c.OK - o.OK, Errors: c.Errors - o.Errors, Timeouts: c.Timeouts - o.Timeouts, Unfinished: c.Unfinished - o.Unfinished,
	}
	for k := range d.ByKind {
		d.ByKind[k] = c.ByKind[k] - o.ByKind[k]
	}
	return d
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

// A Goal bounds what users of a language model feel. A bound of 0 is none.
type Goal struct {
	First time.Duration // from when the request was due until the first piece of the answer
	Each  time.Duration // per token after the first, on average over the answer
}

// holds tells whether an answer keeps within the goal.
func (g Goal) holds(first, each int64) bool {
	return (g.First == 0 || first <= int64(g.First)) && (g.Each == 0 || each <= int64(g.Each))
}

// Tokens sums up answers of language models: good ones that ended inside the window, whenever
// they were due.
type Tokens struct {
	Count    uint64 // tokens
	Within   uint64 // answers that keep within the goal
	Prompt   uint64 // tokens of the questions, where the server says of how many they are
	NoPrompt uint64 // answers where it does not
}

func (t *Tokens) add(o *Tokens) {
	t.Count += o.Count
	t.Within += o.Within
	t.Prompt += o.Prompt
	t.NoPrompt += o.NoPrompt
}

// Ends says how the good responses, and the events, of the window ended.
type Ends struct {
	ByArrival uint64 // when the kernel stamped their last segment
	ByRead    uint64 // when they were read: no stamp was asked for, or none came

	// Those of ByRead whose stamp was refused. Late ones were after the read, early ones before the
	// request's write; both are the real-time clock's doing. Stale ones belong to segments that the
	// kernel held back for a lost or overtaken one: the worker has found the socket empty since, and
	// segments had come out of order.
	Late, Early, Stale uint64

	// Shared are those of ByArrival followed by more in the same read. Their stamp may be too late, by
	// no more than the tag SharedStamp holds.
	Shared uint64

	Steps       uint64        // of the real-time clock, as far as workers saw them
	Uncertainty time.Duration `sum:"max"` // of the conversion of stamps to the engine's clock, at most
	Fault       string        // why no stamps could be asked for, where they should have been
}

// count enters one that ended by a reading.
func (a *Ends) count(r clock.Reading) {
	switch r.Stamp {
	case clock.Stamped:
		a.ByArrival++
		return
	case clock.Late:
		a.Late++
	case clock.Early:
		a.Early++
	case clock.Stale:
		a.Stale++
	}
	a.ByRead++
}

// An Answer describes a language model's good answer.
type Answer struct {
	First   int64 // from when the request was due until the first piece came
	Each    int64 // per token after the first
	Several bool  // it came in several pieces: only then is Each known
	Tokens  uint32
	Prompt  uint32 // tokens of the question; 0 where the server does not say
}

// Texts counts failures by value: codecs return the same one each time. It keeps the first
// failureTexts of them apart.
type Texts map[error]uint64

// failureTexts bounds the different failures a worker keeps apart.
const failureTexts = 32

// Count counts a failure.
func (t Texts) Count(err error) {
	if n, ok := t[err]; ok || len(t) < failureTexts {
		t[err] = n + 1
	}
}

// AddTo adds the failures by their text, the first failureTexts of them.
func (t Texts) AddTo(to map[string]uint64) {
	for err, n := range t {
		text := err.Error()
		if _, ok := to[text]; ok || len(to) < failureTexts {
			to[text] += n
		}
	}
}
