package bot

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"dyno/services/bot/answer"
	"dyno/services/bot/dialect/embedding"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// An operationCall is an exchange of an operation: its request and answer pass as they are.
type operationCall struct {
	exchange
	operation *openai.Operation
	model     string // of a path of Google's; "" is in the body
	call      *openai.Call
	upload    *upload // nil for JSON
	meter     openai.Meter
	whole     []byte // an answer that is masked
}

// operate serves an operation. model is that of a path of Google's.
func (g *Gateway) operate(w http.ResponseWriter, r *http.Request, o *openai.Operation, model string) *reply.Refusal {
	c := &operationCall{operation: o, model: model}
	c.begin(g, w, r, o.Name)
	defer c.close()
	defer func() { c.upload.free() }()
	return c.stages(c.authenticate, c.limit, c.read, c.admit, c.gather, c.upstream, c.deliver, c.record)
}

// limit refuses a request of a key with a spent limit, before its body is read.
func (c *operationCall) limit() (refused *reply.Refusal) {
	if !c.operation.Upload {
		return c.exchange.limit()
	}
	if refused = c.spent(); refused == nil {
		c.upload, refused = c.g.readUpload(c.r, c.who.key)
	}
	return refused
}

// read reads the request.
func (c *operationCall) read() *reply.Refusal {
	g := c.g
	var err error
	if c.upload != nil {
		c.call, err = g.parts.Codec.ParseForm(c.operation, c.upload.fields, c.upload.size)
	} else {
		body, masked := g.in.JSON(c.body.B)
		g.stats.Masked("in", masked)
		c.call, err = g.parts.Codec.ParseCall(c.operation, c.model, body)
	}
	if err != nil {
		return badField(err)
	}
	if c.call.Stream && g.out != nil {
		return &reply.Refusal{Status: http.StatusBadRequest, Param: "stream", Text: "stream: this gateway masks secrets in answers (mask_out), which it can do in whole answers of this endpoint only"}
	}
	return nil
}

// badField refuses a request for a field; nil is no error.
func badField(err error) *reply.Refusal {
	if err == nil {
		return nil
	}
	r := reply.Refuse(http.StatusBadRequest, "", "%v", err)
	var fault *openai.RequestError
	if errors.As(err, &fault) {
		r.Param = fault.Field
	}
	return r
}

// admit waits for a place.
func (c *operationCall) admit() *reply.Refusal { return c.exchange.admit(c.r.Context()) }

// gather reserves what the answer may use.
func (c *operationCall) gather() *reply.Refusal {
	g, key, q := c.g, c.who.key, c.call
	if !key.pool.Has(q.Model) || !key.mayUse(q.Model) {
		return refusedModel(q.Model)
	}
	c.claim = g.claims.New()
	c.request = &openai.Request{Model: q.Model, Stream: q.Stream, Choices: 1, PromptTokens: q.Estimate.Prompt, MaxTokens: q.Estimate.Completion}
	e := &c.entry
	e.Model, e.Stream, e.Unit = q.Model, q.Stream, string(c.operation.Unit)
	most := q.Estimate
	if c.operation.Answers && most.Completion == 0 { // the request does not tell
		most.Completion = g.cfg.ReplyTokens * max(most.Units, 1)
	}
	return c.reserveUse(most)
}

// reserveUse reserves what the answer may use.
func (c *operationCall) reserveUse(most openai.Usage) *reply.Refusal {
	g, now := c.g, time.Now()
	c.entry.At = now
	r, refused := c.reservationOf(most, now)
	if refused != nil {
		return refused
	}
	if refused := c.take(c.r.Context(), r, now); refused != nil {
		return refused
	}
	c.ctx = answer.New(c.r.Context(), g.answering, g.drainTime(g.cfg.ModelDisconnect))
	return nil
}

// upstream passes the request on, and waits for the first byte of the answer.
func (c *operationCall) upstream() *reply.Refusal {
	f := &upstream.Passing{Request: c.request, Path: c.operation.Path, Form: embedding.Of(c.operation.Path), Type: "application/json", Body: func(model string) (io.Reader, int64) {
		body := c.call.Body(model)
		return bytes.NewReader(body), int64(len(body))
	}}
	if c.upload != nil {
		f.Type, f.Body = c.upload.kind, c.upload.body
	}
	if c.operation.HasModel() { // the query may have the key
		f.Path = "/embeddings"
	} else if c.r.URL.RawQuery != "" {
		f.Path += "?" + c.r.URL.RawQuery
	}
	c.forward(f)
	return nil
}

