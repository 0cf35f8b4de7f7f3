package upstream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"dyno/services/bot/budget"
	"dyno/services/bot/dialect/embedding"
	"dyno/services/bot/openai"
	"dyno/services/internal/trace"
)

// A Passing is a request that passes to an upstream as it is, apart from the model's name. Only upstreams of OpenAI's
// own dialects get it, or, of embeddings, those that have them.
type Passing struct {
	// Request has the model, whether the answer is a stream, and an estimate of the tokens.
	Request *openai.Request
	Method  string // "" is POST
	Path    string // below the URL of a provider, with its query
	Type    string // of the body
	Beta    string // the header field OpenAI-Beta; "" is none
	// Form is that of a request for embeddings, which is translated for an upstream of another one.
	Form embedding.Form
	// At is the deployment that keeps what the request is about, and alone gets it; "" asks those of the model.
	At string
	// Body returns the body with an upstream's name of the model, and its length. It is called for each attempt. A body
	// may still be read when Forward returns.
	Body func(model string) (io.Reader, int64)
}

// A Passed is the answer to a Passing, for one goroutine. Errors are as those of Forward.
type Passed struct {
	Header http.Header
	// Translate returns a whole answer of this usage in the client's form; nil passes it as it is.
	Translate func(body []byte, u openai.Usage) ([]byte, error)

	call     *call
	model    string
	attempts int
	text     *bufio.Reader
	whole    bool // it was read to its end
}

// Forward passes a request on, and returns the answer when its first byte has come. Until then it asks other upstreams
// after a failure. The error is an *Error, which is ctx's if that has ended.
func (p *Pool) Forward(ctx context.Context, f *Passing, of *Tenant) (*Answer, error) {
	a, err := p.askFor(ctx, &want{request: f.Request, passing: f, of: of})
	if err == nil {
		a.Passed.attempts = a.Attempts
	}
	return a, err
}

// kept reports whether a request is about what one deployment keeps.
func (w *want) kept() bool { return w.passing != nil && w.passing.At != "" }

// Keeper returns the first deployment that keeps what a client stores: of a model, or of any for "", that the client may
// use. Providers with Files come first. It also returns the provider's name of the model. at is "" if there is none.
func (p *Pool) Keeper(model string, may func(model string) bool) (at, own string) {
	all := slices.DeleteFunc(slices.Clone(p.targets), func(t *target) bool {
		return !t.provider.vendor.keeps || model != "" && !t.Serves(model) || !slices.ContainsFunc(t.Names, may)
	})
	if len(all) == 0 {
		return "", ""
	}
	t := all[max(0, slices.IndexFunc(all, func(t *target) bool { return t.provider.Files }))]
	return t.Name, t.own(model)
}

// takers returns the deployments that get a request.
func (f *Passing) takers(all []*target) []*target {
	return slices.DeleteFunc(slices.Clone(all), func(t *target) bool {
		return f.Form == embedding.None && !t.provider.vendor.passes || f.Form != embedding.None && t.provider.vendor.embeds == embedding.None
	})
}

// forward asks one upstream.
func (p *Pool) forward(ctx context.Context, s slot, again bool, w *want) (_ *Answer, failure *Error) {
	t, f, began := s.target, w.passing, time.Now()
	c := p.newCall(ctx, s, again, w)
	defer func() { c.endFailed(ctx, failure) }()
	model := t.own(w.model)
	send, failure := c.address(f, model)
	if failure != nil {
		return nil, failure
	}
	body, length := send(model)
	if length == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(c.traced(), cmp.Or(f.Method, http.MethodPost), "", body)
	if err != nil {
		return nil, &Error{Status: http.StatusBadGateway, Text: errUnreached.Error(), err: err}
	}
	req.URL, req.Host, req.ContentLength = c.to, c.to.Host, length
	req.GetBody = func() (io.ReadCloser, error) {
		again, _ := send(model)
		return io.NopCloser(again), nil
	}
	req.Header.Set("Content-Type", f.Type)
	req.Header.Set("Accept-Encoding", "identity")
	if f.Beta != "" {
		req.Header.Set("OpenAI-Beta", f.Beta)
	}
	trace.Inject(c.ctx, req.Header)
	t.provider.authorize(req.Header, nil)
	wait := t.Total // the end of the call comes first
	if f.Request.Stream {
		wait = t.FirstByte
	}
	c.timer = time.AfterFunc(wait, c.silent)
	resp, err := t.provider.via.RoundTrip(req) //nolint:bodyclose // the call closes it at its end
	if err != nil {
		return nil, c.fault(fmt.Errorf("%w: %w", errUnreached, err))
	}
	text, failure := c.receive(resp)
	if failure != nil {
		return nil, failure
	}
	a := &Passed{Header: resp.Header, call: c, model: w.model, text: bufio.NewReader(text)}
	if _, err := a.text.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return nil, c.fault(err)
	}
	if form, own := f.Form, t.provider.vendor.embeds; c.embeds != nil {
		a.Translate = func(body []byte, u openai.Usage) ([]byte, error) {
			vectors, err := own.ReadAnswer(c.embeds, body)
			if err != nil {
				return nil, a.failed(c.fault(err))
			}
			return form.AppendAnswer(nil, c.embeds, vectors, u), nil
		}
	}
	c.started.Store(true)
	c.timer.Stop()
	t.took(time.Since(began))
	if c.decides() { // others must not wait for its end
		c.good()
	}
	return &Answer{Upstream: t.Name, Prices: t.Price, Header: passedOn(resp.Header), Dropped: c.dropped, Passed: a}, nil
}

