package imports

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dyno/load/pace"
	"dyno/load/scenario"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A located value knows where in its file it begins.
type located[T any] struct {
	offset int64
	value  T
}

// UnmarshalJSONFrom reads the value.
func (l *located[T]) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	l.offset = from.InputOffset()
	return json.UnmarshalDecode(from, &l.value)
}

// line returns the line in which the value begins: the first that is not blank or a comma.
func (l *located[T]) line(d *draft) int {
	at := l.offset
	for at < int64(len(d.src)) && strings.IndexByte(" \t\r\n,", d.src[at]) >= 0 {
		at++
	}
	return d.lineAt(at)
}

// parseJSON reads a file in JSON. The error says where it is no JSON, or not of this form.
func parseJSON(src []byte, into any, form string) error {
	if err := json.Unmarshal(src, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		var (
			syntactic *jsontext.SyntacticError
			semantic  *json.SemanticError
		)
		switch {
		case errors.As(err, &syntactic):
			return fmt.Errorf("line %d: this is not %s: %w", lineAt(src, syntactic.ByteOffset), form, err)
		case errors.As(err, &semantic):
			return fmt.Errorf("line %d: this is not %s: %w", lineAt(src, semantic.ByteOffset), form, err)
		}
		return fmt.Errorf("this is not %s: %w", form, err)
	}
	return nil
}

// A recording is a file of the form HAR, as far as requests go.
type recording struct {
	Log struct {
		Entries []located[recorded] `json:"entries"`
	} `json:"log"`
}

// A recorded request is an entry of a recording.
type recorded struct {
	Started string  `json:"startedDateTime"`
	Time    float64 `json:"time"` // in milliseconds
	Request struct {
		Method  string  `json:"method"`
		URL     string  `json:"url"`
		Headers []field `json:"headers"`
		Cookies []field `json:"cookies"`
		Size    int     `json:"bodySize"` // -1: it is not known
		Body    *struct {
			Kind     string  `json:"mimeType"`
			Text     string  `json:"text"`
			Encoding string  `json:"encoding"`
			Params   []field `json:"params"`
		} `json:"postData"`
	} `json:"request"`
	Response struct {
		Status int `json:"status"`
	} `json:"response"`
}

// readHAR reads a recording. Requests follow one another; the pause between a response and the next request is kept.
func readHAR(d *draft, src []byte) error {
	var r recording
	if err := parseJSON(src, &r, "a recording (HAR)"); err != nil {
		return err
	}
	if len(r.Log.Entries) == 0 {
		return errors.New("this is not a recording (HAR), or an empty one: there is nothing in log.entries")
	}
	d.pass = true
	var end time.Time // of the last request that was carried over
	overlap, overlaps := 0, 0
	for i := range r.Log.Entries {
		e := &r.Log.Entries[i].value
		line := r.Log.Entries[i].line(d)
		start, err := time.Parse(time.RFC3339Nano, e.Started)
		if err == nil && !end.IsZero() {
			if pause := start.Sub(end).Round(time.Millisecond); pause > 0 {
				d.think(pace.Think{Constant: pause})
			} else if pause < 0 {
				if overlaps++; overlap == 0 {
					overlap = line
				}
			}
		}
		if step := d.recorded(e, line); step == nil || err != nil {
			continue
		}
		if until := start.Add(time.Duration(e.Time * float64(time.Millisecond))); until.After(end) {
			end = until
		}
	}
	if overlaps > 0 {
		d.leave(overlap, fmt.Sprintf("%d requests", overlaps), "they began before others had ended; a user sends one after the other", "more users (load.closed.connections) send at the same time")
	}
	return nil
}

// recorded adds the step of an entry; nil if there is none.
func (d *draft) recorded(e *recorded, line int) *scenario.Step {
	r := request{line: line, method: e.Request.Method, url: e.Request.URL}
	for _, h := range e.Request.Headers {
		r.headers = append(r.headers, scenario.Header{Name: h.Name, Value: h.Value})
	}
	if b := e.Request.Body; b != nil {
		r.body = []byte(b.Text)
		if b.Encoding == "base64" {
			body, err := base64.StdEncoding.DecodeString(b.Text)
			if err != nil {
				d.leave(line, r.method+" "+r.url, "the body is not base64", "")
				return nil
			}
			r.body = body
		}
		if len(r.body) == 0 && len(b.Params) > 0 {
			if strings.HasPrefix(b.Kind, "multipart/") {
				d.leave(line, r.method+" "+r.url, "the recording does not have the form as it was sent: the request has no body", "give the step a body")
			} else {
				r.body = []byte(encodeForm(b.Params))
			}
		}
		if b.Kind != "" && !hasHeader(r.headers, "Content-Type") {
			r.headers = append(r.headers, scenario.Header{Name: "Content-Type", Value: b.Kind})
		}
	}
	if len(e.Request.Cookies) > 0 && !hasHeader(r.headers, "Cookie") {
		var pairs []string
		for _, c := range e.Request.Cookies {
			pairs = append(pairs, c.Name+"="+c.Value)
		}
		r.headers = append(r.headers, scenario.Header{Name: "Cookie", Value: strings.Join(pairs, "; ")})
	}
	size := e.Request.Size
	for _, h := range r.headers {
		if n, err := strconv.Atoi(h.Value); err == nil && strings.EqualFold(h.Name, "Content-Length") {
			size = n
		}
	}
	if size > len(r.body) {
		d.leave(line, r.method+" "+r.url, fmt.Sprintf("the recording has %d bytes of a body that had %d", len(r.body), size), "give the step the whole body")
	}
	step := d.add(r)
	if status := e.Response.Status; step != nil && status >= 400 && status <= 599 {
		step.Status = fmt.Sprint(status) // else the same answer would be a failure
	}
	return step
}
