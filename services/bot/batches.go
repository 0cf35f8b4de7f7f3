package bot

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"dyno/internal/strict"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
)

// maxBatchTokens bounds the estimate of a batch: its price must not overflow.
const maxBatchTokens = 1 << 32

// readLines reads the requests of a batch. They get the upstream's name of the model.
func (c *objectCall) readLines() (refused *reply.Refusal) {
	form := c.upload
	defer form.free()
	own := ""
	c.checked = map[openai.Reference]bool{}
	c.upload, refused = c.g.newUpload(c.who.key, func(u *upload) error {
		u.file = func(to io.Writer, from io.Reader) error {
			lines := bufio.NewScanner(from)
			lines.Buffer(nil, int(c.g.cfg.MaxBodyBytes))
			n := 1
			for ; lines.Scan(); n++ {
				text, refused := c.readLine(lines.Bytes(), &own)
				if refused != nil {
					return &openai.RequestError{Field: "file", Text: fmt.Sprintf("line %d: %s", n, refused.Text)}
				}
				if _, err := to.Write(append(text, '\n')); err != nil {
					return err
				}
			}
			if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
				return &openai.RequestError{Field: "file", Text: fmt.Sprintf("line %d: has more than %d bytes", n, c.g.cfg.MaxBodyBytes)}
			}
			return lines.Err()
		}
		return u.read(multipart.NewReader(io.NewSectionReader(form.rest, 0, form.size), form.boundary))
	})
	return refused
}

// readLine reads a request of a batch, and returns it with the upstream's own name of its model, which all have.
func (c *objectCall) readLine(text []byte, own *string) ([]byte, *reply.Refusal) {
	g, key, o := c.g, c.who.key, &c.object
	text, masked := g.in.JSON(text)
	g.stats.Masked("in", masked)
	var line struct {
		ID     string          `json:"custom_id"`
		Method string          `json:"method"`
		URL    string          `json:"url"`
		Body   json.RawMessage `json:"body"`
	}
	if refused := g.decode(text, strict.Names("custom_id", "method", "url", "body"), &line); refused != nil {
		return nil, refused
	}
	q, err := g.parts.Codec.ParseCall(&openai.Operation{Path: strings.TrimPrefix(line.URL, "/v1"), Answers: true}, "", line.Body)
	switch {
	case err != nil:
		return nil, badField(err)
	case o.Model != "" && o.Model != q.Model:
		return nil, reply.Refuse(http.StatusBadRequest, "", "model: %q is not that of the lines before, %q", q.Model, o.Model)
	case !key.pool.Has(q.Model) || !key.mayUse(q.Model):
		return nil, refusedModel(q.Model)
	}
	if refused := c.readReferences(line.Body); refused != nil {
		return nil, refused
	}
	if o.Upstream, *own = key.pool.Keeper(q.Model, key.mayUse); o.Upstream == "" {
		return nil, reply.Refuse(http.StatusNotFound, "", "model: no upstream of %q keeps files and batches", q.Model)
	}
	o.Model, o.Prompt = q.Model, min(o.Prompt+int64(q.Estimate.Prompt), maxBatchTokens)
	o.Completion = min(o.Completion+int64(cmp.Or(q.Estimate.Completion, g.cfg.ReplyTokens)), maxBatchTokens)
	line.Body = q.Body(*own)
	text, err = g.parts.Codec.JSON.Append(nil, line)
	return text, badField(err)
}

// readReferences checks the IDs in a request of a batch, whatever its path. Many lines may have the same.
func (c *objectCall) readReferences(body []byte) *reply.Refusal {
	list, err := c.g.parts.Codec.References(openai.Response, body)
	if err != nil {
		return badField(err)
	}
	list = slices.DeleteFunc(list, func(r openai.Reference) bool {
		was := c.checked[r]
		c.checked[r] = true // a fault ends the batch
		return was
	})
	_, refused := c.g.refer(c.r.Context(), c.who, list)
	return refused
}

// readBatch finds the input of a batch, whose requests were read when it was uploaded.
func (c *objectCall) readBatch() *reply.Refusal {
	var v struct {
		Input string `json:"input_file_id"`
	}
	if refused := c.g.decode(c.sent, strict.Names("input_file_id"), &v); refused != nil {
		return refused
	}
	in, _, refused := c.g.object(c.r.Context(), c.who.own(openai.File, v.Input), "input_file_id")
	switch {
	case refused != nil:
		return refused
	case in.Model == "":
		return badField(&openai.RequestError{Field: "input_file_id", Text: "want a file that was uploaded with the purpose batch"})
	case !c.who.key.mayUse(in.Model):
		return refusedModel(in.Model)
	}
	c.object.Upstream, c.object.Model, c.free = in.Upstream, in.Model, false
	c.estimate = openai.Usage{Prompt: int(in.Prompt), Completion: int(in.Completion), Estimated: true}
	return nil
}
