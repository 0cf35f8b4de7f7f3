// Package exchange carries messages between dyno and a process that works for it, on this machine or on
// another one: each is a line of JSON. Where the two may lose each other, each sends heartbeats. A side
// that is silent for too long counts as lost.
package exchange

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A Line is one side of an exchange. Any number of goroutines may send, and one receives.
type Line struct {
	in   *bufio.Reader
	most int // bytes of a line

	mu  sync.Mutex // guards out
	out io.Writer

	silence time.Duration
	watch   *time.Timer // nil: the other side may be silent
	silent  atomic.Bool // it was, for too long
	closed  chan struct{}
}

// New returns a side that receives lines of up to a number of bytes.
func New(in io.Reader, out io.Writer, most int) *Line {
	l := &Line{most: most, out: out, closed: make(chan struct{})}
	l.in = bufio.NewReader(hearer{l, in})
	return l
}

// A hearer reads what the other side says.
type hearer struct {
	line *Line
	from io.Reader
}

func (h hearer) Read(b []byte) (int, error) {
	n, err := h.from.Read(b)
	switch l := h.line; {
	case l.watch == nil:
	case err == nil:
		l.watch.Reset(l.silence)
	case l.silent.Load():
		err = fmt.Errorf("it was silent for %v", l.silence)
	}
	return n, err
}

// Watch calls lost when the other side says nothing for too long. It is called before or between receptions, once.
func (l *Line) Watch(silence time.Duration, lost func()) {
	l.silence = silence
	l.watch = time.AfterFunc(silence, func() {
		l.silent.Store(true)
		lost()
	})
}

// Beat sends a message again and again, which says that this side is there, until Close.
func (l *Line) Beat(period time.Duration, message any) {
	go func() {
		t := time.NewTicker(period)
		defer t.Stop()
		for {
			select {
			case <-l.closed:
				return
			case <-t.C:
				if l.Send(message) != nil {
					return // what the other side says ends, too
				}
			}
		}
	}()
}

// Close ends Watch and Beat. It is called once.
func (l *Line) Close() {
	close(l.closed)
	if l.watch != nil {
		l.watch.Stop()
	}
}

// Send sends a message, and what follows it at once.
func (l *Line) Send(message any, rest ...byte) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.out.Write(append(append(text, '\n'), rest...))
	return err
}

// Receive waits for the next message.
func (l *Line) Receive(message any) error {
	var line []byte
	for {
		piece, err := l.in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			return json.Unmarshal(line, message)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		case len(line) > l.most:
			return fmt.Errorf("a line longer than %d bytes", l.most)
		}
	}
}

// Read reads what follows a message.
func (l *Line) Read(b []byte) (int, error) { return l.in.Read(b) }
