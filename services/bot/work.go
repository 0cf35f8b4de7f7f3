package bot

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"dyno/services/bot/mask"
	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// A work is the context of an answer: not that of the client, who may leave before, and
// come again.
type work struct {
	context.Context
	cancel context.CancelFunc
	client context.Context
	drain  time.Duration // how long it goes on without a client
	stop   func() bool

	mu      sync.Mutex // guards what follows
	present int        // clients
	left    bool       // the first one has
	ended   bool
	timer   *time.Timer // of drain; nil before it was needed
}

// errLeft is why an answer is given up whose client has left.
var errLeft = errors.New("the client has left")

// newWork returns the context of an answer. When the last client has left, it ends at
// once, or after drain.
func newWork(client context.Context, d Disconnect, drain time.Duration) *work {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	w := &work{Context: ctx, cancel: func() { cancel(errLeft) }, client: client, drain: drain, present: 1}
	if d == Cancel {
		w.drain = 0
	}
	w.stop = context.AfterFunc(client, w.leave)
	return w
}

// leave says that the first client has left.
func (w *work) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left {
		w.left = true
		w.without()
	}
}

// without has one client less. The caller holds mu.
func (w *work) without() {
	if w.present--; w.present > 0 || w.ended {
		return
	}
	if w.drain == 0 {
		w.cancel()
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.drain, w.cancel)
		return
	}
	w.timer.Reset(w.drain)
}

// Came is resume.Presence's: another client reads.
func (w *work) Came() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present++
	w.hold()
}

// hold has it go on. The caller holds mu.
func (w *work) hold() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Left is resume.Presence's.
func (w *work) Left() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.without()
}

// gone tells whether no client is there.
func (w *work) gone() bool {
	if w.client.Err() != nil {
		w.leave() // at once, whenever the context says so
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present == 0
}

// end frees what it has.
func (w *work) end() {
	w.stop()
	w.mu.Lock()
	w.ended = true
	w.hold()
	w.mu.Unlock()
	w.cancel()
}

// A sink writes an answer to a client, piece by piece. What cannot be written is
// dropped: the client has gone.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool // the head is on its way
	gone    bool
}

func newSink(w http.ResponseWriter, timeout time.Duration) *sink {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies pass on what comes
	return &sink{w: w, control: http.NewResponseController(w), timeout: timeout}
}

// write writes a piece, and sends it on its way unless more follows at once.
func (s *sink) write(b []byte, more bool) {
	if s.gone {
		return
	}
	if s.begun || more {
		s.send(b, more)
		return
	}
	// To write the head, net/http takes 3 KiB of stack. On this goroutine it would be twice as large from then on, for
	// as long as the stream goes on: 8 KiB of each.
	s.begun = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.send(b, more)
	}()
	<-done
}

// send is write for a client that has not gone.
func (s *sink) send(b []byte, more bool) {
	// Absolute: it is set anew for each piece. Writers without deadlines, as tests have
	// them, go without.
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.gone = true
		return
	}
	if _, err := s.w.Write(b); err != nil {
		s.gone = true
		return
	}
	if !more && s.control.Flush() != nil {
		s.gone = true
	}
}

// end takes the deadline away: the connection may have other requests.
func (s *sink) end() {
	_ = s.control.SetWriteDeadline(time.Time{}) // as above
}

// A relay passes a stream on, event by event.
type relay struct {
	codec    openai.Codec
	endpoint openai.Endpoint
	usage    bool // the client wants to know it
	masks    map[int]*mask.Stream
	masker   *mask.Masker
	last     []byte // the last event with text, if something is held back
	buf      []byte
}

// next adds to b what the client is to see of an event.
func (r *relay) next(b []byte, f openai.Frame, e *openai.Event) []byte {
	if e.UsageOnly && !r.usage {
		return b // it was asked for by the gateway
	}
	if r.masker == nil {
		return append(b, f.Raw...)
	}
	changed := false
	texts := make([]string, len(e.Deltas))
	for i, d := range e.Deltas {
		s := r.stream(d.Choice)
		r.buf = s.Write(r.buf[:0], d.Text)
		for _, ended := range e.Ended {
			if ended == d.Choice {
				r.buf = s.Close(r.buf)
			}
		}
		texts[i] = string(r.buf)
		changed = changed || texts[i] != d.Text
	}
	if len(e.Deltas) > 0 {
		if r.endpoint == openai.Responses {
			r.last = append(r.last[:0], f.Data...)
		}
		if !changed {
			return append(b, f.Raw...)
		}
		data, err := r.codec.ReplaceText(r.endpoint, f.Data, texts)
		if err != nil {
			return b // it was understood once: what cannot be masked is not passed on
		}
		return openai.AppendFrame(b, string(f.Name), data)
	}
	for _, choice := range e.Ended {
		b = r.rest(b, choice)
	}
	if e.Done {
		for choice := range r.masks {
			b = r.rest(b, choice)
		}
	}
	if r.endpoint == openai.Responses { // the whole text once more
		data, n := r.masker.JSON(f.Data)
		if n > 0 {
			return openai.AppendFrame(b, string(f.Name), data)
		}
	}
	return append(b, f.Raw...)
}

func (r *relay) stream(choice int) *mask.Stream {
	if r.masks == nil {
		r.masks = map[int]*mask.Stream{}
	}
	s := r.masks[choice]
	if s == nil {
		s = r.masker.Stream()
		r.masks[choice] = s
	}
	return s
}

// rest adds what is held back of a choice.
func (r *relay) rest(b []byte, choice int) []byte {
	s := r.masks[choice]
	if s == nil || !s.Held() {
		return b
	}
	r.buf = s.Close(r.buf[:0])
	if r.endpoint == openai.Chat {
		return openai.AppendFrame(b, "", r.codec.TextEvent(choice, string(r.buf)))
	}
	data, err := r.codec.ReplaceText(r.endpoint, r.last, []string{string(r.buf)})
	if err != nil {
		return b // it was understood once
	}
	return openai.AppendFrame(b, "response.output_text.delta", data)
}

// pass reads a stream to its end and gives every event to each. It closes the stream.
// The error is nil if the answer is complete.
func (g *Gateway) pass(s *upstream.Stream, each func(f openai.Frame, e *openai.Event, more bool)) error {
	defer s.Close()
	for {
		f, e, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		came := time.Now()
		each(f, e, s.More())
		g.stats.event.Observe(time.Since(came).Seconds())
	}
}
