package serve

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Bounds of the time in which a request's body must come: of one that is read, and of one that is not, or not to its end.
// For the latter net/http waits before it answers, without a limit of its own.
const (
	bodyTime   = 30 * time.Second
	unreadTime = time.Second
)

// Timely bounds the arrival of requests' bodies: 30 s after the first read, and a second for refused ones. After the
// end of a body there is no deadline: it would end the detection of a client that disconnects. A handler that reads a
// part of a body should close it before writing more than a few kilobytes.
func Timely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &timely{ReadCloser: r.Body, control: http.NewResponseController(w)}
		if r.ProtoMajor < 2 { // HTTP/2 waits for no body, and one whose time was over once is lost
			b.within(unreadTime)
		}
		own := r.WithContext(r.Context()) // net/http looks at the body of its own request before it asks for it, or waits
		own.Body = b
		next.ServeHTTP(w, own)
		_ = b.Close() // cannot fail
	})
}

// timely is a body that has some time to come.
type timely struct {
	io.ReadCloser
	control        *http.ResponseController
	started, ended bool
}

// within bounds the time from now on. Writers without deadlines, as tests have them, go without.
func (t *timely) within(d time.Duration) { _ = t.control.SetReadDeadline(time.Now().Add(d)) }

// Close says that no more is read, before the answer is written. The server itself reads on, for as long as it may.
func (t *timely) Close() error {
	if !t.ended {
		t.within(unreadTime)
	}
	return nil
}

func (t *timely) Read(b []byte) (int, error) {
	if !t.started {
		t.started = true
		t.within(bodyTime)
	}
	n, err := t.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) && !t.ended {
		t.ended = true
		_ = t.control.SetReadDeadline(time.Time{}) // as in within
	}
	return n, err
}
