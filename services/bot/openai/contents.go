package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// This file reads requests, answers and streams of Google's Gemini API (API reference of v1beta, 2026-11).

// configField has the options of a request of the Gemini API.
const configField = "generationConfig"

// ParseContents parses a request of Contents or ContentTokens, of whose path the model is, and whether it is a stream. The
// error is a *RequestError.
func (c Codec) ParseContents(e Endpoint, model string, stream bool, body []byte) (*Request, error) {
	return c.parse(e, body, map[string]json.RawMessage{"model": c.appendString(nil, model), "stream": strconv.AppendBool(nil, stream)})
}

var underscore = regexp.MustCompile(`_[a-z]`)

// InCamel returns a name such as max_tokens as maxTokens: Google's servers accept both.
func InCamel(name string) string {
	return underscore.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
}

// InCamels renames an object's fields; twice is one that is there in both forms.
func InCamels(fields map[string]json.RawMessage) (renamed map[string]json.RawMessage, twice string) {
	renamed = make(map[string]json.RawMessage, len(fields))
	for name, value := range fields {
		if name = InCamel(name); renamed[name] != nil {
			twice = name
		}
		renamed[name] = value
	}
	return renamed, twice
}

// configure reads the options.
func (r *Request) configure() (err error) {
	var twice string
	r.options, twice = InCamels(r.options)
	for name, to := range map[string]*int{"maxOutputTokens": &r.MaxTokens, "candidateCount": &r.Choices} {
		n, ok := whole(r.options[name])
		if ok {
			*to = n
		}
		if there := len(r.options[name]) > 0 && string(r.options[name]) != "null"; there && (!ok || n > maxTokens) || name == twice {
			err = &RequestError{configField + "." + name, fmt.Sprintf("must be one number from 1 to %d", maxTokens)}
		}
	}
	return err
}

// hidden are fields for what the vendor adds to a request: files, and results of its tools. In JSON no text has them in
// quotes.
var hidden = regexp.MustCompile(`"(file_?[dD]ata|google_?\w+|code_?[eE]xecution|url_?[cC]ontext|file_?[sS]earch|computer_?[uU]se|mcp_?[sS]ervers)"`)

// pick reads an object, or null: values by the names of their fields.
func (s *scanner) pick(of map[string]func() bool) bool {
	return s.object(func(name []byte) bool {
		if read := of[string(name)]; read != nil {
			return read()
		}
		return s.skip()
	})
}

// contentUsage parses the usage of an answer, in which thoughts are not among the answer's tokens.
func contentUsage(value []byte) *Usage {
	s, u, tools := scanner{b: value}, Usage{}, 0
	kind := func(to *int) func() bool { return func() bool { return s.kind(to) } }
	ok := s.sees() == '{' && s.pick(map[string]func() bool{
		"promptTokenCount": kind(&u.Prompt), "toolUsePromptTokenCount": kind(&tools), "cachedContentTokenCount": kind(&u.Cached),
		"candidatesTokenCount": kind(&u.Completion), "thoughtsTokenCount": kind(&u.Reasoning),
		"promptTokensDetails":     func() bool { return s.modalities(&u.PromptAudio, &u.PromptImage) },
		"candidatesTokensDetails": func() bool { return s.modalities(&u.CompletionAudio, &u.CompletionImage) },
	})
	if !ok || !s.end() || u == (Usage{}) {
		return nil
	}
	u.Prompt, u.Completion = u.Prompt+tools, u.Completion+u.Reasoning
	return &u
}

// modalities reads a list of tokens by their kinds, or null.
func (s *scanner) modalities(audio, image *int) bool {
	return s.null() || s.array(func() bool {
		kind, n := "", 0
		ok := s.pick(map[string]func() bool{
			"modality":   func() (ok bool) { kind, ok = s.stringValue(); return ok },
			"tokenCount": func() (ok bool) { n, ok = s.number(); return ok },
		})
		if to := map[string]*int{"AUDIO": audio, "IMAGE": image}[kind]; to != nil {
			*to = n
		}
		return ok
	})
}

// contentPart reads a part of an answer, and adds its text, unless it is a thought, and the bytes of the model's output.
func (s *scanner) contentPart(d *Delta, v *Event) bool {
	text, thought := "", false
	made := func(per int) func() bool {
		return func() bool {
			n, ok := s.made()
			v.Bytes += n / per
			return ok
		}
	}
	ok := s.pick(map[string]func() bool{
		"text":         func() (ok bool) { text, ok = s.stringValue(); return ok },
		"thought":      func() bool { thought = s.sees() == 't'; return s.skip() },
		"functionCall": made(1), "executableCode": made(1), "inlineData": made(perTextByte),
	})
	if v.Bytes += textBytes(text); !thought {
		d.Text += text
	}
	return ok
}