// forward asks for the answer.
func (c *operationCall) forward(f *upstream.Passing) {
	began := time.Now()
	if c.answer, c.err = c.who.key.pool.Forward(c.ctx, f, c.who.key.tenant); c.err == nil {
		c.g.stats.Asked(c.answer, began)
	}
	c.asked, c.first = time.Since(began), time.Since(c.began)
}

// passedHeader are the fields of an upstream's header that clients get.
var passedHeader = []string{"Content-Type", "Content-Disposition"}

// deliver passes the answer on as it comes. One that is masked, or about an object, is read first.
func (c *operationCall) deliver() *reply.Refusal {
	if c.err != nil {
		return nil
	}
	passed := c.answer.Passed
	about := c.operation.Kind != ""
	defer func() {
		used := openai.Usage{}
		if !about {
			used = c.meter.Usage(c.call)
		}
		passed.Close(used)
	}()
	kind := passed.Header.Get("Content-Type")
	whole := strings.HasPrefix(kind, "application/json")
	if (c.g.out != nil || about && !c.operation.Contents) && whole || passed.Translate != nil {
		var body []byte
		if body, c.err = passed.ReadWhole(c.g.cfg.Upstream.MaxAnswerBytes, &c.held, &c.meter); c.err == nil && passed.Translate != nil {
			body, c.err = passed.Translate(body, c.meter.Usage(c.call))
		}
		if c.err == nil {
			var masked int
			c.whole, masked = c.g.out.JSON(body)
			c.g.stats.Masked("out", masked)
		}
		return nil
	}
	c.out = reply.New(c.w, c.g.cfg.WriteTimeout)
	if strings.HasPrefix(kind, "text/event-stream") {
		c.out.Head()
	}
	for _, name := range passedHeader {
		if value := passed.Header.Get(name); value != "" {
			c.w.Header().Set(name, value)
		}
	}
	c.setSource()
	if c.body != nil {
		c.body.free()
	}
	defer c.exchange.deliver(func() openai.Usage { return c.meter.Progress(c.call) })()
	c.g.stats.Streams.Add(1)
	defer c.g.stats.Streams.Add(-1)
	buffer := c.g.parts.Buffers.Get(reply.WritePiece / 2)
	defer c.g.parts.Buffers.Put(buffer)
	piece := buffer.B[:cap(buffer.B)]
	for {
		n, err := passed.Read(piece)
		_, _ = c.meter.Write(piece[:n]) // cannot fail
		if n > 0 {
			c.out.Write(piece[:n], whole) // a stream of events or sounds must not wait
		}
		if c.out.Gone {
			c.ctx.Leave()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = err
			}
			return nil
		}
	}
}

// record meters the answer, and ends it.
func (c *operationCall) record() *reply.Refusal {
	c.meterUsage()
	return c.finish()
}

// finish accounts for the answer, and ends it.
func (c *operationCall) finish() *reply.Refusal {
	c.account()
	c.claim.End(store.Unknown)
	switch {
	case c.err != nil && (c.out == nil || !c.out.Started):
		return c.g.refusalOf(c.err)
	case c.err != nil && c.call.Stream:
		f := c.g.faultOf(c.err)
		f.ID = c.entry.ID
		c.out.Write(openai.AppendFailure(nil, openai.Chat, statusOf(c.err), f, nil, 0), false)
	case c.err != nil:
		panic(http.ErrAbortHandler) // without the end, the client sees that a part is missing
	case c.out == nil:
		c.setSource()
		reply.Body(c.w, c.g.cfg.WriteTimeout, http.StatusOK, c.whole)
		c.overhead(0)
		return nil
	}
	c.out.End() // net/http sends what is not flushed yet
	return nil
}

// meterUsage sets the usage, also that of an answer that was cut, or that the upstream still makes.
func (c *operationCall) meterUsage() {
	u, failed := c.meter.Usage(c.call), (*upstream.Error)(nil)
	switch {
	case c.err == nil:
		c.answer.Usage = u
	case errors.As(c.err, &failed) && (failed.Late || failed.Sent && c.ctx.Gone()):
		failed.Usage = &u
	}
}
