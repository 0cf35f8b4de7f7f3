// Package har imports recordings of browsers (HAR).
package har

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dyno/cli/imports/correlate"
	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// Format is the format of recordings.
func Format() draft.Format {
	return draft.Format{Name: "har", About: "a recording of a browser (HAR 1.2)", Most: draft.MaxRecord, Recording: true, Form: form, Read: read}
}

var form = lazyregexp.New(`\A\s*\{\s*"log"\s*:\s*\{`)

// A recording is a file of the form HAR, as far as requests go.
type recording struct {
	Log struct {
		Entries []draft.Located[recorded] `json:"entries"`
	} `json:"log"`
}

// A recorded request is an entry of a recording.
type recorded struct {
	Started string  `json:"startedDateTime"`
	Time    float64 `json:"time"` // in milliseconds
	Request struct {
		Method  string        `json:"method"`
		URL     string        `json:"url"`
		Headers []draft.Field `json:"headers"`
		Cookies []draft.Field `json:"cookies"`
		Size    int           `json:"bodySize"` // -1: it is not known
		Body    *struct {
			Kind     string        `json:"mimeType"`
			Text     string        `json:"text"`
			Encoding string        `json:"encoding"`
			Params   []draft.Field `json:"params"`
		} `json:"postData"`
	} `json:"request"`
	Response struct {
		Status  int           `json:"status"`
		Headers []draft.Field `json:"headers"`
		Content struct {
			Kind     string `json:"mimeType"`
			Text     string `json:"text"`
			Encoding string `json:"encoding"`
		} `json:"content"`
	} `json:"response"`
}

// read reads a recording. Requests follow one another; the pause between a response and the next request is kept.
func read(d *draft.Draft, src []byte) error {
	var r recording
	if err := draft.ParseJSON(src, &r, "a recording (HAR)"); err != nil {
		return err
	}
	if len(r.Log.Entries) == 0 {
		return errors.New("this is not a recording (HAR), or an empty one: there is nothing in log.entries")
	}
	d.Pass = true
	var all []draft.Recorded
	for i := range r.Log.Entries {
		e := &r.Log.Entries[i].Value
		if request, ok := requestOf(d, e, r.Log.Entries[i].Line(d)); ok {
			began, _ := time.Parse(time.RFC3339Nano, e.Started) // else it is not known
			all = append(all, draft.Recorded{
				Request: request, Kind: e.Response.Content.Kind, Status: e.Response.Status,
				Began: began, Took: time.Duration(e.Time * float64(time.Millisecond)), Response: responseOf(e),
			})
		}
	}
	d.AddRecorded(all, func(int, *scenario.Step) {})
	return nil
}

// responseOf returns the response of an entry.
func responseOf(e *recorded) correlate.Response {
	r := correlate.Response{Body: e.Response.Content.Text}
	for _, h := range e.Response.Headers {
		for value := range strings.SplitSeq(h.Value, "\n") { // as some write several fields of a name
			r.Header = append(r.Header, scenario.Header{Name: h.Name, Value: value})
		}
	}
	if e.Response.Content.Encoding == "base64" {
		body, _ := base64.StdEncoding.DecodeString(r.Body) // up to what is none
		r.Body = string(body)
	}
	return r
}

// requestOf returns the request of an entry. It is not ok if its body is not known.
func requestOf(d *draft.Draft, e *recorded, line int) (r draft.Request, ok bool) {
	r = draft.Request{Line: line, Method: e.Request.Method, URL: e.Request.URL}
	for _, h := range e.Request.Headers {
		r.AddHeader(h.Name, h.Value)
	}
	if b := e.Request.Body; b != nil {
		r.Body = []byte(b.Text)
		if b.Encoding == "base64" {
			body, err := base64.StdEncoding.DecodeString(b.Text)
			if err != nil {
				d.Leave(line, r.Method+" "+r.URL, "the body is not base64", "")
				return r, false
			}
			r.Body = body
		}
		if len(r.Body) == 0 && len(b.Params) > 0 {
			if strings.HasPrefix(b.Kind, "multipart/") {
				d.Leave(line, r.Method+" "+r.URL, "the recording does not have the form as it was sent: the request has no body", "give the step a body")
			} else {
				r.Body = []byte(draft.EncodeForm(b.Params))
			}
		}
		if b.Kind != "" {
			r.DefaultHeader("Content-Type", b.Kind)
		}
	}
	if len(e.Request.Cookies) > 0 && !r.HasHeader("Cookie") {
		var pairs []string
		for _, c := range e.Request.Cookies {
			pairs = append(pairs, c.Name+"="+c.Value)
		}
		r.AddHeader("Cookie", strings.Join(pairs, "; "))
	}
	size := e.Request.Size
	for _, h := range r.Headers {
		if n, err := strconv.Atoi(h.Value); err == nil && strings.EqualFold(h.Name, "Content-Length") {
			size = n
		}
	}
	if size > len(r.Body) {
		d.Leave(line, r.Method+" "+r.URL, fmt.Sprintf("the recording has %d bytes of a body that had %d", len(r.Body), size), "give the step the whole body")
	}
	return r, true
}
