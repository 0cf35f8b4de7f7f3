package main

import (
	"bytes"
	"sync"

	"dyno/hub/journal"
)

// A variant is a way of sending an event to a subscriber.
type variant struct {
	pooled, once, single bool
}

// hubs is the hub's own way.
var hubs = variant{pooled: true, once: true, single: true}

const (
	// bufferBytes is the size of the buffers that events are encoded in.
	bufferBytes = 4 << 10
	// maxPooled bounds the size of buffers that are kept; the buffer of a rare large event is dropped.
	maxPooled = 16 * bufferBytes
)

// A writer sends events in a way.
type writer struct {
	variant
	pool sync.Pool
}

// send encodes an entry's event, unless its frame is for all subscribers, and writes it.
func (w *writer) send(e *journal.Entry, write func([]byte) error) error {
	switch {
	case w.once:
		return w.write(e.Frame, write)
	case w.pooled:
		b := w.get()
		defer w.put(b)
		*b = journal.AppendFrame((*b)[:0], &e.Update)
		return w.write(*b, write)
	default:
		return w.write(journal.AppendFrame(make([]byte, 0, bufferBytes), &e.Update), write)
	}
}

// write writes an event at once, or line by line.
func (w *writer) write(frame []byte, write func([]byte) error) error {
	if w.single {
		return write(frame)
	}
	for line := range bytes.Lines(frame) {
		if err := write(line); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) get() *[]byte {
	if b, ok := w.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, bufferBytes)
	return &b
}

func (w *writer) put(b *[]byte) {
	if cap(*b) <= maxPooled {
		w.pool.Put(b)
	}
}
