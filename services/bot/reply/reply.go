// Package reply writes answers to clients: refusals, whole bodies, streams and their events, each within a timeout.
package reply

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/openai"
)

// A Refusal is an answer that says why a request was not served.
type Refusal struct {
	Status            int
	Code, Param, Text string
	Kind              string        // the error's type; "" takes that of the status
	After             time.Duration // Retry-After; 0 leaves it out
	Body              []byte        // passed on unchanged; nil makes one from the text
	Header            http.Header   // more fields; nil is none
}

// NoContent is the answer 204, which has no body.
var NoContent = &Refusal{Status: http.StatusNoContent}

func (r *Refusal) Error() string { return r.Text }

// Refuse returns a Refusal with a text.
func Refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Text: fmt.Sprintf(format, args...)}
}

// FormOf returns an endpoint with the form in which errors at a path are written. Google's calls, also those that are not
// served, end like :generateContent.
func FormOf(path string) openai.Endpoint {
	call := path[strings.LastIndexByte(path, ':')+1:]
	switch {
	case strings.HasPrefix(path, "/v1"+openai.Messages.Path()):
		return openai.Messages
	case strings.HasPrefix(path, "/v1"+openai.Contents.Path()) && (call == "countTokens" || strings.HasSuffix(strings.TrimSuffix(call, "s"), "Content")):
		return openai.Contents
	}
	return openai.Chat
}

// ID is the header field of a request's ID.
const ID = "X-Dyno-Id"

// Answer writes a refusal in the form of an endpoint. As in Body, timeout bounds each piece.
func (r *Refusal) Answer(w http.ResponseWriter, form openai.Endpoint, timeout time.Duration) {
	h := w.Header()
	maps.Copy(h, r.Header)
	if r.Status == http.StatusNoContent {
		w.WriteHeader(r.Status)
		return
	}
	if r.After > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((r.After+time.Second-1)/time.Second), 10))
	}
	if r.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := r.Body
	if body == nil {
		f := r.Fault()
		if f.ID = h.Get(ID); f.ID != "" {
			h.Set("X-Request-Id", f.ID)
			h.Set("Request-Id", f.ID) // of Anthropic's API
		}
		body = openai.AppendFault(nil, form, r.Status, r.Param, f)
	}
	Body(w, timeout, r.Status, body)
}

// WritePiece is how many bytes of an answer are written at once. A slow client has a timeout for each piece.
const WritePiece = 64 << 10

// Body writes a whole answer, each piece within timeout. Otherwise a client that stops reading would block its
// handler until the process ends.
func Body(w http.ResponseWriter, timeout time.Duration, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	out := Writer{w: w, control: http.NewResponseController(w), timeout: timeout, Started: true, flushed: true}
	for more := true; more; {
		piece := body[:min(len(body), WritePiece)]
		body = body[len(piece):]
		more = len(body) > 0
		out.Write(piece, more)
	}
	out.End()
}

// Fault returns the refusal as an error for a stream that has started.
func (r *Refusal) Fault() openai.Fault {
	return openai.Fault{Message: r.Text, Type: r.Kind, Code: r.Code}
}
