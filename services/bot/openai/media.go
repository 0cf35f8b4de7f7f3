package openai

import "bytes"

// What is said in other forms than text, in base64, is many more bytes than a model counts tokens. What it does count depends on
// the model, the image's size and the recording's length, which are not looked at: these are high for most.
const (
	imageTokens   = 1500 // of an image, whatever its bytes
	bytesPerToken = 64   // of recordings and files, as they stand there
)

// estimateSaid is about how many tokens a value is: messages, input, or the description of tools.
func estimateSaid(value []byte) int {
	if !bytes.Contains(value, []byte(";base64,")) && !bytes.Contains(value, []byte(`"image_url"`)) && !bytes.Contains(value, []byte(`"input_audio"`)) && !bytes.Contains(value, []byte(`"file_data"`)) {
		return EstimateTokens(len(value))
	}
	m := media{scanner: scanner{b: value}}
	if !m.value(nil) {
		return EstimateTokens(len(value))
	}
	return EstimateTokens(len(value)-m.bytes) + m.tokens
}

// media goes through a value for what is not text.
type media struct {
	within []byte // the name of the object that is gone through
	scanner
	bytes, tokens int
}

// value takes the value of a field; name is nil for an element of an array.
func (m *media) value(name []byte) bool {
	m.blanks()
	if m.at == len(m.b) {
		return false
	}
	switch m.b[m.at] {
	case '{':
		defer func(outer []byte) { m.within = outer }(m.within)
		m.within = name
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

// count takes a string for what its field says that it is. Text is text, whatever it looks like.
func (m *media) count(name, text []byte) {
	tokens := 0
	switch string(name) {
	case "url", "image_url":
		image := string(name) == "image_url" || string(m.within) == "image_url" // others may be links
		if !image && !bytes.HasPrefix(text, []byte("data:")) {
			return
		}
		tokens = imageTokens
	case "data", "file_data":
		tokens = (len(text) + bytesPerToken - 1) / bytesPerToken
	default:
		return
	}
	m.bytes += len(text)
	m.tokens += tokens
}

// How base64 is told from text in an answer: by its length. One byte of text stands for perTextByte bytes of it.
const (
	longRun     = 256
	perTextByte = bytesPerToken / 4
)

// TextBytes is how many bytes of text an answer counts for, or a part of one.
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

// textBytes is TextBytes of what often is short.
func textBytes(said string) int {
	if len(said) < longRun {
		return len(said)
	}
	return TextBytes(said)
}

// fewer is how many bytes less a run of characters of base64 counts for.
func fewer(run int) int {
	if run < longRun {
		return 0
	}
	return run - run/perTextByte
}

func isBase64(c byte) bool {
	return c-'a' < 26 || c-'A' < 26 || c-'0' < 10 || c == '+' || c == '/' || c == '=' || c == '-' || c == '_'
}
