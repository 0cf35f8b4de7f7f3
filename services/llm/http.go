package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// writeTimeout bounds the write of one piece of a stream: then the client is disconnected.
const writeTimeout = 30 * time.Second

// flushBytes is how much of a stream without delays is written at once.
const flushBytes = 16 << 10

// buffers are those of answers.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooled bounds the buffers that are kept.
const maxPooled = 64 << 10

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.listModels)
	mux.HandleFunc("GET /v1/models/{model...}", s.showModel)
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, chat) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, completions) })
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, responses) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "", "path", "nothing is served at "+r.URL.Path)
	})
	return mux
}

// model is one of /v1/models.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func describe(name string) model { return model{name, "model", 0, "dyno"} }

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{}}
	for _, m := range s.cfg.Models {
		list.Data = append(list.Data, describe(m))
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	if !s.models[name] {
		refuse(w, http.StatusNotFound, "model_not_found", "model", fmt.Sprintf("%q is not served here", name))
		return
	}
	writeJSON(w, http.StatusOK, describe(name))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone needs no answer
}

// refuse answers with an error in OpenAI's form.
func refuse(w http.ResponseWriter, status int, code, param, text string) {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	writeJSON(w, status, struct {
		Error fault `json:"error"`
	}{fault{text, kind, optional(param), optional(code)}})
}

// answer serves an HTTP request for an answer, from the first byte to the last.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, e endpoint) {
	number := s.asked.Add(1)
	status := 0
	defer func() { s.stats.requests.WithLabelValues(e.String(), strconv.Itoa(status)).Inc() }()
	defer s.active.Add(-1)
	if n := s.active.Add(1); n > int64(s.cfg.MaxConcurrent) {
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
		refuse(w, status, "rate_limit_exceeded", "", "as many answers are under way as there may be")
		return
	}
	buffer := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buffer)
	q, refused := s.read(w, r, e, buffer)
	if refused != nil {
		status = refused.status
		refuse(w, status, refused.code, refused.param, refused.text)
		return
	}
	random := rand.New(rand.NewPCG(s.cfg.Seed, number)) //nolint:gosec // to be repeated, not to be secret
	f, err := s.fault(r, random)
	if err != nil {
		status = http.StatusBadRequest
		refuse(w, status, "", FaultField, err.Error())
		return
	}
	if f.Kind != FaultNone {
		s.stats.faults.Add(1)
	}
	if status = f.status(); status != 0 {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(int64(f.RetryAfter/time.Second), 10))
		}
		refuse(w, status, "fault", "", "a fault that was asked for")
		return
	}
	ctx := r.Context()
	a := newAnswer(q, s.cfg.Tokens, time.Now().Unix(), f.Kind != FaultNoUsage)
	t := &responder{server: s, w: w, answer: a, fault: f, random: random, buffer: buffer}
	switch {
	case f.Kind == FaultHang:
		<-ctx.Done()
		err = ctx.Err()
	case q.stream:
		status, err = http.StatusOK, t.stream(ctx)
	default:
		status, err = http.StatusOK, t.whole(ctx)
	}
	switch {
	case err == nil:
		s.stats.answered.Add(1)
	case errors.Is(err, errCut):
		status = 0
		panic(http.ErrAbortHandler) // ends the connection: net/http expects this panic
	default:
		status = 0
		s.stats.aborted.Add(1)
	}
}

// A refusal is a request's that is not answered.
type refusal struct {
	status            int
	code, param, text string
}

// read reads a request into buffer, and leaves that empty.
func (s *Server) read(w http.ResponseWriter, r *http.Request, e endpoint, buffer *bytes.Buffer) (request, *refusal) {
	defer buffer.Reset()
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, s.cfg.MaxBodyBytes)); err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return request{}, &refusal{http.StatusRequestEntityTooLarge, "", "body", fmt.Sprintf("has %d bytes at most", long.Limit)}
		}
		return request{}, &refusal{http.StatusBadRequest, "", "body", err.Error()}
	}
	q, err := e.parse(buffer.Bytes())
	if err == nil {
		err = s.bound(q)
	}
	var b *badRequest
	if errors.As(err, &b) {
		return request{}, &refusal{http.StatusBadRequest, "", b.param, b.Error()}
	}
	if !s.models[q.model] {
		return request{}, &refusal{http.StatusNotFound, "model_not_found", "model", fmt.Sprintf("%q is not served here", q.model)}
	}
	return q, nil
}

