package bot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	estimate openai.Usage // of a batch that is made
}

// about serves an operation about an object, or about many.
func (g *Gateway) about(w http.ResponseWriter, r *http.Request, o *openai.Operation) *reply.Refusal {
	c := &objectCall{operationCall: operationCall{operation: o}}
	c.begin(g, w, r, o.Name)
	defer c.close()
	defer func() { c.upload.free() }()
	if o.Many() && o.Method != "" {
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
	refused = &reply.Refusal{Status: http.StatusNotFound, Param: field, Code: own.Kind + "_not_found", Text: fmt.Sprintf("%s %q is not known here, or not to this key", own.Kind, openai.Brief(own.ID))}
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

// archiveAway refuses a request because it cannot be known now whose an object is.
func (g *Gateway) archiveAway() *reply.Refusal {
	g.stats.Degraded("archive")
	return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "archive_unavailable", Text: "the archive does not answer", After: time.Second}
}

// note changes in the archive what is known of an object.
func (g *Gateway) note(change func(context.Context, store.Object) error, o store.Object) {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	if err := change(ctx, o); err != nil {
		g.stats.Degraded("archive")
		g.log.Error("whose an object is, is not kept", "kind", o.Kind, "id", o.ID, "error", err)
	}
}

// refer finds the deployment that has what a request refers to. Files that were not uploaded here are everybody's.
func (m *modelCall) refer() *reply.Refusal {
	g, ctx := m.g, m.r.Context()
	if id := m.request.Previous; id != "" {
		o, other, refused := g.object(ctx, m.who.own(openai.Response, id), "previous_response_id")
		if refused != nil && (other || !g.cfg.UnknownResponses && g.live.Load().keyless == nil) {
			return refused
		}
		m.request.Maker = o.Upstream
	}
	for _, id := range m.request.Files() {
		o, other, refused := g.object(ctx, m.who.own(openai.File, id), "file_id")
		if other {
			return refused
		}
		m.request.Maker = cmp.Or(m.request.Maker, o.Upstream)
	}
	return nil
}

// keepResponse notes whose a response is, before the client has its ID.
func (m *modelCall) keepResponse(id string) {
	if m.kept && m.answer.Native && validName(id) {
		o := m.who.own(openai.Response, id)
		o.Upstream, o.Model = m.answer.Upstream, m.answer.Model
		m.g.note(m.g.archive.Keep, o)
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
	switch {
	case !o.Many():
		c.object, _, refused = g.object(c.r.Context(), c.object, "")
	case o.Kind == openai.Batch && o.Method == "":
		refused = c.readBatch()
	case o.Upload && c.upload.fields["purpose"] == "batch":
		refused = c.readLines()
	case o.Upload:
		if c.object.Upstream, _ = c.who.key.pool.Keeper("", c.who.key.mayUse); c.object.Upstream == "" {
			refused = reply.Refuse(http.StatusNotFound, "", "no upstream of this key keeps files")
		}
	}
	return refused
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
	f := &upstream.Passing{Request: c.request, At: c.object.Upstream, Method: method, Path: strings.Replace(path, "{id}", url.PathEscape(c.object.ID), 1), Type: "application/json"}
	if f.Body = func(string) (io.Reader, int64) { return bytes.NewReader(c.sent), int64(len(c.sent)) }; c.upload != nil {
		f.Type, f.Body = c.upload.kind, func(string) (io.Reader, int64) { return c.upload.body("") }
	}
	return f
}

// upstream passes the request on.
func (c *objectCall) upstream() *reply.Refusal {
	c.forward(c.passing(c.operation.Method, c.operation.Path+"?"+c.r.URL.Query().Encode()))
	return nil
}

// Bounds of a list of objects: without a limit in the query, and the largest.
const listed, maxListed = 20, 100

// list asks for each of the client's objects: the upstream's own list has those of others, too.
func (c *objectCall) list() *reply.Refusal {
	g, q := c.g, c.r.URL.Query()
	most, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(listed)))
	if err != nil || most < 1 || q.Get("order") == "asc" || q.Has("purpose") || q.Has("after") && !validName(q.Get("after")) {
		return reply.Refuse(http.StatusBadRequest, "", "want a limit from 1 on, after the ID of an object, in the order desc, without a purpose")
	}
	all, err := g.archive.Objects(c.ctx, c.object, q.Get("after"), min(most, maxListed)+1)
	if err != nil {
		return g.archiveAway()
	}
	data := []json.RawMessage{}
	for _, c.object = range all[:min(most, maxListed, len(all))] {
		c.forward(c.passing(http.MethodGet, c.operation.Path+"/{id}"))
		if failed := (*upstream.Error)(nil); errors.As(c.err, &failed) && failed.Status == http.StatusNotFound {
			g.note(g.archive.Forget, c.object)
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
	case c.operation.Method == http.MethodDelete:
		c.g.note(c.g.archive.Forget, c.object)
	default:
		c.answer.Usage = c.estimate
		c.made()
	}
	return c.finish()
}

// made keeps an object that the upstream has made, and the files that a batch has.
func (c *objectCall) made() {
	var said struct {
		ID     string `json:"id"`
		Output string `json:"output_file_id"`
		Errors string `json:"error_file_id"`
	}
	_ = c.g.parts.Codec.JSON.Unmarshal(c.whole, &said) // a stream, which has none
	file := c.object
	file.Kind, file.Model, file.At = openai.File, "", time.Now().UTC()
	for _, file.ID = range []string{said.Output, said.Errors} {
		if validName(file.ID) {
			c.g.note(c.g.archive.Keep, file)
		}
	}
	if c.object.ID == "" && validName(said.ID) {
		c.object.ID = said.ID
		c.g.note(c.g.archive.Keep, c.object)
	}
}
