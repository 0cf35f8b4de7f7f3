package bot

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"dyno/services/bot/openai"
	"dyno/services/bot/resume"
	"dyno/services/bot/trace"
)

// lastEventID is the field by which a client says what it has (HTML standard, section
// 9.2).
const lastEventID = "Last-Event-ID"

// A teller tells the events of a turn to its client, and keeps them for one that comes
// again. Each has the ID of the answer and its number.
type teller struct {
	g    *Gateway
	out  *sink
	id   string
	n    uint64
	kept *resume.Stream // nil keeps nothing: events have no IDs then
}

// expectedEvent is what most events fit into, in bytes.
const expectedEvent = 512

// newTeller returns a teller that must be closed.
func (t *turn) newTeller(out *sink, ctx *work, j *job) *teller {
	g := t.g
	n := &teller{g: g, out: out, id: j.entry.ID}
	if g.events != nil {
		n.kept = g.events.Begin(n.id, resume.Owner{Key: t.who.key.id, User: t.q.User}, ctx)
	}
	return n
}

// close says that nothing follows.
func (t *teller) close() {
	if t.kept != nil {
		t.kept.End()
	}
}

// say tells an event. More says that another follows at once.
func (t *teller) say(name string, v any, more bool) {
	t.tell(name, more, func(b []byte) ([]byte, error) { return t.g.parts.Codec.JSON.Append(b, v) })
}

// fault tells why there is no more.
func (t *teller) fault(status int, f openai.Fault) {
	t.tell("error", false, func(b []byte) ([]byte, error) {
		return openai.AppendFault(b, status, "", f), nil
	})
}

// tell makes an event with the data that add adds, and sends it. It is kept first: who comes again has it
// even if this client takes none. Its memory is not held while the stream waits.
func (t *teller) tell(name string, more bool, add func(b []byte) ([]byte, error)) {
	buf := t.g.parts.Buffers.Get(expectedEvent)
	defer t.g.parts.Buffers.Put(buf)
	b, err := add(t.head(buf.B, name))
	if err != nil {
		return // what is said here is JSON
	}
	buf.B = append(b, "\n\n"...)
	if t.kept != nil {
		t.kept.Add(buf.B)
	}
	t.out.write(buf.B, more)
}

// head begins an event.
func (t *teller) head(b []byte, name string) []byte {
	if t.kept != nil {
		t.n++
		b = append(append(append(b, "id: "...), t.id...), '-')
		b = append(strconv.AppendUint(b, t.n, 10), '\n')
	}
	return append(append(append(b, "event: "...), name...), "\ndata: "...)
}

// position reads what a client says that it has of an answer: "ID-number".
func position(text string) (id string, after uint64, ok bool) {
	id, number, found := strings.Cut(text, "-")
	after, err := strconv.ParseUint(number, 10, 63)
	return id, after, found && err == nil && validName(id)
}

// readOn serves GET /v1/bot/chat/{answer}/events: the events of an answer behind
// Last-Event-ID, or all of them, and then those that come.
func (g *Gateway) readOn(w http.ResponseWriter, r *http.Request) *refusal {
	who, refused := g.identify(r)
	if refused != nil {
		return refused
	}
	id, after := r.PathValue("answer"), uint64(0)
	if text := r.Header.Get(lastEventID); text != "" {
		named, n, ok := position(text)
		if !ok || named != id {
			return refuse(http.StatusBadRequest, "bad_event_id", "%s: %q: must be of an event of this answer", lastEventID, text)
		}
		after = n
	}
	return g.follow(w, r, who, id, after)
}

// again serves a POST /v1/bot/chat that has Last-Event-ID: a client that repeats its
// request to read on. The turn is not repeated.
func (g *Gateway) again(w http.ResponseWriter, r *http.Request, who identity, text string) *refusal {
	id, after, ok := position(text)
	if !ok {
		return refuse(http.StatusBadRequest, "bad_event_id", "%s: %q: must be of an event of this gateway", lastEventID, text)
	}
	return g.follow(w, r, who, id, after)
}

// follow passes on what there is of an answer, and what comes.
func (g *Gateway) follow(w http.ResponseWriter, r *http.Request, who identity, id string, after uint64) *refusal {
	_, span := trace.Start(r.Context(), "resume")
	defer span.End()
	gone := func() *refusal {
		g.stats.resumed.WithLabelValues("gone").Inc()
		return refuse(http.StatusGone, "events_gone", "these events are not kept here, or not any more: go on with the next turn of the conversation")
	}
	if g.events == nil {
		return gone()
	}
	s := g.events.Find(id)
	// Another's is as one that is not there: nobody learns of it by guessing.
	if s == nil || s.Owner().Key != who.key.id || who.user != "" && who.user != s.Owner().User {
		return gone()
	}
	in, err := s.Read(after)
	switch {
	case errors.Is(err, resume.ErrGone):
		return gone()
	case errors.Is(err, resume.ErrAhead):
		g.stats.resumed.WithLabelValues("refused").Inc()
		return refuse(http.StatusBadRequest, "bad_event_id", "%s: the answer has not come so far", lastEventID)
	case err != nil:
		g.stats.resumed.WithLabelValues("refused").Inc()
		return refuse(http.StatusTooManyRequests, "too_many_readers", "%v", err)
	}
	defer in.Close()
	g.stats.resumed.WithLabelValues("ok").Inc()
	w.Header().Set("X-Dyno-Id", id)
	if in.Finished() { // an EventSource does not come again then
		return noContent
	}
	out := newSink(w, g.cfg.WriteTimeout)
	out.head()
	defer out.end()
	out.write(nil, false) // the next event may be long in coming
	buf := g.parts.Buffers.Get(expectedEvent)
	defer g.parts.Buffers.Put(buf)
	for more := true; more && !out.gone; {
		if buf.B, more, err = in.Next(r.Context(), buf.B[:0]); err != nil {
			if errors.Is(err, resume.ErrGone) {
				buf.B = openai.AppendError(append(buf.B[:0], "event: error\ndata: "...), http.StatusGone, "", "events_gone", err.Error())
				out.write(append(buf.B, "\n\n"...), false)
			}
			return nil
		}
		out.write(buf.B, false)
	}
	return nil
}
