package bot

import (
	"errors"
	"net/http"

	"dyno/services/bot/openai"
	"dyno/services/bot/ration"
	"dyno/services/bot/upstream"
)

// faultOf is what a client is told of an answer that failed. It may have an upstream's own words, and these a secret.
func (g *Gateway) faultOf(err error) openai.Fault {
	text, masked := g.out.Text(err.Error())
	g.stats.masked("out", masked)
	f := openai.Fault{Message: openai.Brief(text), Code: "upstream_error"}
	if errors.Is(err, ration.ErrFull) {
		f.Code = "overloaded"
	}
	var e *upstream.Error
	if errors.As(err, &e) {
		f.Type = e.Type
		if e.Code != "" {
			f.Code = e.Code
		}
	}
	return f
}

// alive is what a client is sent while an upstream is at work and has said nothing yet: a comment, which readers of events leave
// out. It keeps connections from being cut that carry nothing.
var alive = []byte(": the upstream is at work\n\n")

// alive tells the client that an upstream is at work on its answer. It begins the stream, unless that has been done.
func (s *sink) alive(j *job, ctx *work) {
	if !s.begun {
		s.head()
		tellID(s.w.Header(), j)
	}
	s.write(alive, false)
	if s.gone {
		ctx.leave()
	}
}

// failStream says in a stream that has begun why there is no answer, or no more of it.
func failStream(out *sink, e openai.Endpoint, status int, f openai.Fault) {
	name := ""
	if e == openai.Responses {
		name = "error"
	}
	// No [DONE], and no response.completed: the client sees that it is not complete.
	out.write(openai.AppendFrame(nil, name, openai.AppendFault(nil, status, "", f)), false)
}

// fault is what r says in a stream that has begun.
func (r *refusal) fault() openai.Fault {
	return openai.Fault{Message: r.text, Type: r.kind, Code: r.code}
}

// statusOf is the status of a failure, which a stream that has begun does not have.
func statusOf(err error) int {
	var e *upstream.Error
	if errors.As(err, &e) && e.Status != 0 {
		return e.Status
	}
	return http.StatusBadGateway
}
