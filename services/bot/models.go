package bot

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"dyno/services/bot/answer"
	"dyno/services/bot/openai"
	"dyno/services/bot/relay"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (g *Gateway) listModels(w http.ResponseWriter, _ *http.Request, who identity) *reply.Refusal {
	list := []modelInfo{}
	for _, m := range who.key.pool.Models() {
		if who.key.mayUse(m) {
			list = append(list, modelInfo{m, "model", 0, "dyno"})
		}
	}
	g.writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

func (g *Gateway) showModel(w http.ResponseWriter, r *http.Request, who identity) *reply.Refusal {
	name := r.PathValue("model")
	if !who.key.pool.Has(name) || !who.key.mayUse(name) {
		return refusedModel(name)
	}
	g.writeJSON(w, http.StatusOK, modelInfo{name, "model", 0, "dyno"})
	return nil
}

// A modelCall is an exchange of an endpoint for models.
type modelCall struct {
	exchange
	endpoint openai.Endpoint
	parse    func(body []byte) (*openai.Request, error)
	whole    []byte // the answer, if it is not a stream
	relay    relay.Relay
	// For a stream of /v1/responses: its first event, the number of the next one, and whether the upstream's last
	// event was passed on.
	start  *openai.Start
	next   int
	closed bool
	kept   bool // the upstream keeps the answer
}

// model serves the endpoints for models.
func (g *Gateway) model(w http.ResponseWriter, r *http.Request, e openai.Endpoint) *reply.Refusal {
	return g.serve(w, r, e, func(body []byte) (*openai.Request, error) { return g.parts.Codec.Parse(e, body) })
}

// contents serves the Gemini API. Its paths end with the model's name and a method.
func (g *Gateway) contents(w http.ResponseWriter, r *http.Request) *reply.Refusal {
	call := r.PathValue("call")
	at := max(0, strings.LastIndexByte(call, ':'))
	model, method, e := call[:at], call[at:], openai.Contents
	switch method {
	case ":generateContent":
	case ":streamGenerateContent":
		if r.URL.Query().Get("alt") != "sse" {
			return &reply.Refusal{Status: http.StatusBadRequest, Param: "alt", Text: "alt: want sse: streams are server-sent events here"}
		}
	case ":countTokens":
		e = openai.ContentTokens
	default:
		if i := slices.IndexFunc(openai.Operations, func(o *openai.Operation) bool { return o.HasModel() && o.Path == method }); i >= 0 {
			return g.operate(w, r, openai.Operations[i], model)
		}
		return nothingServed(r)
	}
	return g.serve(w, r, e, func(body []byte) (*openai.Request, error) {
		return g.parts.Codec.ParseContents(e, model, method == ":streamGenerateContent", body)
	})
}

// serve serves a request to a model.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, e openai.Endpoint, parse func(body []byte) (*openai.Request, error)) *reply.Refusal {
	m := &modelCall{endpoint: e, parse: parse}
	m.begin(g, w, r, e.String())
	defer m.close()
	return m.stages(m.authenticate, m.limit, m.admit, m.gather, m.upstream, m.deliver, m.record)
}

// admit reads the request, and waits for a place.
func (m *modelCall) admit() *reply.Refusal {
	body, masked := m.g.in.JSON(m.body.B)
	m.g.stats.Masked("in", masked)
	var fault *openai.RequestError
	var err error
	if m.request, err = m.parse(body); errors.As(err, &fault) {
		return &reply.Refusal{Status: http.StatusBadRequest, Param: fault.Field, Text: fault.Error()}
	}
	var refused *reply.Refusal
	if m.request.Maker, refused = m.g.refer(m.r.Context(), m.who, m.request.References); refused != nil {
		return refused
	}
	if refused := m.passHeader(); refused != nil {
		return refused
	}
	return m.exchange.admit(m.r.Context())
}

// versions are the header fields of clients of /v1/messages that its servers get. Others could be secrets.
var versions = []string{"Anthropic-Version", "Anthropic-Beta"}

// maxVersions bounds the bytes of such a field.
const maxVersions = 2 << 10

// passHeader takes these fields.
func (m *modelCall) passHeader() *reply.Refusal {
	if m.endpoint != openai.Messages && m.endpoint != openai.Tokens {
		return nil
	}
	for _, name := range versions {
		value := strings.Join(m.r.Header.Values(name), ",")
		switch {
		case value == "":
			continue
		case len(value) > maxVersions:
			name = strings.ToLower(name)
			return &reply.Refusal{Status: http.StatusBadRequest, Param: name, Text: fmt.Sprintf("%s: must have at most %d bytes", name, maxVersions)}
		case m.request.Header == nil:
			m.request.Header = map[string]string{}
		}
		m.request.Header[name] = value
	}
	return nil
}

