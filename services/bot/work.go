package bot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
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
	cancel context.CancelCauseFunc
	client context.Context
	drain  time.Duration // how long it goes on without a client
	stop   [2]func() bool

	mu      sync.Mutex // guards what follows
	present int        // clients
	left    bool       // the first one has
	cut     bool       // the gateway has ended
	ended   bool
	timer   *time.Timer // of drain; nil before it was needed
}

// errLeft is why an answer is given up whose client has left.
var errLeft = errors.New("the client has left")

// newWork returns the context of an answer. When the last client has left, it ends at
// once, or after drain; when the gateway has ended, at once.
func newWork(client, gateway context.Context, d Disconnect, drain time.Duration) *work {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	w := &work{Context: ctx, cancel: cancel, client: client, drain: drain, present: 1}
	if d == Cancel {
		w.drain = 0
	}
	w.stop = [...]func() bool{context.AfterFunc(client, w.leave), context.AfterFunc(gateway, w.cutOff)}
	if client.Err() != nil { // nothing is begun for who has gone
		w.leave()
	}
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

// cutOff ends it as if nobody were there: nobody will be any more.
func (w *work) cutOff() {
	w.mu.Lock()
	w.cut = true
	w.mu.Unlock()
	w.cancel(errLeft)
}

// halt ends it because its user says so; false if it has ended.
func (w *work) halt() bool {
	w.cancel(errStopped)
	return w.stopped()
}

// stopped tells whether that is why it has ended.
func (w *work) stopped() bool { return errors.Is(context.Cause(w), errStopped) }

// waiting is a client's context that ends with the work, too: for waiting before there is an answer. It must be ended.
func (w *work) waiting() (context.Context, func()) {
	ctx, cancel := context.WithCancel(w.client)
	stop := context.AfterFunc(w, cancel)
	return ctx, func() { stop(); cancel() }
}

// without has one client less. The caller holds mu.
func (w *work) without() {
	if w.present--; w.present > 0 || w.ended {
		return
	}
	if w.drain == 0 {
		w.cancel(errLeft)
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.drain, func() { w.cancel(errLeft) })
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

// gone tells whether no client is there, or will not be.
func (w *work) gone() bool {
	if w.client.Err() != nil {
		w.leave() // at once, whenever the context says so
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present == 0 || w.cut
}

// end frees what it has.
func (w *work) end() {
	for _, stop := range w.stop {
		stop()
	}
	w.mu.Lock()
	w.ended = true
	w.hold()
	w.mu.Unlock()
	w.cancel(errLeft)
}

// A sink writes an answer to a client, piece by piece. What cannot be written is
// dropped: the client has gone.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool // the head is on its way
	waits   bool // something that was written is not on its way yet
	gone    bool
}

func newSink(w http.ResponseWriter, timeout time.Duration) *sink {
	return &sink{w: w, control: http.NewResponseController(w), timeout: timeout}
}

// head says that a stream follows.
func (s *sink) head() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies pass on what comes
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

// flush sends what waits on its way.
func (s *sink) flush() {
	if s.waits {
		s.write(nil, false)
	}
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
	if s.waits = more; more {
		return
	}
	if s.control.Flush() != nil {
		s.gone = true
		return
	}
	// Over HTTP/2 a deadline ends the stream, whether something is being written or not.
	_ = s.control.SetWriteDeadline(time.Time{}) // as above
}

// end bounds writing the end, which net/http does behind the handler. It takes the deadline off.
func (s *sink) end() {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // as above
}

// Bounds of the texts of an answer that go on at once, and of what is held of them to tell them apart and to go on with
// each. A model has a few choices, each with a few tool calls.
const (
	maxTexts     = 1024
	maxTextBytes = 64 << 10
)

// errTexts says that they are more.
var errTexts = errors.New("the answer has too many texts at once")

// A relay passes a stream on, event by event.
type relay struct {
	codec    openai.Codec
	endpoint openai.Endpoint
	usage    bool // the client wants to know it
	masker   *mask.Masker
	texts    map[string]*runningText // by the keys of their places
	held     int                     // bytes of texts
	full     bool                    // there are more than may be: the answer cannot be passed on
	found    int                     // secrets that were replaced, but for those of texts
	buf      []byte
}

// A runningText is one that is passed on as it comes.
type runningText struct {
	place  openai.Place
	stream *mask.Stream
	last   []byte // its last event but for the text, of /v1/responses, if something is held back
	name   string // of that event
}

// size is how many bytes are held of it.
func (t *runningText) size() int { return 2*len(t.place.Key) + len(t.last) + len(t.name) }

// next adds to b what the client is to see of an event.
func (r *relay) next(b []byte, f openai.Frame, e *openai.Event) []byte {
	if e.UsageOnly && !r.usage {
		return b // it was asked for by the gateway
	}
	if r.full {
		return b // the client is told an error, not an end
	}
	if r.masker == nil {
		return append(b, f.Raw...)
	}
	if f.End() {
		return append(r.all(b), f.Raw...)
	}
	told := r.codec.WithoutLogprobs(r.endpoint, f.Data) // a secret's tokens say what it is
	data, err := r.codec.Rewrite(r.endpoint, told, openai.Rewriter{
		Whole: func(value []byte) ([]byte, int) {
			value, n := r.masker.JSON(value)
			r.found += n
			return value, n
		},
		Piece: func(p openai.Place, piece string) string {
			t := r.text(p)
			if t == nil {
				return ""
			}
			r.buf = t.stream.Write(r.buf[:0], piece)
			if slices.Contains(e.Ended, p.Choice) { // others have what is held back in an event before this one
				r.buf = t.stream.Close(r.buf)
			}
			r.goesOn(t, f, told)
			return string(r.buf)
		},
	})
	if err != nil || r.full {
		return b // it was understood once: what cannot be masked is not passed on
	}
	if r.endpoint == openai.Responses {
		if ended := r.texts[string(r.codec.Completed(f.Data))]; ended != nil {
			b = r.rest(b, ended)
		}
		if e.Done {
			b = r.all(b)
		}
	}
	for _, choice := range e.Ended {
		b = r.ended(b, func(t *runningText) bool { return t.place.Choice == choice })
	}
	if len(data) == len(f.Data) && &data[0] == &f.Data[0] {
		return append(b, f.Raw...)
	}
	// Between values, JSON may have line breaks, which would end the event's data.
	return openai.AppendFrame(b, string(f.Name), bytes.ReplaceAll(data, []byte{'\n'}, []byte{' '}))
}

// goesOn notes a text's last event, if the text is to go on behind it.
func (r *relay) goesOn(t *runningText, f openai.Frame, told []byte) {
	r.held -= t.size()
	t.last, t.name = nil, ""
	if t.stream.Held() && r.endpoint == openai.Responses {
		const any = "." // not nothing: that would not be a piece any more
		bare, err := r.codec.Rewrite(r.endpoint, told, openai.Rewriter{
			Whole: func([]byte) ([]byte, int) { return nil, 0 },
			Piece: func(openai.Place, string) string { return any },
		})
		if err == nil && r.held+2*len(t.place.Key)+len(bare)+len(f.Name) <= maxTextBytes {
			t.last, t.name = bytes.ReplaceAll(bare, []byte{'\n'}, []byte{' '}), string(f.Name)
		} else {
			r.full = true
		}
	}
	r.held += t.size()
}

// text returns that of a place, or nil if there are too many.
func (r *relay) text(p openai.Place) *runningText {
	t := r.texts[string(p.Key)]
	if t == nil {
		if len(r.texts) == maxTexts || r.held+2*len(p.Key) > maxTextBytes {
			r.full = true
			return nil
		}
		if r.texts == nil {
			r.texts = map[string]*runningText{}
		}
		t = &runningText{place: p.Clone(), stream: r.masker.Stream()}
		r.texts[string(t.place.Key)] = t
		r.held += t.size()
	}
	return t
}

// all ends all texts.
func (r *relay) all(b []byte) []byte {
	return r.ended(b, func(*runningText) bool { return true })
}

// ended ends some texts, in the order of their keys.
func (r *relay) ended(b []byte, which func(t *runningText) bool) []byte {
	for _, key := range slices.Sorted(maps.Keys(r.texts)) {
		if t := r.texts[key]; which(t) {
			b = r.rest(b, t)
		}
	}
	return b
}

// rest adds what is held back of a text, which has ended.
func (r *relay) rest(b []byte, t *runningText) []byte {
	delete(r.texts, string(t.place.Key)) // what comes there afterwards is another text
	r.held -= t.size()
	held := t.stream.Held()
	r.buf = t.stream.Close(r.buf[:0])
	r.found += t.stream.Found()
	if !held {
		return b
	}
	rest := string(r.buf)
	if r.endpoint == openai.Chat {
		return openai.AppendFrame(b, "", r.codec.Continue(t.place, rest))
	}
	data, err := r.codec.Rewrite(r.endpoint, t.last, openai.Rewriter{
		Whole: r.masker.JSON,
		Piece: func(openai.Place, string) string { return rest },
	})
	if err != nil {
		return b // it was gone through once
	}
	return openai.AppendFrame(b, t.name, data)
}

// masked is how many secrets have been replaced.
func (r *relay) masked() int {
	n := r.found
	for _, t := range r.texts {
		n += t.stream.Found()
	}
	return n
}

// pass reads a stream to its end and gives every event to each. It closes the stream.
// The error is nil if the answer is complete.
func (g *Gateway) pass(s *upstream.Stream, each func(f openai.Frame, e *openai.Event, more bool)) error {
	defer s.Close()
	var lastCame, lastWent time.Time
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
		went := time.Now()
		g.stats.event.Observe(went.Sub(came).Seconds())
		if !lastCame.IsZero() {
			g.stats.gaps[0].Observe(came.Sub(lastCame).Seconds())
			g.stats.gaps[1].Observe(went.Sub(lastWent).Seconds())
		}
		lastCame, lastWent = came, went
	}
}
