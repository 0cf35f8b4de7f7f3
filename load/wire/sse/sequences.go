package sse

import "dyno/load/wire"

// Sequences number what a publisher publishes: each of its topics has a sequence of its own, and they take turns. One
// publication at a time is outstanding.
type Sequences struct {
	sources     []source
	due         int64
	number      uint32 // the publisher's
	topic       int    // of the last publication
	outstanding bool   // that is neither acknowledged nor known not to be
}

// A source is one numbered sequence of publications.
type source struct {
	published uint64
	uncertain []wire.Span
	unlisted  uint64
}

// maxUncertain bounds what a source remembers of publications that were not
// acknowledged. Past it they are counted.
const maxUncertain = 1024

// NewSequences returns the sequences of a publisher by its number.
func NewSequences(number uint32, topics int) Sequences {
	return Sequences{number: number, topic: topics - 1, sources: make([]source, topics)}
}

// Stamp gives the time at which the next publication was due; see wire.Stamper.
func (q *Sequences) Stamp(due int64) { q.due = due }

// Publish begins the next publication, to the next topic. Its sequence number is used up.
func (q *Sequences) Publish() (topic int, stamp Stamp) {
	q.Settle(false)
	q.topic++
	if q.topic == len(q.sources) {
		q.topic = 0
	}
	s := &q.sources[q.topic]
	s.published++
	q.outstanding = true
	return q.topic, Stamp{Source: q.id(q.topic), Sequence: s.published, Time: q.due}
}

func (q *Sequences) id(topic int) uint32 {
	return q.number*uint32(len(q.sources)) + uint32(topic) //nolint:gosec // bounded by the plan
}

// Settle decides about the outstanding publication, if there is one.
func (q *Sequences) Settle(acknowledged bool) {
	if !q.outstanding {
		return
	}
	q.outstanding = false
	if acknowledged {
		return
	}
	s := &q.sources[q.topic]
	switch last := len(s.uncertain) - 1; {
	case last >= 0 && s.uncertain[last].Last+1 == s.published:
		s.uncertain[last].Last++
	case len(s.uncertain) == maxUncertain:
		s.unlisted++
	default:
		s.uncertain = append(s.uncertain, wire.Span{First: s.published, Last: s.published})
	}
}

// Sources calls yield for each of the sources, one per topic. A publication that is still under way is then not
// acknowledged.
func (q *Sequences) Sources(yield func(wire.Source) bool) {
	q.Settle(false)
	for topic := range q.sources {
		s := &q.sources[topic]
		if !yield(wire.Source{ID: q.id(topic), Topic: topic, Published: s.published, Uncertain: s.uncertain, Unlisted: s.unlisted}) {
			return
		}
	}
}
