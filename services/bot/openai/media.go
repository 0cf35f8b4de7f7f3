package openai

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Media in base64 have many more bytes than a model counts tokens. The true number depends on the model, the image's
// size and the recording's length, which are not examined: these estimates are high for most.
const (
	imageTokens   = 1500 // per image
	bytesPerToken = 64   // of recordings and files, in their encoded form
)

// hasMedia are texts of which a value with media has one.
var hasMedia = []string{";base64,", `"image_url"`, `"input_audio"`, `"file_data"`, `"source"`, `"inlineData"`, `"inline_data"`}

// estimateTokens estimates the tokens of a value: messages, input, or the description of tools.
func estimateTokens(value []byte) int {
	if !slices.ContainsFunc(hasMedia, func(name string) bool { return bytes.Contains(value, []byte(name)) }) {
		return EstimateTokens(len(value))
	}
	m := media{scanner: scanner{b: value}}
	if !m.value(nil) {
		return EstimateTokens(len(value))
	}
	return EstimateTokens(len(value)-m.bytes) + m.tokens
}

// media walks a value and counts text and media.
type media struct {
	within []byte // the name of the current object
	source string // what it has, if it is a source of /v1/messages or the data of a part of the Gemini API: text, a file or an image
	scanner
	bytes, tokens int
}

// value reads the value of a field; name is nil for an element of an array.
func (m *media) value(name []byte) bool {
	m.blanks()
	if m.at == len(m.b) {
		return false
	}
	switch m.b[m.at] {
	case '{':
		defer func(outer []byte) { m.within = outer }(m.within)
		if m.within = name; isSource(name) {
			m.source = m.sourceKind()
		}
		return m.list('{', '}', func() bool {
			name, _, ok := m.quoted()
			return ok && m.next(':') && m.value(name)
		})
	case '[':
		return m.array(func() bool { return m.value(nil) })
	case '"':
		text, _, ok := m.quoted()
		m.count(name, text)
		return ok
	}
	return m.skip()
}

// isSource reports whether a field has media, and says of which type.
func isSource(name []byte) bool {
	return slices.Contains([]string{"source", "inlineData", "inline_data"}, string(name))
}

// sourceKind looks ahead for what such a field has.
func (m *media) sourceKind() string {
	ahead, kind, form := m.scanner, "", ""
	ahead.fields(func(name []byte) (ok bool) {
		switch string(name) {
		case "type":
			kind, ok = ahead.stringValue()
		case "media_type", "mimeType", "mime_type":
			form, ok = ahead.stringValue()
			kind = cmp.Or(kind, "base64")
		default:
			return ahead.skip()
		}
		return ok
	})
	switch {
	case kind == "base64" && !strings.HasPrefix(form, "image/"):
		return "file"
	case kind == "base64", kind == "url":
		return "image"
	}
	return "text"
}

// count counts a string by the kind that its field implies. Text counts as text, whatever it looks like.
func (m *media) count(name, text []byte) {
	tokens := 0
	source := ""
	if isSource(m.within) {
		source = m.source
	}
	switch string(name) {
	case "url", "image_url":
		image := string(name) == "image_url" || string(m.within) == "image_url" || source == "image" // others may be links
		if !image && !bytes.HasPrefix(text, []byte("data:")) {
			return
		}
		tokens = imageTokens
	case "data", "file_data":
		switch tokens = (len(text) + bytesPerToken - 1) / bytesPerToken; source {
		case "text":
			return
		case "image":
			tokens = imageTokens
		}
	default:
		return
	}
	m.bytes += len(text)
	m.tokens += tokens
}

// Base64 in an answer is recognized by its length. perTextByte bytes of it count as one byte of text.
const (
	longRun     = 256
	perTextByte = bytesPerToken / 4
)

// TextBytes returns for how many bytes of text an answer, or a part of one, counts.
func TextBytes[T string | []byte](said T) int {
	n, run := len(said), 0
	for i := range len(said) {
		if isBase64(said[i]) {
			run++
			continue
		}
		n -= fewer(run)
		run = 0
	}
	return n - fewer(run)
}

// textBytes is TextBytes, with a fast path for short texts.
func textBytes(said string) int {
	if len(said) < longRun {
		return len(said)
	}
	return TextBytes(said)
}

// fewer returns by how many bytes less a run of base64 counts.
func fewer(run int) int {
	if run < longRun {
		return 0
	}
	return run - run/perTextByte
}

func isBase64(c byte) bool {
	return c-'a' < 26 || c-'A' < 26 || c-'0' < 10 || c == '+' || c == '/' || c == '=' || c == '-' || c == '_'
}
