package bot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"time"

	"dyno/services/bot/budget"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
)

// An upload is a form (RFC 7578) that a client has sent, in a temporary file: it can be large, its model may come last,
// and it can be sent again to another upstream. Free it.
type upload struct {
	kind   string            // Content-Type of body
	fields map[string]string // openai.CallFields
	size   int64
	file   func(to io.Writer, from io.Reader) error // writes what becomes of the file; nil leaves it as it is

	rest     *os.File // the parts without the model's, with the end of the form
	boundary string
	share    budget.Grant
}

// maxParts bounds the parts of a form.
const maxParts = 256

// readUpload reads a form. Its bytes count as held by key.
func (g *Gateway) readUpload(r *http.Request, key *apiKey) (*upload, *reply.Refusal) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, reply.Refuse(http.StatusUnsupportedMediaType, "", "content-type: want multipart/form-data with a boundary")
	}
	u, refused := g.newUpload(key, func(u *upload) error {
		return u.read(multipart.NewReader(http.MaxBytesReader(nil, r.Body, g.cfg.MaxUploadBytes), params["boundary"]))
	})
	if refused != nil {
		_ = r.Body.Close() // the answer must not wait for the rest
	}
	return u, refused
}

// newUpload returns a form that read reads.
func (g *Gateway) newUpload(key *apiKey, read func(*upload) error) (*upload, *reply.Refusal) {
	u, err := &upload{fields: map[string]string{}, share: g.uploads.Grant(&key.uploads)}, error(nil)
	if u.rest, err = os.CreateTemp("", "dyno-bot-upload-"); err == nil {
		err = os.Remove(u.rest.Name()) // it goes with the process, however that ends
	}
	if err == nil {
		err = read(u)
	}
	if err == nil {
		return u, nil
	}
	u.free()
	var long *http.MaxBytesError
	var file *os.PathError
	switch {
	case errors.As(err, &long):
		return nil, reply.Refuse(http.StatusRequestEntityTooLarge, "", "an upload has %d bytes at most", long.Limit)
	case errors.Is(err, budget.ErrFull):
		return nil, &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "overloaded", Text: "the uploads that are under way are too large", After: time.Second}
	case errors.As(err, &file):
		g.log.Error("an upload cannot be kept in a temporary file", "error", err)
		return nil, reply.Refuse(http.StatusServiceUnavailable, "", "uploads cannot be kept now")
	}
	return nil, badField(err)
}

// Write keeps a piece of the form.
func (u *upload) Write(p []byte) (int, error) {
	if !u.share.Hold(u.size + int64(len(p))) {
		return 0, budget.ErrFull
	}
	n, err := u.rest.Write(p)
	u.size += int64(n)
	return n, err
}

// read reads a form, part by part.
func (u *upload) read(from *multipart.Reader) error {
	to := multipart.NewWriter(u)
	u.kind, u.boundary = to.FormDataContentType(), to.Boundary()
	for n := 0; ; n++ {
		part, err := from.NextRawPart()
		if err == io.EOF { //nolint:errorlint // a form that is cut has this error within another
			return to.Close()
		}
		if err != nil {
			return fmt.Errorf("read the form: %w", err)
		}
		if n == maxParts {
			return &openai.RequestError{Field: "body", Text: fmt.Sprintf("a form has %d parts at most", maxParts)}
		}
		if err := u.readPart(part, to); err != nil {
			return fmt.Errorf("read the form: %w", err)
		}
	}
}

// readPart keeps a part, except for the model's. It notes the fields that the gateway reads.
func (u *upload) readPart(part *multipart.Part, to *multipart.Writer) error {
	name, from := part.FormName(), io.Reader(part)
	if name == "" { // others may read a name there
		return &openai.RequestError{Field: "body", Text: "a part has no name, or several"}
	}
	if most, known := openai.CallFields[name]; known {
		value, err := io.ReadAll(io.LimitReader(part, most+1))
		_, twice := u.fields[name]
		switch {
		case err != nil:
			return err
		case int64(len(value)) > most || twice:
			return &openai.RequestError{Field: name, Text: fmt.Sprintf("want it once, with at most %d bytes", most)}
		}
		if u.fields[name] = string(value); name == "model" {
			return nil
		}
		from = bytes.NewReader(value)
	}
	w, err := to.CreatePart(part.Header)
	if err == nil && u.file != nil && name == "file" {
		return u.file(w, from)
	}
	if err == nil {
		_, err = io.Copy(w, from)
	}
	return err
}

// body returns the form with a name of the model; "" leaves it out.
func (u *upload) body(model string) (io.Reader, int64) {
	if model == "" {
		return io.NewSectionReader(u.rest, 0, u.size), u.size
	}
	first := fmt.Appendf(nil, "--%s\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n%s\r\n", u.boundary, model)
	return io.MultiReader(bytes.NewReader(first), io.NewSectionReader(u.rest, 0, u.size)), u.size + int64(len(first))
}

// free removes the file; nil has none.
func (u *upload) free() {
	if u == nil {
		return
	}
	u.share.Keep(0)
	if u.rest != nil {
		_ = u.rest.Close() // it has no name, and is gone
	}
}