// bound refuses a request for too many tokens, counted over all choices.
func (s *Server) bound(q request) error {
	if q.limit > s.cfg.MaxTokens {
		return bad("max_tokens", "%d: must be %d at most", q.limit, s.cfg.MaxTokens)
	}
	if each := cmp.Or(q.limit, s.cfg.Tokens); q.choices()*each > s.cfg.MaxTokens {
		return bad("prompt", "%d of %d tokens each: must be %d together at most", q.choices(), each, s.cfg.MaxTokens)
	}
	return nil
}

// fault returns the fault to inject into a request.
func (s *Server) fault(r *http.Request, random *rand.Rand) (Fault, error) {
	if text := r.Header.Get(FaultField); text != "" && s.cfg.FaultHeader {
		return ParseFault(text)
	}
	if len(s.cfg.Faults) == 0 {
		return Fault{}, nil
	}
	return draw(s.cfg.Faults, random.Float64()), nil
}

// errCut says that the connection is to end here.
var errCut = errors.New("cut")

// A responder sends one answer.
type responder struct {
	server *Server
	w      http.ResponseWriter
	answer *answer
	fault  Fault
	random *rand.Rand
	buffer *bytes.Buffer // bytes not written yet
	timer  *time.Timer
}

// wait returns after d, or when ctx ends.
func (t *responder) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if t.timer == nil {
		t.timer = time.NewTimer(d)
	} else {
		t.timer.Reset(d)
	}
	select {
	case <-t.timer.C:
		return nil
	case <-ctx.Done():
		t.timer.Stop()
		return ctx.Err()
	}
}

// first returns when the first token is due.
func (t *responder) first(ctx context.Context) error {
	return t.wait(ctx, t.fault.Delay+t.server.cfg.FirstToken.Draw(t.random))
}

// whole sends the whole answer, after the time that a stream would have taken.
func (t *responder) whole(ctx context.Context) error {
	if err := t.first(ctx); err != nil {
		return err
	}
	rest := time.Duration(0)
	for range t.answer.tokens - 1 {
		rest += t.server.cfg.InterToken.Draw(t.random)
	}
	if err := t.wait(ctx, rest); err != nil {
		return err
	}
	text := t.answer.whole(t.buffer.AvailableBuffer())
	t.w.Header().Set("Content-Type", "application/json")
	t.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if t.fault.Kind == FaultCut || t.fault.Kind == FaultMalformed {
		if t.fault.Kind == FaultMalformed {
			t.w.Header().Del("Content-Length")
		}
		text = text[:len(text)/2]
	}
	if _, err := t.w.Write(text); err != nil {
		return err
	}
	if t.fault.Kind == FaultCut {
		_ = http.NewResponseController(t.w).Flush() // the connection ends either way
		return errCut
	}
	t.server.stats.tokens.Add(uint64(t.answer.allTokens()))
	return nil
}

// stream answers token by token.
func (t *responder) stream(ctx context.Context) error {
	control := http.NewResponseController(t.w)
	// say writes the pieces so far, and the head also if there are none: a stream may be cut before its first piece.
	say := func() error {
		// Absolute: it is set again for each piece. Writers without deadlines, as tests
		// have them, go without.
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		// Until the next piece there is none: over HTTP/2 a deadline ends the stream, whether something is being written
		// or not.
		defer control.SetWriteDeadline(time.Time{}) //nolint:errcheck // writers without deadlines go without
		if _, err := t.buffer.WriteTo(t.w); err != nil {
			return err
		}
		return control.Flush()
	}
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) }() // of the end, which net/http writes
	if err := t.first(ctx); err != nil {
		return err
	}
	t.w.Header().Set("Content-Type", "text/event-stream")
	t.w.Header().Set("Cache-Control", "no-cache")
	t.add(t.answer.begin)
	for i := range t.answer.tokens {
		if i > 0 {
			if d := t.server.cfg.InterToken.Draw(t.random); d > 0 || t.buffer.Len() >= flushBytes {
				if err := say(); err != nil {
					return err
				}
				if err := t.wait(ctx, d); err != nil {
					return err
				}
			}
		}
		if i == t.fault.After {
			switch t.fault.Kind {
			case FaultCut:
				_ = say() // the connection ends either way
				return errCut
			case FaultMalformed:
				t.add(t.answer.malformed)
			}
		}
		t.add(func(b []byte) []byte { return t.answer.token(b, i) })
		t.server.stats.tokens.Add(uint64(t.answer.choices()))
	}
	if t.fault.Kind == FaultCut { // later than the last token
		_ = say()
		return errCut
	}
	if t.fault.Kind == FaultMalformed && t.fault.After >= t.answer.tokens {
		t.add(t.answer.malformed)
	}
	t.add(t.answer.end)
	return say()
}

// add has something written to the buffer.
func (t *responder) add(piece func([]byte) []byte) {
	_, _ = t.buffer.Write(piece(t.buffer.AvailableBuffer())) // memory
}
