package mask

import (
	"bytes"
	"slices"
)

// Base64 can look like a secret by chance: one of ten images of 1.5 MB does. The match stands after "+" or "/", which
// are no letters. So base64 is distinguished from text by what precedes it:
//
//   - behind ";base64," in a text, as data URLs have it (RFC 2397), wherever that text stands;
//   - in a field that has nothing else, if the value has no other characters;
//   - in a run of at least longRun characters of base64, or in a field that often has it: there only behind "+" and "/".
//
// Secrets that stand for themselves in such fields are replaced.

// A form says which part of a text is base64.
type form int

const (
	text64 form = iota // text, as far as known
	part64             // perhaps base64: a secret after "+" or "/" does not count
	url64              // the base64 of a data URL
	all64              // the whole value is base64
)

// longRun is the length of a run that counts as base64. Paths and words are shorter.
const longRun = 128

// base64 follows a text, character by character.
type base64 struct {
	form form
	run  int                  // characters of base64 in a row
	last [len(urlPrefix)]byte // characters but for backslashes, in lower case
}

const urlPrefix = ";base64,"

// nested are the beginnings of fields that often have base64, in JSON within texts.
var nested = [][]byte{[]byte(`data":"`), []byte(`64":"`), []byte(`json":"`)}

// has reports whether the text after a character is in base64.
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

// A path is the position in a JSON value.
type path struct {
	key   string   // the key of the next value
	outer []string // the keys around it
}

// step takes a character outside of strings.
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

// isName reports whether the string before rest is the name of a field.
func isName(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// Fields that hold only base64; data only within others. Sealed ones may use the alphabet of URLs.
var (
	files  = []string{"file_data", "b64_json", "partial_image_b64"}
	within = []string{"input_audio", "audio", "source"}
	inline = []string{"inline_data", "inlineData"} // Google's libraries use the alphabet of URLs
	sealed = []string{"encrypted_content", "signature", "thought_signature", "thoughtSignature"}
	often  = []string{"data", "result", "image", "audio", "file", "bytes", "base64", "blob", "content"}
)

// form returns the form of a field's value.
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
	case slices.Contains(sealed, p.key), p.key == "data" && slices.Contains(inline, outer):
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

// only64 reports whether a JSON string holds only base64, perhaps in lines and with escapes.
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
