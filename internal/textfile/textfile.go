// Package textfile says what a file of text is: UTF-8, with a byte order mark at its beginning or without, whose lines
// end in LF, CR LF or CR. Readers get it without the mark, and with LF alone. Other bytes are an error
// that names their place.
package textfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// A Fault says where a file is no text.
type Fault struct {
	File         string
	Line, Column int // from 1; the column counts characters
	Problem      string
	Hint         string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s; %s", f.File, f.Line, f.Column, f.Problem, f.Hint)
}

const mark = "\xef\xbb\xbf" // the byte order mark in UTF-8

// marks are the byte order marks of other encodings. The longer ones come first.
var marks = []struct{ bytes, encoding string }{
	{"\xff\xfe\x00\x00", "UTF-32"}, {"\x00\x00\xfe\xff", "UTF-32"}, {"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
}

// TrimMark removes a byte order mark. The error is a *Fault about one of another encoding.
func TrimMark(name string, content []byte) ([]byte, error) {
	for _, m := range marks {
		if bytes.HasPrefix(content, []byte(m.bytes)) {
			return nil, &Fault{name, 1, 1, "the text is " + m.encoding, "want UTF-8: convert it, for example with iconv -f " + m.encoding + " -t UTF-8"}
		}
	}
	return bytes.TrimPrefix(content, []byte(mark)), nil
}

// Check returns a *Fault where a content is not UTF-8.
func Check(name string, content []byte) error {
	content, err := TrimMark(name, content)
	if err != nil {
		return err
	}
	return checkUTF8(name, content)
}

func checkUTF8(name string, content []byte) error {
	if utf8.Valid(content) {
		return nil
	}
	at := 0
	for r, n := utf8.DecodeRune(content); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(content[at:]) {
		at += n
	}
	return fault(name, content, at, fmt.Sprintf("the byte 0x%02x is not UTF-8", content[at]), "want UTF-8: convert it, for example with iconv -f WINDOWS-1252 -t UTF-8")
}

// checkText also refuses UTF-8 that is no text.
func checkText(name string, content []byte) error {
	if at := bytes.IndexByte(content, 0); at >= 0 {
		return fault(name, content, at, "a NUL byte", "want text: take it out, or convert UTF-16 to UTF-8")
	}
	return checkUTF8(name, content)
}

// fault locates a byte.
func fault(name string, content []byte, at int, problem, hint string) *Fault {
	before := unify(content[:at])
	line := bytes.LastIndexByte(before, '\n') + 1
	return &Fault{name, bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[line:]) + 1, problem, hint}
}

// Decode returns the text of a file's content. The error is a *Fault.
func Decode(name string, content []byte) ([]byte, error) {
	text, err := TrimMark(name, content)
	if err != nil {
		return nil, err
	}
	if err := checkText(name, text); err != nil {
		return nil, err
	}
	return unify(text), nil
}

// unify ends all lines in LF.
func unify(text []byte) []byte {
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// MaxBytes is the size of files whose readers have no bound of their own.
const MaxBytes = 64 << 20

// Read returns the text of a file of at most a number of bytes.
func Read(path string, most int) ([]byte, error) {
	content, err := ReadBytes(path, most)
	if err != nil {
		return nil, err
	}
	return Decode(path, content)
}

// ReadBytes returns what a file of at most a number of bytes holds, be it text or not.
func ReadBytes(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	return ReadAll(path, f, most)
}

// ReadAll returns what a reader of this name has, up to a number of bytes.
func ReadAll(name string, r io.Reader, most int) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(content) > most {
		return nil, fmt.Errorf("%s: has more than %d bytes", name, most)
	}
	return content, err
}
