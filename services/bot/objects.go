package bot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// An objectCall is an exchange about what an upstream keeps for a client.
type objectCall struct {
	operationCall
	object   store.Object // that the path names, or that is made
	sent     []byte
	estimate openai.Usage              // of a batch that is made
	checked  map[openai.Reference]bool // in the lines of a batch
}

// about serves an operation about an object, or about many.
func (g *Gateway) about(w http.ResponseWriter, r *http.Request, o *openai.Operation) *reply.Refusal {
	c := &objectCall{operationCall: operationCall{operation: o}}
	c.begin(g, w, r, o.Name)
	defer c.close()
	defer func() { c.upload.free() }()
	if o.Many() && o.Method == http.MethodGet {
		return c.stages(c.authenticate, c.limit, c.read, c.admit, c.gather, c.list, c.finish)
	}
	return c.stages(c.authenticate, c.limit, c.read, c.admit, c.gather, c.upstream, c.deliver, c.record)
}

// own returns an object of a client's.
func (i identity) own(kind, id string) store.Object {
	return store.Object{Kind: kind, ID: id, Key: i.key.id, Team: i.key.team, User: i.user, At: time.Now().UTC()}
}

// object finds an object of a client's. Those of others are refused as unknown ones are; other says that it is one of
// them.
func (g *Gateway) object(ctx context.Context, own store.Object, field string) (o store.Object, other bool, refused *reply.Refusal) {
	refused = &reply.Refusal{
		Status: http.StatusNotFound, Param: field, Code: own.Kind + "_not_found",
		Text: fmt.Sprintf("%s %q is not known here, or not to this key", strings.ReplaceAll(own.Kind, "_", " "), openai.Brief(own.ID)),
	}
	if field == "previous_response_id" {
		refused.Code = openai.NoPreviousResponse
	}
	if !validName(own.ID) {
		return o, true, refused
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	switch list, err := g.archive.Objects(ctx, own, "", 1); {
	case err != nil:
		return o, true, g.archiveAway()
	case len(list) == 0:
		return o, false, refused
	case !list[0].BelongsTo(own):
		return o, true, refused
	default:
		return list[0], false, nil
	}
}

// refer returns the deployment that has what a request names; "" is unknown. Objects of others are refused, and so are those
// of which it is not known whose they are, unless these are everybody's.
func (g *Gateway) refer(ctx context.Context, who identity, list []openai.Reference) (maker string, _ *reply.Refusal) {
	all := g.cfg.UnknownResponses || g.live.Load().keyless != nil
	for _, r := range list {
		o, other, refused := g.object(ctx, who.own(r.Kind, r.ID), r.Path)
		if refused != nil && (other || !r.Open && !all) {
			return "", refused
		}
		maker = cmp.Or(maker, o.Upstream)
	}
	return maker, nil
}

// archiveAway refuses a request because it cannot be known now whose an object is.
func (g *Gateway) archiveAway() *reply.Refusal {
	g.stats.Degraded("archive")
	return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "archive_unavailable", Text: "the archive does not answer", After: time.Second}
}

// note changes in the archive what is known of an object.
func (g *Gateway) note(o store.Object, change func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	if err := change(ctx); err != nil {
		g.stats.Degraded("archive")
		g.log.Error("whose an object is, is not kept", "kind", o.Kind, "id", o.ID, "error", err)
	}
}

// dropObject notes that an object is gone.
func (g *Gateway) dropObject(o store.Object) {
	g.note(o, func(ctx context.Context) error { return g.archive.Forget(ctx, o) })
}

// minItemID is how long IDs of items are. Some servers number the items of an answer, or draw a few digits: such an ID is of
// many items.
const minItemID = 20

// keepMade notes whose an object is, if its ID is new, and what else an answer about it says to have been made.
func (g *Gateway) keepMade(o store.Object, isNew bool, made []openai.Reference) {
	var list []store.Object
	if isNew && validName(o.ID) {
		list = append(list, o)
	}
	for _, r := range made {
		if validName(r.ID) && (r.Kind != openai.Item || len(r.ID) >= minItemID) {
			other := o
			other.Kind, other.ID, other.Model, other.At = r.Kind, r.ID, "", time.Now().UTC()
			list = append(list, other)
		}
	}
	if len(list) > 0 {
		g.note(list[0], func(ctx context.Context) error { return g.archive.Keep(ctx, list...) })
	}
}

// keepAnswer notes whose a response is, and what it has made, before the client has the IDs. said is its text, or that of an event.
func (m *modelCall) keepAnswer(id string, said []byte) {
	made := openai.Made(openai.Form(m.endpoint.Path()), said)
	if !m.kept {
		id, made = "", slices.DeleteFunc(made, func(r openai.Reference) bool { return r.Kind == openai.Item })
	}
	if !m.answer.Native || id == "" && len(made) == 0 {
		return
	}
	o := m.who.own(openai.Response, id)
	o.Upstream, o.Model = m.answer.Upstream, m.answer.Model
	m.g.keepMade(o, true, made)
	if m.request.Background && validName(id) {
		m.unsettled = &o
	}
}

