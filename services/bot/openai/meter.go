package openai

import (
	"bytes"
	"math"
	"strconv"
	"sync/atomic"
)

// A Meter finds the usage of an answer that passes by. It keeps the first and the last bytes: one of them has it.
type Meter struct {
	head, tail []byte
	bytes      atomic.Int64
	events     atomic.Int64 // of a stream
	last       byte         // of the answer so far
}

// metered bounds the bytes that a Meter keeps of each end.
const metered = 16 << 10

// Write implements io.Writer.
func (m *Meter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	m.bytes.Add(int64(len(p)))
	if m.events.Add(int64(bytes.Count(p, []byte("\n\n")))); m.last == '\n' && p[0] == '\n' {
		m.events.Add(1)
	}
	m.last = p[len(p)-1]
	m.head = append(m.head, p[:min(len(p), metered-len(m.head))]...)
	m.tail = append(m.tail, p[max(0, len(p)-metered):]...)
	m.tail = append(m.tail[:0], m.tail[max(0, len(m.tail)-metered):]...)
	return len(p), nil
}

// find returns whether read accepts a member of that name, which it tries from the last one on.
func (m *Meter) find(name string, read func(value []byte) bool) bool {
	for _, part := range [][]byte{m.tail, m.head} {
		for _, value := range valuesOf(part, name) {
			if read(value) {
				return true
			}
		}
	}
	return false
}

// Progress estimates the usage so far. It may be called from any goroutine.
func (m *Meter) Progress(q *Call) Usage {
	u, o := q.Estimate, q.Operation
	u.Completion, u.Estimated = 0, true
	if o.Answers && o.Unit == NoUnit {
		if u.Completion = EstimateTokens(int(m.bytes.Load())); q.Stream {
			u.Completion = int(m.events.Load())
		}
		u.Completion = min(u.Completion, q.Estimate.Completion)
	}
	return u
}

// Usage returns what the answer to q has used: what it says itself, and else an estimate. A stream without a usage counts
// a token for each event.
func (m *Meter) Usage(q *Call) Usage {
	u, o := m.Progress(q), q.Operation
	told := func(v *Usage) bool {
		if v != nil {
			v.Units = u.Units
			u = *v
		}
		return v != nil
	}
	n := 0
	if !m.find("usage", func(value []byte) bool { return told(usageOf(value)) }) && !m.find("usageMetadata", func(value []byte) bool { return told(contentUsage(value)) }) &&
		!o.Answers && m.find("total_tokens", func(value []byte) bool { return amount(value, &n) }) {
		told(&Usage{Prompt: n})
	}
	switch units := func(value []byte) bool { return amount(value, &u.Units) }; o.Unit {
	case Documents:
		m.find("search_units", units)
	case Seconds:
		if m.find("seconds", units) || m.find("duration", units) {
			u.Estimated = false
		}
	case NoUnit, Images, Characters:
	}
	return u
}

// amount reads a number that is not negative, and rounds it up.
func amount(value []byte, to *int) bool {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f >= 0 && f <= maxCount) {
		return false
	}
	*to = int(math.Ceil(f))
	return true
}
