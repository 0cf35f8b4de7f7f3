package bot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dyno/services/bot/cache"
	"dyno/services/bot/intent"
	"dyno/services/bot/openai"
	"dyno/services/bot/plugin"
	"dyno/services/bot/store"
	"dyno/services/bot/strict"
	"dyno/services/bot/trace"
	"dyno/services/bot/upstream"
)

// chatRequest is what POST /v1/bot/chat takes.
type chatRequest struct {
	Bot     string `json:"bot_id"`
	User    string `json:"user_id"`
	Query   string `json:"query"`
	History string `json:"history_id"` // of the conversation; "" begins one
	Message string `json:"message_id"` // the client's own; it comes back
	Stream  bool   `json:"stream"`
}

// chatMembers are those of a chatRequest.
var chatMembers = strict.Names("bot_id", "user_id", "query", "history_id", "message_id", "stream")

// chatReply is what it answers. A stream has the same in pieces: "start", many of "delta"
// with text, and "done"; or "error".
type chatReply struct {
	ID      string        `json:"id"`
	Bot     string        `json:"bot_id"`
	User    string        `json:"user_id"`
	History string        `json:"history_id"`
	Message string        `json:"message_id,omitempty"`
	Intent  *intentReply  `json:"intent,omitempty"`
	Plugins []pluginReply `json:"plugins,omitempty"`
	Queue   float64       `json:"queue_seconds"`
	Reply   *string       `json:"reply,omitempty"`
	Usage   *usageReply   `json:"usage,omitempty"`
	Turn    *turnReply    `json:"history,omitempty"`
	Model   string        `json:"model,omitempty"`
	By      string        `json:"upstream,omitempty"`
	Stopped bool          `json:"stopped,omitempty"` // by the user: the reply is what was said until then
}

type intentReply struct {
	Name  string  `json:"name"`
	Score float64 `json:"score"`
}

// pluginReply says what became of a plugin: what is missing is stated.
type pluginReply struct {
	Name    string         `json:"name"`
	Outcome plugin.Outcome `json:"outcome"`
	Seconds float64        `json:"seconds"`
}

type usageReply struct {
	Prompt     int  `json:"prompt_tokens"`
	Completion int  `json:"completion_tokens"`
	Total      int  `json:"total_tokens"`
	Estimated  bool `json:"estimated"`
}

// turnReply says what became of the turn: number is 0 unless it is kept.
type turnReply struct {
	State historyState `json:"state"`
	Turn  int64        `json:"turn,omitempty"`
	Told  int          `json:"turns_told"` // of the conversation so far, to the model
}

// A turn is a chat under way.
type turn struct {
	g       *Gateway
	who     identity
	q       chatRequest
	session string
	begins  bool // the conversation
	began   time.Time
	hold    *hold
	found   intent.Match
	results []plugin.Result
	asked   time.Duration // what plugins took
	past    []store.Turn
	count   int64 // of the conversation's turns; store.Unknown if it cannot be read
	told    int   // of these, to the model
}

// chat serves POST /v1/bot/chat.
func (g *Gateway) chat(w http.ResponseWriter, r *http.Request) *refusal {
	t := &turn{g: g, began: time.Now(), count: store.Unknown}
	var refused *refusal
	if t.who, refused = g.identify(r); refused != nil {
		return refused
	}
	has := r.Header.Get(lastEventID)
	if has == "" {
		if refused := g.spent(t.who.key, t.began); refused != nil {
			return refused
		}
	}
	body, refused := g.readBody(r, t.who.key)
	if refused != nil {
		return refused
	}
	if has != "" {
		body.free()
		return g.again(w, r, t.who, has)
	}
	defer body.free()
	refused = t.parse(body.B)
	body.forget()
	if refused != nil {
		return refused
	}
	if refused := g.affords(r.Context(), t.who.key, t.least(), t.began); refused != nil {
		return refused
	}
	ctx := newWork(r.Context(), g.answering, g.cfg.ChatDisconnect, g.cfg.DrainTime)
	defer ctx.end()
	if t.q.Message != "" {
		name := turnName{t.who.key.id, t.q.User, t.q.Message}
		g.underWay.add(name, ctx)
		defer g.underWay.remove(name, ctx)
	}
	waiting, waited := ctx.waiting()
	defer waited()
	j, refused := g.admit(waiting, t.who, "bot", t.began)
	if refused != nil {
		return ctx.refusal(refused)
	}
	defer j.leave()
	if refused := t.enter(waiting, j); refused != nil {
		return ctx.refusal(refused)
	}
	body.free() // what is under way is bounded by places
	after := int64(store.Unknown)
	defer func() { t.release(j, after) }()
	name := turnName{t.who.key.id, t.q.User, j.entry.ID}
	g.underWay.add(name, ctx)
	defer g.underWay.remove(name, ctx)
	t.prepare(ctx, j.entry.ID)
	if ctx.stopped() {
		return refusedStopped()
	}
	if refused := t.start(ctx, waiting, j); refused != nil {
		return ctx.refusal(refused)
	}
	t.past = nil         // told is what matters from here on, however long the answer takes
	after = t.hold.turns // if there is no answer: what the archive says may change by a write under way
	if t.q.Stream {
		after, refused = t.stream(w, ctx, j)
	} else {
		after, refused = t.whole(w, ctx, j)
	}
	return refused
}