// address sets the URL of a request to a model, and returns its body in the deployment's form.
func (c *call) address(f *Passing, model string) (func(model string) (io.Reader, int64), *Error) {
	t, form, send := c.target, f.Form, f.Body
	if own := t.provider.vendor.embeds; form != embedding.None && (form == embedding.OpenAI) != (own == embedding.OpenAI) {
		from, _ := send(f.Request.Model)
		said, _ := io.ReadAll(from) // it is in memory
		r, err := form.ReadRequest(said)
		if err == nil {
			r.Request, c.dropped, err = r.Fit(own, t.drop)
		}
		if err != nil {
			return nil, unfit(err)
		}
		body := own.AppendRequest(nil, r, model)
		c.embeds, form, send = r, own, func(string) (io.Reader, int64) { return bytes.NewReader(body), int64(len(body)) }
	}
	return send, c.locate(t, cmp.Or(form.Path(model), t.passPath(f, model)))
}

// passPath returns the path for a request.
func (t *target) passPath(f *Passing, model string) string {
	if t.provider.Dialect == Azure && t.provider.Query[apiVersion] != "" && f.At == "" {
		return "/deployments/" + url.PathEscape(model) + f.Path
	}
	return f.Path
}

// Read implements io.Reader. After an error other than io.EOF, the answer is not complete.
func (a *Passed) Read(b []byte) (int, error) {
	c := a.call
	c.timer.Reset(c.target.Idle)
	n, err := a.text.Read(b)
	c.timer.Stop() // however long it takes to pass it on
	switch {
	case err == nil:
		c.note(b[:n])
		return n, nil
	case errors.Is(err, io.EOF):
		a.whole = true
		return n, io.EOF
	}
	e := c.fault(err)
	e.unclear = errors.Is(e.err, errTotal) // the reader may be slow
	if cause := context.Cause(c.ctx); cause != nil && !isLate(cause) {
		e = (&Error{}).left(0, "", c.ctx.Err())
		e.idle = true
	}
	c.end(context.Background(), e)
	return n, a.failed(e)
}

// failed is e as the error of this answer: the upstream has worked on it.
func (a *Passed) failed(e *Error) *Error {
	e.Upstream, e.Model, e.Attempts, e.Sent, e.Late = a.call.target.Name, a.model, a.attempts, true, true
	return e
}

// ReadWhole reads an answer of at most a number of bytes, which share holds.
func (a *Passed) ReadWhole(most int64, share *budget.Grant, also io.Writer) ([]byte, error) {
	body, err := io.ReadAll(share.Reader(io.LimitReader(io.TeeReader(a, also), most+1)))
	switch {
	case errors.Is(err, budget.ErrFull):
		return nil, a.failed(Crowded(0))
	case err != nil:
		return nil, err
	case int64(len(body)) > most:
		return nil, a.failed(tooLarge(most))
	}
	return body, nil
}

// Close ends the call, and aborts an answer that was not read to its end.
func (a *Passed) Close(used openai.Usage) {
	a.call.used(used)
	if a.whole {
		a.call.end(a.call.ctx, nil)
	}
	a.call.end(a.call.ctx, &Error{Text: "left", idle: true})
}
