package bot

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"dyno/services/bot/mask"
	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// A work is the context of an answer: not that of the client, who may leave before.
type work struct {
	context.Context
	cancel context.CancelFunc
	client context.Context
	stop   func() bool
	timer  *time.Timer
}

// errLeft is why an answer is given up whose client has left.
var errLeft = errors.New("the client has left")

// newWork returns the context of an answer. When the client leaves, it ends at once, or
// after drain.
func newWork(client context.Context, d Disconnect, drain time.Duration) *work {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	w := &work{Context: ctx, cancel: func() { cancel(errLeft) }, client: client}
	if d == Cancel {
		drain = 0
	}
	w.timer = time.AfterFunc(time.Hour, w.cancel)
	w.timer.Stop()
	w.stop = context.AfterFunc(client, func() {
		if drain == 0 {
			w.cancel()
			return
		}
		w.timer.Reset(drain)
	})
	return w
}

// gone tells whether the client has left.
func (w *work) gone() bool { return w.client.Err() != nil }

// end frees what it has.
func (w *work) end() {
	w.stop()
	w.timer.Stop()
	w.cancel()
}

// A sink writes an answer to a client, piece by piece. What cannot be written is
// dropped: the client has gone.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
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
		data, err := openai.ReplaceText(r.endpoint, f.Data, texts)
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
		return openai.AppendFrame(b, "", openai.TextEvent(choice, string(r.buf)))
	}
	data, err := openai.ReplaceText(r.endpoint, r.last, []string{string(r.buf)})
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