func (t *turn) parse(body []byte) *refusal {
	q := &t.q
	refused := t.g.decode(body, chatMembers, q)
	if refused != nil {
		return refused
	}
	if q.User, refused = t.who.asUser(q.User); refused != nil {
		return refused
	}
	for _, f := range []struct{ name, value string }{{"bot_id", q.Bot}, {"user_id", q.User}, {"history_id", q.History}, {"message_id", q.Message}} {
		if f.value == "" && strings.HasSuffix(f.name, "y_id") || f.value == "" && f.name == "message_id" {
			continue // may be left out
		}
		if !validName(f.value) {
			return badName(f.name)
		}
	}
	if strings.TrimSpace(q.Query) == "" || len(q.Query) > t.g.cfg.MaxQueryBytes {
		return &refusal{status: http.StatusBadRequest, param: "query", text: fmt.Sprintf("query: must have 1 to %d bytes", t.g.cfg.MaxQueryBytes)}
	}
	t.who.user = q.User
	var masked int
	q.Query, masked = t.g.in.Text(q.Query)
	t.g.stats.masked("in", masked)
	return nil
}

// least is what the turn will reserve at least: for what is said now, without what was said before.
func (t *turn) least() store.Cost {
	c := t.g.cfg
	prompt := openai.EstimateTokens(len(t.q.Query))
	return store.Cost{Requests: 1, Tokens: int64(prompt + c.ReplyTokens), Money: t.g.pool.Price(c.Model).Of(prompt, c.ReplyTokens)}
}

// enter takes the conversation for this turn. One that begins has a name that nobody else knows.
func (t *turn) enter(ctx context.Context, j *job) *refusal {
	t.begins = t.q.History == ""
	if t.begins {
		t.q.History = store.NewID()
	}
	t.session = sessionOf(t.who.key.id, t.q.Bot, t.q.User, t.q.History)
	var err error
	if t.hold, err = t.g.enter(ctx, t.session); err != nil {
		return refusedBusy(ctx)
	}
	j.hold, j.entry.Session = t.hold, t.session
	if t.begins {
		t.count = 0 // it is locked all the same: a stream tells the name before its turn ends
	} else {
		t.past, t.count = t.g.recall.of(t.session)
	}
	return nil
}

// start makes the model's request, and takes what it may use together with the session. How much that is depends on what was
// said before: the conversation was read without a lock. It is read once more if another gateway has had it since.
func (t *turn) start(ctx *work, waiting context.Context, j *job) *refusal {
	g := t.g
	for {
		request, err := t.request()
		if err != nil {
			return refuse(http.StatusInternalServerError, "", "%v", err)
		}
		locked := t.hold.locked
		if refused := j.start(waiting, request); refused != nil {
			return refused
		}
		if locked || t.begins || g.redis == nil || t.hold.missed || t.count == store.Unknown || t.count == t.hold.turns {
			j.entry.Queue += t.hold.waited
			return nil
		}
		g.settle(j.settlement)
		j.settlement = settlement{}
		t.read(ctx)
	}
}

// release gives the conversation back, which has so many turns now.
func (t *turn) release(j *job, turns int64) {
	if turns == store.Unknown && t.hold.locked {
		t.g.recall.forget(t.session)
	}
	s := j.settlement
	if !j.finished { // what was used is not known: it is given back when its lease ends
		s = settlement{}
	}
	t.hold.release(turns, s)
}

// sessionOf names a conversation. Whose it is belongs to its name: nobody reads another's
// by guessing.
func sessionOf(key, bot, user, history string) string {
	parts := []string{key, bot, user, history}
	for i, p := range parts {
		parts[i] = url.QueryEscape(p)
	}
	return strings.Join(parts, "/")
}