// read reads the request, and finds the object.
func (c *objectCall) read() (refused *reply.Refusal) {
	g, o := c.g, c.operation
	c.free, c.object = true, c.who.own(o.Kind, c.r.PathValue("id"))
	c.call = &openai.Call{Operation: o, Stream: slices.ContainsFunc(c.r.URL.Query()["stream"], func(v string) bool { return v != "false" })}
	if g.out != nil && (c.call.Stream || o.Contents) {
		return reply.Refuse(http.StatusBadRequest, "", "this gateway masks secrets in answers (mask_out), which it cannot do in files, nor in streams of this endpoint")
	}
	if c.body != nil {
		var masked int
		c.sent, masked = g.in.JSON(c.body.B)
		g.stats.Masked("in", masked)
	}
	maker, refused := c.references()
	switch {
	case refused != nil:
	case !o.Many():
		c.object, _, refused = g.object(c.r.Context(), c.object, "")
	case o.Kind == openai.Batch && o.Method == http.MethodPost:
		refused = c.readBatch()
	case o.Upload && c.upload.fields["purpose"] == "batch":
		refused = c.readLines()
	case o.Method == http.MethodPost:
		if c.object.Upstream = maker; maker == "" {
			c.object.Upstream, _ = c.who.key.pool.Keeper("", c.who.key.mayUse)
		}
		if c.object.Upstream == "" {
			refused = reply.Refuse(http.StatusNotFound, "", "no upstream of this key keeps %s", strings.ReplaceAll(strings.Trim(o.Path, "/"), "_", " "))
		}
	}
	return refused
}

// partID is the ID of something that an object has.
var partID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// references checks the IDs in the request, and returns the deployment that has these objects.
func (c *objectCall) references() (maker string, _ *reply.Refusal) {
	if part := c.r.PathValue("part"); part != "" && !partID.MatchString(part) {
		return "", reply.Refuse(http.StatusNotFound, "", "%q is not known here", openai.Brief(part))
	}
	if len(c.sent) == 0 {
		return "", nil
	}
	list, err := c.g.parts.Codec.References(c.operation.Kind, c.sent)
	if err != nil {
		return "", badField(err)
	}
	return c.g.refer(c.r.Context(), c.who, list)
}

// gather reserves a request, and what a batch may use.
func (c *objectCall) gather() *reply.Refusal {
	c.claim = c.g.claims.New()
	c.request = &openai.Request{Model: c.object.Model, Stream: c.call.Stream, Choices: 1}
	c.entry.Model, c.entry.Stream = c.object.Model, c.call.Stream
	return c.reserveUse(c.estimate)
}

// passing returns a request about the object.
func (c *objectCall) passing(method, path string) *upstream.Passing {
	f := passing(c.object, c.request, method, strings.Replace(path, "{part}", c.r.PathValue("part"), 1), c.sent)
	if f.Beta = c.operation.Beta; c.upload != nil {
		f.Type, f.Body = c.upload.kind, func(string) (io.Reader, int64) { return c.upload.body("") }
	}
	return f
}

// upstream passes the request on. What is deleted cannot be looked at afterwards.
func (c *objectCall) upstream() *reply.Refusal {
	if c.operation.Deletes() && c.object.Bill != "" {
		c.g.look(c.object)
	}
	c.forward(c.passing(c.operation.Method, c.operation.Path+"?"+c.r.URL.Query().Encode()))
	return nil
}

// Bounds of a list of objects: without a limit in the query, and the largest.
const listed, maxListed = 20, 100

// list asks for each of the client's objects: the upstream's own list has those of others, too.
func (c *objectCall) list() *reply.Refusal {
	g, q := c.g, c.r.URL.Query()
	most, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(listed)))
	for name := range q {
		if name != "limit" && name != "after" && name != "order" {
			most = 0
		}
	}
	if err != nil || most < 1 || q.Get("order") == "asc" || q.Has("after") && !validName(q.Get("after")) {
		return reply.Refuse(http.StatusBadRequest, "", "want a limit from 1 on, after the ID of an object, in the order desc, and nothing else in the query")
	}
	all, err := g.archive.Objects(c.ctx, c.object, q.Get("after"), min(most, maxListed)+1)
	if err != nil {
		return g.archiveAway()
	}
	data := []json.RawMessage{}
	for _, c.object = range all[:min(most, maxListed, len(all))] {
		c.forward(c.passing(http.MethodGet, c.operation.Path+"/{id}"))
		if failed := (*upstream.Error)(nil); errors.As(c.err, &failed) && failed.Status == http.StatusNotFound {
			g.dropObject(c.object)
			continue
		}
		if _ = c.deliver(); c.err != nil || c.out != nil {
			return nil //nolint:nilerr // record answers by c.err
		}
		c.made()
		data = append(data, c.whole)
	}
	c.answer, c.err = &upstream.Answer{}, nil
	c.whole, err = g.parts.Codec.JSON.Append(nil, map[string]any{"object": "list", "data": data, "has_more": len(all) > min(most, maxListed)})
	return badField(err)
}

// record notes what has become of the object, accounts for the request, and ends it.
func (c *objectCall) record() *reply.Refusal {
	failed := (*upstream.Error)(nil)
	switch {
	case errors.As(c.err, &failed) && failed.Late && !c.free:
		failed.Usage = &c.estimate // the batch may have been made
	case c.err != nil || c.operation.Contents:
	case c.operation.Deletes():
		c.g.dropObject(c.object)
	case c.whole == nil && c.object.Bill != "": // a stream, whose client has its end already
		defer c.g.look(c.object)
	default:
		c.answer.Usage = c.estimate
		c.made()
	}
	return c.finish()
}

// made keeps an object that the upstream has made, and what it has. It settles one that has ended.
func (c *objectCall) made() {
	var said openai.State
	_ = c.g.parts.Codec.JSON.Unmarshal(c.whole, &said) // a stream, which has none
	isNew := c.object.ID == ""
	c.object.ID = cmp.Or(c.object.ID, said.ID)
	c.g.keepMade(c.object, isNew, openai.Made(c.object.Kind, c.whole))
	if !isNew {
		c.g.settle(c.object, said, said.Usage())
	} else if c.object.Kind == openai.Batch && validName(said.ID) {
		c.unsettled, c.answer.Reply.Pending = &c.object, true
	}
}
