package draft

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lineAt returns the line of an offset in the file.
func (d *Draft) lineAt(offset int64) int {
	if d.breaks == nil {
		d.breaks = []int{}
		for i, c := range d.Src {
			if c == '\n' {
				d.breaks = append(d.breaks, i)
			}
		}
	}
	before, _ := slices.BinarySearch(d.breaks, int(offset))
	return 1 + before
}

// A Located value knows where in its file it begins.
type Located[T any] struct {
	offset int64
	Value  T
}

// UnmarshalJSONFrom reads the value.
func (l *Located[T]) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	l.offset = from.InputOffset()
	return json.UnmarshalDecode(from, &l.Value)
}

// Line returns the line in which the value begins: the first that is not blank or a comma.
func (l *Located[T]) Line(d *Draft) int {
	at := l.offset
	for at < int64(len(d.Src)) && strings.IndexByte(" \t\r\n,", d.Src[at]) >= 0 {
		at++
	}
	return d.lineAt(at)
}

// ParseJSON reads a file in JSON. The error says where it is no JSON, or not of this form.
func ParseJSON(src []byte, into any, form string) error {
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

// lineAt returns the line of an offset in a text.
func lineAt(src []byte, offset int64) int {
	return 1 + bytes.Count(src[:min(max(offset, 0), int64(len(src)))], []byte("\n"))
}

// LineOf returns the first line in which a text stands, or 0.
func (d *Draft) LineOf(text string) int {
	at := bytes.Index(d.Src, []byte(text))
	if at < 0 {
		return 0
	}
	return d.lineAt(int64(at))
}

// LineOfKey returns the first line, from one on, in which a word stands: as a key, or else at all; 0 if it does not.
func (d *Draft) LineOfKey(word string, from int) int {
	src := d.Src
	start, found := 0, -1
	for range from - 1 {
		start += 1 + bytes.IndexByte(src[start:], '\n')
	}
	inWord := func(c byte) bool {
		return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	for at := start; ; at++ {
		next := bytes.Index(src[at:], []byte(word))
		if next < 0 || word == "" {
			break
		}
		at += next
		after := src[at+len(word):]
		if at > 0 && inWord(src[at-1]) || len(after) > 0 && inWord(after[0]) {
			continue
		}
		if after = bytes.TrimLeft(after, " '\""); len(after) > 0 && (after[0] == ':' || after[0] == '=') {
			return d.lineAt(int64(at))
		}
		if found < 0 {
			found = at
		}
	}
	if found < 0 {
		return 0
	}
	return d.lineAt(int64(found))
}