// candidate reads one of the answers of a request.
func (s *scanner) candidate(v *Event) bool {
	d, ended := Delta{}, 0
	ok := s.pick(map[string]func() bool{
		"index":        func() (ok bool) { d.Choice, ok = s.number(); return ok },
		"finishReason": func() (ok bool) { ended, ok = s.size(); return ok },
		"content": func() bool {
			return s.pick(map[string]func() bool{"parts": func() bool {
				return s.null() || s.array(func() bool { return s.contentPart(&d, v) })
			}})
		},
	})
	if d.Text != "" {
		v.Deltas = append(v.Deltas, d)
	}
	if ended > 0 {
		v.Ended = append(v.Ended, d.Choice)
	}
	return ok
}

// parseContents reads an event, whose form is that of a whole answer. It reports whether it has an answer.
func (v *Event) parseContents(c Codec, data []byte) (there bool, err error) {
	s, failed, blocked := scanner{b: data}, false, 0
	ok := s.pick(map[string]func() bool{
		"candidates":    func() bool { return s.null() || s.array(func() bool { there = true; return s.candidate(v) }) },
		"usageMetadata": func() bool { return s.usage(contentUsage, &v.Usage) },
		"error":         func() bool { value, ok := s.value(); failed = says(value); return ok },
		"promptFeedback": func() bool {
			return s.pick(map[string]func() bool{"blockReason": func() (ok bool) { blocked, ok = s.size(); return ok }})
		},
	})
	if !ok || !s.end() {
		return false, s.formError()
	}
	if v.Done = blocked > 0; failed { // a prompt that is blocked gets no answer
		v.Failed = c.ParseFault(data)
		v.Failed.Message = cmp.Or(v.Failed.Message, unknown)
	}
	return there || v.Done, nil
}

// parseContents parses a whole answer.
func (c Codec) parseContents(body []byte) (r Reply, err error) {
	var v Event
	switch there, err := v.parseContents(c, body); {
	case err != nil:
		return r, err
	case !there:
		return r, c.none(body, "it has no candidates")
	case len(v.Deltas) > 0 && v.Deltas[0].Choice == 0:
		r.Text = v.Deltas[0].Text
	}
	r.Bytes, r.Usage = v.Bytes, v.Usage
	return r, nil
}

// contents reads an event, to rewrite texts: what is below of, which leads to the parts.
func (w *walker) contents(of ...string) bool {
	if len(of) == 0 {
		return w.contentText()
	}
	if of[0] == "content" {
		w.place.Choice = w.index(0)
	}
	return w.named(func(name string) bool {
		switch {
		case name == of[0] && w.sees() == '[':
			return w.array(func() bool { return w.contents(of[1:]...) })
		case name == of[0] && w.sees() == '{':
			return w.contents(of[1:]...)
		}
		return w.whole(name)
	})
}

// contentText reads a part. Its text goes on in the next part of its kind.
func (w *walker) contentText() bool {
	thought, ahead := "", scanner{b: w.b, at: w.at}
	ahead.pick(map[string]func() bool{"thought": func() bool {
		if ahead.sees() == 't' {
			thought = `"thought":true,`
		}
		return ahead.skip()
	}})
	return w.named(func(name string) bool {
		if name != "text" || w.sees() != '"' {
			return w.whole(name)
		}
		key := append(strconv.AppendInt(nil, int64(w.place.Choice), 10), `,"content":{"role":"model","parts":[{`+thought+`"text":`...)
		w.place = Place{Key: key, Choice: w.place.Choice, closers: []byte("}]}")}
		return w.piece(w.place)
	})
}

// statusNames are the names of statuses (google.rpc.Code).
var statusNames = map[int]string{
	401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED", 429: "RESOURCE_EXHAUSTED",
	499: "CANCELLED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

// appendContentsFault appends an error in the form of the Gemini API, which names no parameter: the message does. The request's
// ID is a detail, as Google's APIs have it (google.rpc.RequestInfo).
func (c Codec) appendContentsFault(b []byte, status int, param string, f Fault) []byte {
	if param != "" && !strings.HasPrefix(f.Message, param) {
		f.Message = param + ": " + f.Message
	}
	name := cmp.Or(statusNames[status], map[bool]string{true: "INTERNAL", false: "INVALID_ARGUMENT"}[status >= 500])
	b = fmt.Appendf(b, `{"error":{"code":%d,"message":%s,"status":%q`, status, c.appendString(nil, f.Message), name)
	if f.ID != "" {
		b = fmt.Appendf(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":%s}]`, c.appendString(nil, f.ID))
	}
	return append(b, "}}"...)
}
