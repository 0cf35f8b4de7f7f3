package reply

import (
	"errors"
	"net/http"
	"time"
)

// A Writer writes an answer to a client, piece by piece. After an error it drops all further pieces: the client has
// gone.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	Started bool // some of the answer was written
	flushed bool // the head was sent
	waits   bool // some of the written bytes are not flushed yet
	Gone    bool
}

// New returns a Writer of a stream. Each piece must be written within timeout.
func New(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), timeout: timeout}
}

// Head sets the header fields of a stream.
func (s *Writer) Head() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer it
}

// Write writes a piece, and flushes it unless more follows at once.
func (s *Writer) Write(b []byte, more bool) {
	if s.Gone {
		return
	}
	s.Started = true
	if s.flushed || more {
		s.send(b, more)
		return
	}
	// net/http takes 3 KiB of stack to write the header. On this goroutine the stack would double, to 8 KiB, for the
	// rest of the stream.
	s.flushed = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.send(b, more)
	}()
	<-done
}

// Flush flushes what was written.
func (s *Writer) Flush() {
	if s.waits {
		s.Write(nil, false)
	}
}

// send writes a piece, unless the client has gone.
func (s *Writer) send(b []byte, more bool) {
	// It is absolute, so each piece sets it. Writers without support, as in tests, have none.
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.Gone = true
		return
	}
	if _, err := s.w.Write(b); err != nil {
		s.Gone = true
		return
	}
	if s.waits = more; more {
		return
	}
	if s.control.Flush() != nil {
		s.Gone = true
		return
	}
	// Over HTTP/2 a deadline ends the stream, even without a write.
	_ = s.control.SetWriteDeadline(time.Time{}) // if there are deadlines
}

// End bounds the write of the end, which net/http does after the handler, and which removes the deadline.
func (s *Writer) End() {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // if there are deadlines
}

// alive is a comment, which readers of events ignore. It is sent while an upstream works silently: proxies cut idle
// connections.
var alive = []byte(": the upstream is at work\n\n")

// Alive sends the client a comment while an upstream works. It starts the stream if necessary; head sets the header
// fields known by then.
func (s *Writer) Alive(head func(h http.Header)) {
	if !s.Started {
		s.Head()
		head(s.w.Header())
	}
	s.Write(alive, false)
}