// prepare finds out what is wanted, asks plugins, and reads the conversation meanwhile, unless
// it is known.
func (t *turn) prepare(ctx context.Context, id string) {
	g := t.g
	read := make(chan struct{})
	if t.count != store.Unknown {
		close(read)
	} else {
		go func() {
			defer close(read)
			t.read(ctx)
		}()
	}
	_, span := trace.Start(ctx, "intent")
	t.found = g.rules.Find(t.q.Query)
	span.Text("intent", t.found.Intent)
	span.End()
	began := time.Now()
	t.results = g.plugins.Run(ctx, plugin.Call{Key: t.who.key.id, ID: id, Bot: t.q.Bot, User: t.q.User, Intent: t.found.Intent, Query: t.q.Query})
	t.asked = time.Since(began)
	for _, r := range t.results {
		g.stats.plugins.WithLabelValues(r.Name, string(r.Outcome)).Inc()
		if r.Err != nil {
			g.log.Debug("plugin", "plugin", r.Name, "outcome", string(r.Outcome), "error", r.Err)
		}
	}
	<-read
}

// read reads the conversation from the archive.
func (t *turn) read(ctx context.Context) {
	g, ended := t.g, ctx
	ctx, span := trace.StartCall(ctx, "archive read")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	_, err := g.pasts.enter(ctx, t.who.key.pasts)
	if err == nil {
		t.past, t.count, err = g.archive.Turns(ctx, t.session, g.cfg.HistoryTurns)
		g.pasts.leave(t.who.key.pasts)
	}
	if err != nil {
		if t.past, t.count = nil, store.Unknown; ended.Err() != nil {
			return // nobody waits for it
		}
		span.Fail("the archive does not answer")
		g.stats.degraded("archive")
		return
	}
	g.recall.keep(t.session, t.past, t.count)
}

// request makes the model's request: the system prompt, what plugins have said, as much
// of the conversation as there is room for, and what the user says now.
func (t *turn) request() (*openai.Request, error) {
	c := t.g.cfg
	var messages []openai.Message
	if c.SystemPrompt != "" {
		messages = append(messages, openai.Message{Role: "system", Content: c.SystemPrompt})
	}
	var said strings.Builder
	for _, r := range t.results {
		if r.Outcome == plugin.OK {
			fmt.Fprintf(&said, "\n[%s] %s", r.Name, r.Text)
		}
	}
	if said.Len() > 0 {
		messages = append(messages, openai.Message{Role: "system", Content: "Tools were asked about what the user says now:" + said.String()})
	}
	first := recent(t.past, c.HistoryTokens)
	t.told = len(t.past) - first
	for _, p := range t.past[first:] {
		messages = append(messages, openai.Message{Role: "user", Content: p.User}, openai.Message{Role: "assistant", Content: p.Reply})
	}
	messages = append(messages, openai.Message{Role: "user", Content: t.q.Query})
	return t.g.parts.Codec.NewChat(c.Model, messages, t.q.Stream, c.ReplyTokens)
}

// recent returns the first of the latest turns that have so many tokens at most.
func recent(turns []store.Turn, tokens int) int {
	first := len(turns)
	for first > 0 && tokens >= turns[first-1].Tokens {
		first--
		tokens -= turns[first].Tokens
	}
	return first
}

// turnOf is what is to be kept; nil if the conversation could not be read: its number is
// not known.
func (t *turn) turnOf(j *job, reply string) *store.Turn {
	if t.count == store.Unknown {
		return nil
	}
	tokens := openai.Message{Content: t.q.Query}.Tokens() + openai.Message{Content: reply}.Tokens()
	return &store.Turn{ID: j.entry.ID, Session: t.session, Number: t.count + 1, At: j.entry.At, User: t.q.Query, Reply: reply, Tokens: tokens}
}

// kept says what became of the turn, and how many turns the conversation has then.
func (t *turn) kept(turn *store.Turn, state historyState) (*turnReply, int64) {
	switch state {
	case historyKept:
		t.g.recall.add(turn)
		return &turnReply{state, turn.Number, t.told}, turn.Number
	case "":
		state = historyUnavailable
	}
	return &turnReply{State: state, Told: t.told}, store.Unknown
}

// head is what is known before the model answers.
func (t *turn) head(j *job) chatReply {
	r := chatReply{ID: j.entry.ID, Bot: t.q.Bot, User: t.q.User, History: t.q.History, Message: t.q.Message, Model: j.request.Model,
		Intent: &intentReply{t.found.Intent, t.found.Score}, Queue: j.entry.Queue.Seconds()}
	for _, p := range t.results {
		r.Plugins = append(r.Plugins, pluginReply{p.Name, p.Outcome, p.Took.Seconds()})
	}
	return r
}

func usageOf(u openai.Usage) *usageReply {
	return &usageReply{u.Prompt, u.Completion, u.Total(), u.Estimated}
}

