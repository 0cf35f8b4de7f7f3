package bot

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/cache"
	"dyno/services/bot/middleware"
	"dyno/services/bot/openai"
	"dyno/services/bot/page"
	"dyno/services/bot/trace"
	"dyno/services/bot/upstream"
	"dyno/services/internal/serve"
)

// layers are around routes, the outermost first.
func (g *Gateway) layers() []middleware.Layer {
	list := []middleware.Layer{
		{ // Bodies are bounded before anybody reads them.
			Matches: func(method, _ string) bool { return method == http.MethodPost },
			Enter: func(w http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				r.Body = http.MaxBytesReader(w, r.Body, g.cfg.MaxBodyBytes)
				return r, middleware.Mark{}
			},
		},
		{ // What is one user's is in nobody's cache.
			Matches: func(_, path string) bool { return path == "/v1/login" || path == "/v1/usage" },
			Enter: func(w http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				w.Header().Set("Cache-Control", "no-store")
				return r, middleware.Mark{}
			},
		},
	}
	if g.tracer == nil {
		return list
	}
	return append([]middleware.Layer{{
		Enter: func(_ http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
			name := r.Pattern
			if name == "/" {
				name = "none" // what is asked for is anything: names are few
			}
			r, span := g.tracer.Begin(r, name)
			return r, middleware.Mark{Value: span}
		},
		Leave: func(_ *http.Request, m middleware.Mark, status int) {
			span, _ := m.Value.(trace.Span)
			span.Number("http.response.status_code", int64(status))
			if status >= http.StatusInternalServerError {
				span.Fail("status " + strconv.Itoa(status))
			}
			span.End()
		},
	}}, list...)
}

func (g *Gateway) routes() http.Handler {
	mux, layers := http.NewServeMux(), g.layers()
	handle := func(pattern, route string, serve func(w http.ResponseWriter, r *http.Request) *refusal) {
		measured := middleware.Layer{
			Enter: func(_ http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				return r, middleware.Mark{Time: time.Now()}
			},
			Leave: func(_ *http.Request, m middleware.Mark, status int) {
				g.stats.request(route, status, time.Since(m.Time))
			},
		}
		method, path, _ := strings.Cut(pattern, " ")
		h := g.parts.Around(append([]middleware.Layer{measured}, layers...), method, path,
			func(w http.ResponseWriter, r *http.Request) (status int) {
				defer func() {
					if p := recover(); p != nil {
						g.panicked(p, route)
						status = middleware.Panicked
					}
				}()
				var refused *refusal
				if r.ContentLength != 0 && (method == http.MethodGet || method == http.MethodDelete) {
					// Over HTTP/2, what nobody reads would keep others' bodies from coming over the connection.
					refused = refuse(http.StatusBadRequest, "", "body: %s requests have none", method)
				} else {
					refused = serve(w, r)
				}
				if refused == nil {
					return http.StatusOK
				}
				refused.answer(w, g.cfg.WriteTimeout) // also to who seems to have gone: nothing at all would be a 200
				return refused.status
			})
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if h(w, r) == middleware.Panicked {
				panic(http.ErrAbortHandler) // what was written is no answer
			}
		})
	}
	handle("POST /v1/login", "login", g.login)
	handle("GET /v1/usage", "usage", g.usage)
	handle("POST /v1/bot/chat", "bot", g.chat)
	handle("GET /v1/bot/chat/{answer}/events", "events", g.readOn)
	handle("DELETE /v1/bot/chat/{answer}", "stop", g.stopTurn)
	handle("GET /v1/models", "models", g.listModels)
	handle("GET /v1/models/{model...}", "models", g.showModel)
	handle("POST /v1/chat/completions", "chat", func(w http.ResponseWriter, r *http.Request) *refusal { return g.model(w, r, openai.Chat) })
	handle("POST /v1/responses", "responses", func(w http.ResponseWriter, r *http.Request) *refusal { return g.model(w, r, openai.Responses) })
	handle("GET /v1/bot/history", "history", g.history)
	handle("/", "none", func(_ http.ResponseWriter, r *http.Request) *refusal {
		return refuse(http.StatusNotFound, "", "nothing is served by %s %s", r.Method, r.URL.Path)
	})
	if g.cfg.Page {
		page.Chat(mux)
	}
	return mux
}