// gather reserves what the answer may use. The request has its whole context, and no session.
func (m *modelCall) gather() *reply.Refusal {
	m.claim, m.kept = m.g.claims.New(), m.request.IsKept()
	if refused := m.reserve(m.r.Context(), m.request); refused != nil {
		return refused
	}
	c := &m.g.cfg
	disconnect := [openai.Endpoints]Disconnect{c.ModelDisconnect, c.ResponsesDisconnect, c.MessagesDisconnect, Cancel, c.ModelDisconnect, Cancel}[m.endpoint]
	m.ctx = answer.New(m.r.Context(), m.g.answering, m.g.drainTime(disconnect))
	return nil
}

// upstream asks for the answer, which may come from the cache. Tokens that no upstream counts are estimated.
func (m *modelCall) upstream() *reply.Refusal {
	if m.endpoint.Counts() && !m.who.key.pool.CountsTokens(m.endpoint, m.request.Model) {
		m.w.Header().Set("X-Dyno-Estimated", "true")
		m.answer = &upstream.Answer{Body: openai.AppendTokens(nil, m.endpoint, m.request.PromptTokens)}
		return nil
	}
	m.ask(true)
	return nil
}

// deliver passes a stream on as it comes. A whole answer is delivered after it is recorded.
func (m *modelCall) deliver() *reply.Refusal {
	g := m.g
	switch {
	case m.err == nil && m.out != nil:
		m.startStream()
		m.passOn()
	case m.err == nil:
		m.keepAnswer(m.answer.Reply.ID, m.answer.Body)
		var masked int
		m.whole, masked = g.out.JSON(m.answer.Body)
		g.stats.Masked("out", masked)
		if masked > 0 {
			m.whole = g.parts.Codec.WithoutLogprobs(m.endpoint, m.whole) // single tokens would reveal a secret
		}
	}
	return nil
}

// passOn passes a stream on.
func (m *modelCall) passOn() {
	g, rel := m.g, &m.relay
	rel.Codec, rel.Endpoint, rel.Usage, rel.Masker = g.parts.Codec, m.endpoint, m.request.IncludeUsage, g.out
	m.pass(func(e *openai.Event, more bool) {
		id := ""
		if e.Start != nil {
			m.start, id = e.Start, e.Start.ID
		}
		m.keepAnswer(id, m.answer.Stream.Frame().Data)
		if m.next++; e.Next > 0 {
			m.next = e.Next
		}
		b := g.parts.Buffers.Get(reply.ExpectedEvent) // released while the stream waits
		if b.B = rel.Next(b.B, m.answer.Stream.Frame(), e); len(b.B) > 0 || !more {
			m.out.Write(b.B, more)
		}
		g.parts.Buffers.Put(b)
		if rel.Full {
			m.answer.Stream.Cancel()
		}
	})
	m.passLast()
}

// passLast passes on the event by which a stream failed.
func (m *modelCall) passLast() {
	rel := &m.relay
	var failed *upstream.Error
	switch {
	case rel.Full:
		m.err = relay.ErrTexts
	case errors.As(m.err, &failed) && failed.Event != nil:
		m.out.Write(rel.Next(nil, failed.Event.WithID(m.entry.ID), &openai.Event{Done: true}), false)
		m.closed = true
	}
	m.g.stats.Masked("out", rel.Masked())
}

// record accounts for the answer, and then sends its end to the client.
func (m *modelCall) record() *reply.Refusal {
	m.account()
	m.claim.End(store.Unknown)
	switch {
	case m.err != nil && (m.out == nil || !m.out.Started):
		return m.g.refusalOf(m.err)
	case m.err != nil && m.answer == nil:
		refused := m.g.refusalOf(m.err)
		m.fail(refused.Status, refused.Fault())
	case m.closed:
	case m.err != nil && !m.ctx.Gone():
		m.fail(statusOf(m.err), m.g.faultOf(m.err))
	case m.out == nil:
		m.setSource()
		reply.Body(m.w, m.g.cfg.WriteTimeout, http.StatusOK, m.whole)
		m.overhead(0)
		return nil
	}
	m.out.End()
	return nil
}

// fail ends a stream that has started with an error. There is no [DONE], response.completed or message_stop: the client
// sees that it is not complete.
func (m *modelCall) fail(status int, f openai.Fault) {
	f.ID = m.entry.ID
	m.out.Write(openai.AppendFailure(nil, m.endpoint, status, f, m.start, m.next), false)
}
