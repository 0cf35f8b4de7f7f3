package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/embedding"
	"dyno/services/bot/openai"
)

// A question is what an upstream is asked: the body, and where.
type question struct {
	body []byte
	to   *url.URL
	// header has fields of the client's that servers of its form get.
	header map[string]string
	// client is the form to which the answer is translated; nil passes it as it is.
	client  dialect.Client
	request *dialect.Request
	embeds  *embedding.Request // that is translated; nil passes it as it is
	dropped []string           // the client's fields that the upstream does not get
}

// question returns what a deployment is asked. The error is that of a request that its dialect cannot express.
func (t *target) question(w *want, options bool) (*question, *Error) {
	r, model := w.request, t.own(w.model)
	q := &question{}
	if t.provider.native[r.Endpoint] {
		q.body, q.to, q.header = r.Body(model, t.bound, options), t.urls[r.Endpoint], r.Header
		if q.to != nil {
			return q, nil
		}
		return q, q.locate(t, t.path(r.Endpoint, model, r.Stream))
	}
	q.client = clients[r.Endpoint]
	if w.neutral == nil && w.unread == nil {
		w.neutral, w.unread = q.client.ReadRequest(r.Encoded())
		if w.neutral != nil {
			w.neutral.IncludeUsage = true // the gateway needs it, and leaves it out for clients that do not
			if w.neutral.MaxTokens == 0 && r.Added() {
				w.neutral.MaxTokens = r.MaxTokens
			}
		}
	}
	if w.unread != nil {
		return nil, unfit(w.unread)
	}
	var err error
	if q.request, q.dropped, err = w.neutral.Fit(t.form, t.drop); err != nil {
		return nil, unfit(err)
	}
	if q.body, err = t.form.AppendRequest(nil, q.request, model); err != nil {
		return nil, unfit(err)
	}
	return q, q.locate(t, t.form.Path(model, r.Stream))
}

// locate sets the URL.
func (q *question) locate(t *target, path string) *Error {
	var err error
	if q.to, err = t.provider.at(path); err != nil {
		return &Error{Status: http.StatusBadGateway, Text: errUnreached.Error(), err: err}
	}
	return nil
}

// unfit is the error of a request that an upstream's dialect cannot express. Another one may.
func unfit(err error) *Error {
	e := &Error{Status: http.StatusBadRequest, Text: err.Error(), err: err, elsewhere: true, once: true}
	var unsaid *dialect.Unsaid
	var fault *dialect.FieldError
	switch {
	case errors.As(err, &unsaid):
		e.Param = unsaid.Field
	case errors.As(err, &fault):
		e.Param = fault.Field
	}
	return e
}

// translated reads a stream of server-sent events in the client's form from one in an upstream's.
type translated struct {
	next   func() (openai.Frame, error)
	reader dialect.Reader
	writer dialect.Writer
	b      []byte // written, and not read yet from at on
	at     int
	err    error // the end, after b
	stream *Stream
}

// Read implements io.Reader.
func (t *translated) Read(p []byte) (int, error) {
	for t.at == len(t.b) {
		if t.err != nil {
			return 0, t.err
		}
		t.b, t.at = t.b[:0], 0
		f, err := t.next()
		switch {
		case err == nil:
			t.err = t.reader.Read(f, t.say)
		case errors.Is(err, io.EOF):
			if t.err = t.reader.End(t.say); t.err == nil {
				t.err = io.EOF
			}
		default:
			t.err = err
		}
	}
	n := copy(p, t.b[t.at:])
	t.at += n
	return n, nil
}

func (t *translated) say(e *dialect.Event) {
	if e.Kind == dialect.Begin {
		date(&e.Answer)
		if u := e.Answer.Usage; u != nil { // the client's form may have it only at the end
			t.stream.usage.Store(&openai.Usage{Prompt: u.Prompt, Cached: u.Cached, CacheWrite: u.CacheWrite, PromptAudio: u.PromptAudio, PromptImage: u.PromptImage, Estimated: true})
		}
	}
	t.b = t.writer.Append(t.b, e)
}

// date sets when the answer began, which OpenAI's forms require, where the upstream's does not have it.
func date(a *dialect.Answer) {
	if a.Created == 0 {
		a.Created = time.Now().Unix()
	}
}

// translate returns a stream in the client's form.
func (c *call) translate(from io.Reader, stream *Stream) io.Reader {
	t := &translated{stream: stream, reader: c.target.form.NewReader(), writer: c.client.NewWriter(c.question.request)}
	most := int(c.pool.cfg.MaxEventBytes)
	if c.target.provider.vendor.lines {
		t.next = lines(from, most)
		return t
	}
	r := openai.NewReader(from)
	r.Most, r.Alive, t.next = most, stream.alive, r.Next
	return t
}

// lines returns a function that reads one line of JSON after the other; blank ones are skipped.
func lines(from io.Reader, most int) func() (openai.Frame, error) {
	s := bufio.NewScanner(from)
	s.Buffer(nil, most)
	s.Split(func(data []byte, end bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, end)
		if end && n == len(data) && n == len(line) && n > 0 && !json.Valid(line) {
			return 0, nil, openai.ErrCut // in the middle of a line
		}
		return n, line, err
	})
	return func() (openai.Frame, error) {
		for s.Scan() {
			if line := bytes.TrimSpace(s.Bytes()); len(line) > 0 {
				return openai.Frame{Data: line}, nil
			}
		}
		switch err := s.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return openai.Frame{}, fmt.Errorf("%w than %d bytes", openai.ErrLarge, most)
		case err != nil:
			return openai.Frame{}, err
		}
		return openai.Frame{}, io.EOF
	}
}

// translateWhole returns a whole answer in the client's form.
func (c *call) translateWhole(body []byte) ([]byte, error) {
	a, err := c.target.form.ReadAnswer(body)
	if err != nil {
		return nil, err
	}
	date(a)
	return c.client.AppendAnswer(nil, c.question.request, a), nil
}