// panicked logs what a handler has panicked with.
func (g *Gateway) panicked(p any, route string) { serve.LogPanic(g.log, p, "route", route) }

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) *refusal {
	who, refused := g.identify(r)
	if refused != nil {
		return refused
	}
	list := []modelInfo{}
	for _, m := range g.pool.Models() {
		if who.key.mayUse(m) {
			list = append(list, modelInfo{m, "model", 0, "dyno"})
		}
	}
	g.writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

func (g *Gateway) showModel(w http.ResponseWriter, r *http.Request) *refusal {
	who, refused := g.identify(r)
	if refused != nil {
		return refused
	}
	name := r.PathValue("model")
	if !g.pool.Has(name) || !who.key.mayUse(name) {
		return &refusal{status: http.StatusNotFound, code: "model_not_found", param: "model", text: "model: " + strconv.Quote(name) + " is not served here, or not to this key"}
	}
	g.writeJSON(w, http.StatusOK, modelInfo{name, "model", 0, "dyno"})
	return nil
}

// model serves the endpoints of OpenAI's kind.
func (g *Gateway) model(w http.ResponseWriter, r *http.Request, e openai.Endpoint) *refusal {
	began := time.Now()
	who, refused := g.identify(r)
	if refused != nil {
		return refused
	}
	if refused := g.spent(who.key, began); refused != nil {
		return refused
	}
	text, refused := g.readBody(r, who.key)
	if refused != nil {
		return refused
	}
	defer text.free() // what is asked may refer to it
	body, masked := g.in.JSON(text.B)
	g.stats.masked("in", masked)
	q, err := g.parts.Codec.Parse(e, body)
	var fault *openai.RequestError
	if errors.As(err, &fault) {
		return &refusal{status: http.StatusBadRequest, param: fault.Field, text: fault.Error()}
	}
	j, refused := g.admit(r.Context(), who, e.String(), began)
	if refused != nil {
		return refused
	}
	defer j.leave()
	if refused := j.start(r.Context(), q); refused != nil {
		return refused
	}
	ctx := newWork(r.Context(), g.answering, g.disconnect(e), g.cfg.DrainTime)
	defer ctx.end()
	if q.Stream {
		return g.modelStream(w, ctx, j, text.free)
	}
	return g.modelWhole(w, ctx, j)
}

// answer asks for an answer that is no stream, or finds it in the cache.
func (g *Gateway) answer(ctx context.Context, j *job) (*upstream.Answer, cache.How, error) {
	if g.cache == nil || !j.request.Deterministic() {
		asked := time.Now()
		a, err := g.pool.Ask(ctx, j.request, j.who.key.tenant)
		g.stats.asked(a, asked)
		return a, cache.Made, err
	}
	sum := sha256.Sum256(j.request.Key())
	k, how, err := g.cache.Get(ctx, j.who.key.id+"\x00"+string(sum[:]), func(ctx context.Context) (*CachedAnswer, error) {
		asked := time.Now()
		a, err := g.pool.Ask(ctx, j.request, j.who.key.tenant)
		g.stats.asked(a, asked)
		return &CachedAnswer{a}, err
	})
	if err != nil {
		return nil, how, err
	}
	return k.Answer, how, nil
}

// wholeResult is what there is to account of an answer that is no stream.
func (j *job) wholeResult(a *upstream.Answer, how cache.How, err error, gone bool) result {
	if err != nil {
		r := result{outcome: outcomeOf(err, gone)}
		sent, late, completion := false, false, 0
		var e *upstream.Error
		if errors.As(err, &e) {
			r.upstream, r.attempts = e.Upstream, e.Attempts
			sent, late, completion = e.Sent, e.Late, e.Completion
		}
		// The upstream has answered, or may well have. Who waited for another's answer has asked for none.
		if (r.outcome == outcomeAborted && sent || late || completion > 0) && how == cache.Made {
			if j.request.Background { // it goes on there
				completion = max(completion, j.request.MaxCompletion())
			}
			r.usage = openai.Usage{Prompt: j.request.PromptTokens, Completion: completion, Estimated: true}
			r.price = j.g.pool.Price(j.request.Model)
		}
		return r
	}
	r := result{outcome: outcomeOK, usage: a.Usage, price: a.Price, upstream: a.Upstream, attempts: a.Attempts, cached: how != cache.Made, first: time.Since(j.began)}
	if gone {
		r.outcome = outcomeDrained
	}
	return r
}

// tellID has an answer's head say what is known before an upstream has answered.
func tellID(h http.Header, j *job) {
	h.Set("X-Dyno-Id", j.entry.ID)
	h.Set("X-Dyno-Queue-Seconds", strconv.FormatFloat(j.entry.Queue.Seconds(), 'f', 6, 64))
}

// tell has the answer's head say how it came about.
func tell(h http.Header, j *job, a *upstream.Answer, how cache.How) {
	tellID(h, j)
	h.Set("X-Dyno-Upstream", a.Upstream)
	h.Set("X-Dyno-Attempts", strconv.Itoa(a.Attempts))
	if how != cache.Made {
		h.Set("X-Dyno-Cache", [...]string{"", "joined", "hit"}[how])
	}
}

func (g *Gateway) modelWhole(w http.ResponseWriter, ctx *work, j *job) *refusal {
	asked := time.Now()
	a, how, err := g.answer(ctx, j)
	took := time.Since(asked)
	if err == nil {
		err = j.holdAnswer(a)
	}
	j.finish(j.wholeResult(a, how, err, ctx.gone()))
	if err != nil {
		return g.refusalOf(err)
	}
	body, masked := g.out.JSON(a.Body)
	g.stats.masked("out", masked)
	if masked > 0 {
		body = g.parts.Codec.WithoutLogprobs(j.request.Endpoint, body) // a secret's tokens say what it is
	}
	tell(w.Header(), j, a, how)
	writeBody(w, g.cfg.WriteTimeout, http.StatusOK, body)
	g.stats.overhead.Observe((time.Since(j.began) - took - j.entry.Queue).Seconds())
	return nil
}

// streamResult is what there is to account of a stream that has been read.
func (j *job) streamResult(a *upstream.Answer, err error, first time.Duration, gone bool) result {
	r := result{outcome: outcomeOK, usage: a.Stream.Usage(), price: a.Price, upstream: a.Upstream, attempts: a.Attempts, first: first}
	switch {
	case err == nil && gone:
		r.outcome = outcomeDrained
	case err == nil:
	case gone || errors.Is(err, errLeft) || errors.Is(err, errStopped):
		r.outcome = outcomeAborted
	default:
		r.outcome = outcomeFailed
	}
	return r
}

// disconnect is what becomes of an answer of an endpoint of OpenAI's kind whose client has gone.
func (g *Gateway) disconnect(e openai.Endpoint) Disconnect {
	if e == openai.Responses {
		return g.cfg.ResponsesDisconnect
	}
	return g.cfg.ModelDisconnect
}

// modelStream answers piece by piece. Forget frees the text of the request, which nothing refers to once
// an upstream answers.
func (g *Gateway) modelStream(w http.ResponseWriter, ctx *work, j *job, forget func()) *refusal {
	asked, out := time.Now(), newSink(w, g.cfg.WriteTimeout)
	a, err := g.pool.AskStream(ctx, j.request, j.who.key.tenant, func() { out.alive(j, ctx) })
	g.stats.asked(a, asked)
	if err != nil {
		j.finish(j.wholeResult(nil, cache.Made, err, ctx.gone()))
		refused := g.refusalOf(err)
		if !out.begun {
			return refused
		}
		failStream(out, j.request.Endpoint, refused.status, refused.fault())
		out.end()
		return nil
	}
	j.request.Forget()
	forget()
	first := time.Since(j.began)
	g.stats.streams.Add(1)
	defer g.stats.streams.Add(-1)
	out.head()
	tell(w.Header(), j, a, cache.Made)
	rel := relay{codec: g.parts.Codec, endpoint: j.request.Endpoint, usage: j.request.IncludeUsage, masker: g.out}
	err = g.pass(a.Stream, func(f openai.Frame, e *openai.Event, more bool) {
		b := g.parts.Buffers.Get(expectedEvent) // not for as long as the stream waits
		if b.B = rel.next(b.B, f, e); len(b.B) > 0 || !more {
			out.write(b.B, more)
		}
		g.parts.Buffers.Put(b)
		if rel.full || out.gone && g.disconnect(j.request.Endpoint) == Cancel {
			a.Stream.Cancel()
		}
	})
	if rel.full {
		err = errTexts
	}
	g.stats.masked("out", rel.masked())
	gone := out.gone || ctx.gone()
	j.finish(j.streamResult(a, err, first, gone))
	if err != nil && !gone {
		failStream(out, j.request.Endpoint, statusOf(err), g.faultOf(err))
	}
	out.end()
	return nil
}
