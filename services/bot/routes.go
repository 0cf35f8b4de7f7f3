package bot

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/middleware"
	"dyno/services/bot/openai"
	"dyno/services/bot/page"
	"dyno/services/bot/reply"
	"dyno/services/bot/requestlog"
	"dyno/services/bot/store"
	"dyno/services/internal/serve"
	"dyno/services/internal/trace"
)

// layers returns the layers around routes, the outermost first.
func (g *Gateway) layers() []middleware.Layer {
	list := []middleware.Layer{
		{ // Bodies are bounded before they are read.
			Matches: func(method, path string) bool { return method == http.MethodPost && !isUpload(path) },
			Enter: func(w http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				r.Body = http.MaxBytesReader(w, r.Body, g.cfg.MaxBodyBytes)
				return r, middleware.Mark{}
			},
		},
		{ // Caches must not keep answers for one user.
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
				name = "none" // paths are arbitrary: labels must be few
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

// isUpload reports whether the body of a path is bounded by what reads it.
func isUpload(path string) bool {
	return slices.ContainsFunc(slices.Concat(openai.Operations, openai.Kept), func(o *openai.Operation) bool { return o.Upload && path == "/v1"+o.Path })
}

// withIdentity returns a handler of authenticated requests.
func (g *Gateway) withIdentity(serve func(w http.ResponseWriter, r *http.Request, who identity) *reply.Refusal) func(w http.ResponseWriter, r *http.Request) *reply.Refusal {
	return func(w http.ResponseWriter, r *http.Request) *reply.Refusal {
		who, refused := g.identify(r)
		if refused != nil {
			return refused
		}
		return serve(w, r, who)
	}
}

func (g *Gateway) routes() http.Handler {
	mux, layers := http.NewServeMux(), g.layers()
	handle := func(pattern, route string, serve func(w http.ResponseWriter, r *http.Request) *reply.Refusal) {
		measured := middleware.Layer{
			Enter: func(_ http.ResponseWriter, r *http.Request) (*http.Request, middleware.Mark) {
				return r, middleware.Mark{Time: time.Now()}
			},
			Leave: func(_ *http.Request, m middleware.Mark, status int) {
				g.stats.Request(route, status, time.Since(m.Time))
			},
		}
		method, path, _ := strings.Cut(pattern, " ")
		h := g.parts.Around(append([]middleware.Layer{measured}, layers...), method, path,
			func(w http.ResponseWriter, r *http.Request) (status int) {
				defer func() {
					if p := recover(); p != nil {
						if p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
							g.panicked(p, route)
						}
						status = middleware.Panicked
					}
				}()
				refused := needless(method, r)
				if refused == nil {
					refused = serve(w, r)
				}
				if refused == nil {
					return http.StatusOK
				}
				if line := requestlog.Of(w); line != nil {
					line.ID, line.Cause = w.Header().Get(reply.ID), cmp.Or(refused.Code, strconv.Itoa(refused.Status))
				}
				refused.Answer(w, reply.FormOf(r.URL.Path), g.cfg.WriteTimeout) // even to a client that seems gone: without it the status would be 200
				return refused.Status
			})
		if g.requests != nil {
			h = g.requests.Around(h)
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if h(w, r) == middleware.Panicked {
				panic(http.ErrAbortHandler) // the written part is not a valid answer
			}
		})
	}
	handle("POST /v1/login", "login", g.login)
	handle("GET /v1/usage", "usage", g.withIdentity(g.usage))
	handle("POST /v1/bot/chat", "bot", g.chat)
	handle("GET /v1/bot/chat/{answer}/events", "events", g.withIdentity(g.readOn))
	handle("DELETE /v1/bot/chat/{answer}", "stop", g.withIdentity(g.stopTurn))
	handle("GET /v1/models", "models", g.withIdentity(g.listModels))
	handle("GET /v1/models/{model...}", "models", g.withIdentity(g.showModel))
	handle("POST /v1/chat/completions", "chat", func(w http.ResponseWriter, r *http.Request) *reply.Refusal { return g.model(w, r, openai.Chat) })
	handle("POST /v1/responses", "responses", func(w http.ResponseWriter, r *http.Request) *reply.Refusal { return g.model(w, r, openai.Responses) })
	handle("POST /v1/messages", "messages", func(w http.ResponseWriter, r *http.Request) *reply.Refusal { return g.model(w, r, openai.Messages) })
	handle("POST /v1/messages/count_tokens", "count_tokens", func(w http.ResponseWriter, r *http.Request) *reply.Refusal { return g.model(w, r, openai.Tokens) })
	handle("POST /v1/models/{call...}", "contents", g.contents)
	for _, o := range openai.Operations {
		if !o.HasModel() { // contents serves others
			handle("POST /v1"+o.Path, o.Name, func(w http.ResponseWriter, r *http.Request) *reply.Refusal { return g.operate(w, r, o, "") })
		}
	}
	for _, o := range openai.Kept {
		handle(o.Method+" /v1"+o.Path, o.Name, func(w http.ResponseWriter, r *http.Request) *reply.Refusal { return g.about(w, r, o) })
	}
	handle("GET /v1/bot/history", "history", g.withIdentity(g.history))
	handle("/", "none", func(_ http.ResponseWriter, r *http.Request) *reply.Refusal { return nothingServed(r) })
	if g.cfg.Page {
		page.Chat(mux)
	}
	return mux
}

func nothingServed(r *http.Request) *reply.Refusal {
	return reply.Refuse(http.StatusNotFound, "", "nothing is served by %s %s", r.Method, r.URL.Path)
}

// needless refuses a body that its method does not have. Over HTTP/2, an unread one would block others on the connection.
func needless(method string, r *http.Request) *reply.Refusal {
	if r.ContentLength != 0 && (method == http.MethodGet || method == http.MethodDelete) {
		return reply.Refuse(http.StatusBadRequest, "", "body: %s requests have none", method)
	}
	return nil
}

// setID gives each request an ID, in the header of its response. An answer of an upstream may have another X-Request-Id.
func setID(h http.Header) {
	id := store.NewID()
	h.Set(reply.ID, id)
	h.Set("X-Request-Id", id)
}

// atVersion sets IDs, and serves the paths of clients' libraries without /v1, and with /v1beta of Google's, as those with
// /v1: some libraries expect it in their base URL, and others do not.
func atVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setID(w.Header())
		next.ServeHTTP(w, versioned(r))
	})
}

// versioned returns a request with the version in its path.
func versioned(r *http.Request) *http.Request {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	others := []string{"chat", "messages", "models", "completions", "embeddings", "moderations", "rerank", "images", "audio", "v1beta"}
	if !slices.Contains(others, first) && !slices.ContainsFunc(openai.Kinds, func(k *openai.Kind) bool { return k.Path == "/"+first }) {
		return r
	}
	u, with := *r.URL, *r
	u.Path, u.RawPath = "/v1"+strings.TrimPrefix(u.Path, "/v1beta"), ""
	with.URL = &u
	return &with
}

// panicked logs a handler's panic.
func (g *Gateway) panicked(p any, route string) { serve.LogPanic(g.log, p, "route", route) }
