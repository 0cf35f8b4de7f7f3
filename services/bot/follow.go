package bot

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"dyno/services/bot/answer"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/resume"
	"dyno/services/internal/trace"
)

// lastEventID is the header field with which a client names its last event (HTML standard, section 9.2).
const lastEventID = "Last-Event-ID"

// position parses the ID of an event: that of the answer, a hyphen and a number.
func position(text string) (id string, after uint64, ok bool) {
	id, number, found := strings.Cut(text, "-")
	after, err := strconv.ParseUint(number, 10, 63)
	return id, after, found && err == nil && validName(id)
}

// readOn serves GET /v1/bot/chat/{answer}/events: an answer's events after Last-Event-ID, or all of them, and then
// new ones.
func (g *Gateway) readOn(w http.ResponseWriter, r *http.Request, who identity) *reply.Refusal {
	id, after := r.PathValue("answer"), uint64(0)
	if text := r.Header.Get(lastEventID); text != "" {
		named, n, ok := position(text)
		if !ok || named != id {
			return reply.Refuse(http.StatusBadRequest, "bad_event_id", "%s: %q: must be of an event of this answer", lastEventID, text)
		}
		after = n
	}
	return g.follow(w, r, who, id, after)
}

// again serves a POST /v1/bot/chat with Last-Event-ID: the client repeats its request in order to resume. The turn is
// not repeated.
func (g *Gateway) again(w http.ResponseWriter, r *http.Request) *reply.Refusal {
	who, refused := g.identify(r)
	if refused != nil {
		return refused
	}
	body, refused := g.readBody(r, who.key)
	if refused != nil {
		return refused
	}
	body.free()
	text := r.Header.Get(lastEventID)
	id, after, ok := position(text)
	if !ok {
		return reply.Refuse(http.StatusBadRequest, "bad_event_id", "%s: %q: must be of an event of this gateway", lastEventID, text)
	}
	return g.follow(w, r, who, id, after)
}

// follow sends the kept events of an answer, and then new ones.
func (g *Gateway) follow(w http.ResponseWriter, r *http.Request, who identity, id string, after uint64) *reply.Refusal {
	_, span := trace.Start(r.Context(), "resume")
	defer span.End()
	gone := func() *reply.Refusal {
		g.stats.Resumed.WithLabelValues("gone").Inc()
		return reply.Refuse(http.StatusGone, "events_gone", "these events are not kept here, or not any more: go on with the next turn of the conversation")
	}
	if g.events == nil {
		return gone()
	}
	s := g.events.Find(id)
	// An answer of another user is not found either: guessing reveals nothing.
	if s == nil || s.Owner().Key != who.key.id || who.user != "" && who.user != s.Owner().User {
		return gone()
	}
	in, err := s.Read(after)
	switch {
	case errors.Is(err, resume.ErrGone):
		return gone()
	case errors.Is(err, resume.ErrAhead):
		g.stats.Resumed.WithLabelValues("refused").Inc()
		return reply.Refuse(http.StatusBadRequest, "bad_event_id", "%s: the answer has not come so far", lastEventID)
	case err != nil:
		g.stats.Resumed.WithLabelValues("refused").Inc()
		return reply.Refuse(http.StatusTooManyRequests, "too_many_readers", "%v", err)
	}
	defer in.Close()
	g.stats.Resumed.WithLabelValues("ok").Inc()
	w.Header().Set(reply.ID, id)
	if in.Finished() { // an EventSource does not reconnect then
		return reply.NoContent
	}
	out := reply.New(w, g.cfg.WriteTimeout)
	out.Head()
	defer out.End()
	out.Write(nil, false) // the next event may take long
	buf := g.parts.Buffers.Get(reply.ExpectedEvent)
	defer g.parts.Buffers.Put(buf)
	for more := true; more && !out.Gone; {
		if buf.B, more, err = in.Next(r.Context(), buf.B[:0]); err != nil {
			if errors.Is(err, resume.ErrGone) {
				buf.B = openai.AppendFault(append(buf.B[:0], "event: error\ndata: "...), openai.Chat, http.StatusGone, "", openai.Fault{Message: err.Error(), Code: "events_gone", ID: id})
				out.Write(append(buf.B, "\n\n"...), false)
			}
			return nil
		}
		out.Write(buf.B, false)
	}
	return nil
}

// stopTurn serves DELETE /v1/bot/chat/{answer}: it stops an answer that runs here. Readers of its stream get "done",
// and the text so far is kept.
func (g *Gateway) stopTurn(_ http.ResponseWriter, r *http.Request, who identity) *reply.Refusal {
	q, refused := queryNames(r, "user_id")
	if refused != nil {
		return refused
	}
	user, refused := who.asUser(q.Get("user_id"))
	if refused != nil {
		return refused
	}
	// An answer of another user is not found either: guessing reveals nothing.
	if !g.running.Stop(answer.Name{Key: who.key.id, User: user, ID: r.PathValue("answer")}) {
		return reply.Refuse(http.StatusNotFound, "not_under_way", "no turn of this name is under way here")
	}
	return reply.NoContent
}
