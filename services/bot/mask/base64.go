package mask

import (
	"bytes"
	"slices"
)

// What looks like a secret in base64 is there by chance, in one of ten images of 1.5 MB. It stands behind "+" or "/", which
// are no letters. So base64 is told from text by what is before it:
//
//   - behind ";base64," in a text, as data URLs have it (RFC 2397), wherever that text stands;
//   - in a field that has nothing else, if the value has no other characters;
//   - in a run of at least longRun characters of base64, or in a field that often has it: there only behind "+" and "/".
//
// Secrets that stand for themselves in such fields are replaced.

// A form says what of a text is base64.
type form int

const (
	text64 form = iota // what follows is not known to be base64
	part64             // it may be: a secret behind "+" or "/" is none
	url64              // it is: of a data URL
	all64              // all of the value is
)

// longRun is how many characters of base64 in a row are taken for it. Paths and words are shorter.
const longRun = 128

// base64 follows a text, character by character.
type base64 struct {
	form form
	run  int                  // characters of base64 in a row
	last [len(urlPrefix)]byte // characters but for backslashes, in lower case
}

const urlPrefix = ";base64,"

// nested are how the values of fields begin that often have base64, in JSON within texts.
var nested = [][]byte{[]byte(`data":"`), []byte(`64":"`), []byte(`json":"`)}

// has tells whether what begins behind a character is in base64.
func (b *base64) has(before byte) bool {
	return b.form == url64 || (b.form == part64 || b.run >= longRun) && (before == '+' || before == '/')
}

// pass takes the next character.
func (b *base64) pass(c byte) {
	switch {
	case standard64(c) || b.form == url64 && (c == '-' || c == '_' || c == '%'): // URLs may have these in place of + and /
		b.run++
	default:
		b.form, b.run = text64, 0
	}
	if c == '\\' || c == ' ' {
		return
	}
	copy(b.last[:], b.last[1:])
	b.last[len(b.last)-1] = lower(c)
	switch {
	case c == ',' && string(b.last[:]) == urlPrefix:
		b.form = url64
	case c == '"' && slices.ContainsFunc(nested, func(begin []byte) bool { return bytes.HasSuffix(b.last[:], begin) }):
		b.form = part64
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func standard64(c byte) bool { return word(c) && c != '_' || c == '+' || c == '/' || c == '=' }

// A path is where in a JSON value one is.
type path struct {
	key   string   // of the value that follows
	outer []string // those of the objects and lists around it
}

// step takes a character that is in no string.
func (p *path) step(c byte) {
	switch c {
	case '{', '[':
		p.outer = append(p.outer, p.key)
	case '}', ']':
		if n := len(p.outer); n > 0 {
			p.key, p.outer = p.outer[n-1], p.outer[:n-1]
		}
	}
}

// isName tells whether a string that was just read is the name of a field.
func isName(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// Fields that have base64 and nothing else; of data, within others. Sealed ones may have the alphabet of URLs.
var (
	files  = []string{"file_data", "b64_json", "partial_image_b64"}
	within = []string{"input_audio", "audio", "source", "inline_data", "inlineData"}
	sealed = []string{"encrypted_content", "signature", "thought_signature", "thoughtSignature"}
	often  = []string{"data", "result", "image", "audio", "file", "bytes", "base64", "blob", "content"}
)

// form is that of the value of a field.
func (p *path) form(value []byte) form {
	outer := ""
	if n := len(p.outer); n > 0 {
		outer = p.outer[n-1]
	}
	switch {
	case slices.Contains(files, p.key), p.key == "data" && slices.Contains(within, outer):
		if only64(value, "") {
			return all64
		}
	case slices.Contains(sealed, p.key):
		if only64(value, "-_") {
			return all64
		}
	case slices.Contains(often, p.key):
		switch {
		case !only64(value, ""):
		case len(value) >= 2*longRun:
			return all64
		default:
			return part64
		}
	}
	return text64
}

// only64 tells whether a JSON string has nothing but base64, perhaps in lines, and with escapes.
func only64(value []byte, more string) bool {
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' && i+1 < len(value) {
			if i++; bytes.IndexByte([]byte("/nr"), value[i]) < 0 {
				return false
			}
			continue
		}
		if !standard64(c) && bytes.IndexByte([]byte(more), c) < 0 {
			return false
		}
	}
	return true
}