// whole answers at once. It returns how many turns the conversation has then. No such answer is in the
// cache: models are asked for another one each time.
func (t *turn) whole(w http.ResponseWriter, ctx *work, j *job) (int64, *refusal) {
	asked := time.Now()
	a, err := t.g.pool.Ask(ctx, j.request, j.who.key.tenant)
	t.g.stats.asked(a, asked)
	took := time.Since(asked)
	if err == nil {
		err = j.holdAnswer(a)
	}
	done := j.wholeResult(a, cache.Made, err, ctx.gone() || err != nil && ctx.stopped())
	if err != nil {
		j.finish(done)
		return t.hold.turns, ctx.refusal(t.g.refusalOf(err))
	}
	reply, masked := t.g.out.Text(a.Reply.Text)
	t.g.stats.masked("out", masked)
	done.turn = t.turnOf(j, reply)
	r := t.head(j)
	var count int64
	r.Turn, count = t.kept(done.turn, j.finish(done))
	r.Reply, r.Usage, r.By = &reply, usageOf(a.Usage), a.Upstream
	tell(w.Header(), j, a, cache.Made)
	t.g.writeJSON(w, http.StatusOK, r)
	t.g.stats.overhead.Observe((time.Since(t.began) - took - t.asked - j.entry.Queue).Seconds())
	return count, nil
}

// stream answers piece by piece.
func (t *turn) stream(w http.ResponseWriter, ctx *work, j *job) (int64, *refusal) {
	g := t.g
	asked, out := time.Now(), newSink(w, g.cfg.WriteTimeout)
	a, err := g.pool.AskStream(ctx, j.request, j.who.key.tenant, func() { out.alive(j, ctx) })
	g.stats.asked(a, asked)
	if err != nil {
		j.finish(j.wholeResult(nil, cache.Made, err, ctx.gone() || ctx.stopped()))
		refused := ctx.refusal(g.refusalOf(err))
		if !out.begun {
			return t.hold.turns, refused
		}
		n := t.newTeller(out, ctx, j)
		defer n.close()
		n.fault(refused.status, refused.fault())
		out.end()
		return t.hold.turns, nil
	}
	first := time.Since(j.began)
	j.request.Forget() // a stream goes on for long
	g.stats.streams.Add(1)
	defer g.stats.streams.Add(-1)
	out.head()
	tell(w.Header(), j, a, cache.Made)
	n := t.newTeller(out, ctx, j)
	defer n.close()
	n.say("start", t.head(j), a.Stream.More())
	reply, err := t.relay(a, n, ctx, j)
	gone := ctx.gone()
	done := j.streamResult(a, err, first, gone)
	stopped := errors.Is(err, errStopped)
	if err != nil && !stopped {
		j.finish(done)
		n.fault(statusOf(err), g.faultOf(err))
		out.end()
		return t.hold.turns, nil
	}
	if !stopped || reply != "" {
		done.turn = t.turnOf(j, reply)
	}
	end := chatReply{ID: j.entry.ID, Bot: t.q.Bot, User: t.q.User, History: t.q.History, Message: t.q.Message, Queue: j.entry.Queue.Seconds(),
		Usage: usageOf(done.usage), By: a.Upstream, Stopped: stopped}
	count := t.hold.turns
	if state := j.finish(done); !stopped || reply != "" { // before the client is told: what it is told is kept
		end.Turn, count = t.kept(done.turn, state)
	}
	n.say("done", end, false)
	out.end()
	return count, nil
}

// errLong says that an answer has no end.
var errLong = errors.New("the answer is too long")

// deltaEvent is the data of "delta".
type deltaEvent struct {
	Text string `json:"text"`
}

// relay passes text on as it comes, and returns all of it, which the job holds.
func (t *turn) relay(a *upstream.Answer, n *teller, ctx *work, j *job) (string, error) {
	g := t.g
	var reply strings.Builder
	masker := g.out
	stream := masker.Stream()
	var buf []byte
	var tooMuch error
	tell := func(text []byte, more bool) {
		if len(text) == 0 {
			return
		}
		reply.Write(text)
		n.say("delta", deltaEvent{string(text)}, more)
	}
	err := g.pass(a.Stream, func(_ openai.Frame, e *openai.Event, more bool) {
		for _, d := range e.Deltas {
			if masker == nil {
				buf = append(buf[:0], d.Text...)
			} else {
				buf = stream.Write(buf[:0], d.Text)
			}
			tell(buf, more)
		}
		if !more {
			n.out.flush() // an event may have no text, or one that is held back
		}
		switch {
		case int64(reply.Len()) > g.cfg.Upstream.MaxAnswerBytes:
			tooMuch = errLong
			a.Stream.Cancel()
		case !j.answer.Hold(int64(reply.Len())):
			tooMuch = upstream.Crowded(0)
			a.Stream.Cancel()
		}
		if n.out.gone {
			ctx.leave()
		}
	})
	if masker != nil {
		tell(stream.Close(buf[:0]), false)
		g.stats.masked("out", stream.Found())
	}
	if tooMuch != nil {
		err = tooMuch
	}
	return reply.String(), err
}
