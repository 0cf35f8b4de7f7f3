package bot

import (
	"context"
	"errors"
	"net/http"

	"dyno/services/bot/budget"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/upstream"
)

// faultOf returns the client's error for a failed answer. It masks secrets in the upstream's text.
func (g *Gateway) faultOf(err error) openai.Fault {
	text, masked := g.out.Text(err.Error())
	g.stats.Masked("out", masked)
	f := openai.Fault{Message: openai.Brief(text), Code: "upstream_error"}
	if errors.Is(err, budget.ErrFull) {
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

// statusOf returns the status of a failure. A stream that has started cannot send one.
func statusOf(err error) int {
	var e *upstream.Error
	if errors.As(err, &e) && e.Status != 0 {
		return e.Status
	}
	return http.StatusBadGateway
}

// refusalOf returns the refusal of a request that no upstream has answered.
func (g *Gateway) refusalOf(err error) *reply.Refusal {
	var e *upstream.Error
	switch {
	case errors.As(err, &e) && e.Status != 0:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refusedGone()
	default: // the request that made a shared answer has panicked
		return reply.Refuse(http.StatusInternalServerError, "", "the answer could not be made")
	}
	f := g.faultOf(e)
	r := &reply.Refusal{Status: e.Status, Code: f.Code, Kind: f.Type, Param: e.Param, Text: f.Message, After: e.RetryAfter, Header: e.Header}
	if len(e.Body) > 0 && e.Body[0] == '{' {
		var masked int
		r.Body, masked = g.out.JSON(e.Body)
		g.stats.Masked("out", masked)
	}
	return r
}

// outcomeOf returns the outcome of a missing answer.
func outcomeOf(err error, gone bool) string {
	var e *upstream.Error
	switch {
	case errors.As(err, &e) && (e.Body != nil || e.Status == http.StatusBadRequest):
		return outcomeRefused
	case gone:
		return outcomeAborted
	}
	return outcomeFailed
}
