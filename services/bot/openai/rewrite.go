package openai

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Place identifies a text that continues over several events: one field of a choice, an argument of one tool, a
// part of a response. All of its events have an equal Place.
type Place struct {
	// Key is unique to the place. It is valid until the called function returns.
	Key []byte
	// Choice is its choice, of /v1/chat/completions, or its block, of /v1/messages.
	Choice int

	closers []byte // of the brackets that Key opens
}

// A Rewriter replaces the texts of an event.
type Rewriter struct {
	// Piece replaces a piece of a continued text.
	Piece func(p Place, piece string) string
	// Whole replaces the JSON value of a complete field, and returns the number of changes; 0 leaves it as it is. The
	// name is "" in lists.
	Whole func(name string, value []byte) ([]byte, int)
}

// standing are the fields of a delta that are never continued: they describe the others.
var standing = []string{"role", "id", "type", "name"}

// Rewrite returns an event's data with its texts replaced. All other bytes are unchanged; it returns data itself if
// nothing changes.
func (c Codec) Rewrite(e Endpoint, data []byte, r Rewriter) ([]byte, error) {
	w := walker{scanner: scanner{b: data}, codec: c, Rewriter: r}
	ok := false
	switch e {
	case Messages:
		ok = w.message()
	case Contents:
		ok = w.contents("candidates", "content", "parts")
	case Chat:
		ok = w.named(func(name string) bool {
			if !strings.EqualFold(name, "choices") || w.sees() != '[' {
				return w.whole(name)
			}
			return w.elements(func(int) bool { return w.choice() })
		})
	default:
		kind, ids := w.part()
		place := Place{Key: ids}
		ok = w.named(func(name string) bool {
			if !strings.EqualFold(name, "delta") || !strings.HasSuffix(kind, deltaEvent) || w.sees() != '"' {
				return w.whole(name)
			}
			if strings.HasSuffix(kind, audioEvent) {
				return w.skip() // base64 is no text
			}
			return w.piece(place)
		})
	}
	if !ok || !w.end() {
		return nil, fmt.Errorf("event: %d bytes that cannot be gone through", len(data))
	}
	if w.copied == 0 {
		return data, nil
	}
	return append(w.out, data[w.copied:]...), nil
}

// Continue returns the name and the data of an event that continues a choice, or a block of /v1/messages, with text at a
// place.
func (c Codec) Continue(e Endpoint, p Place, text string) (name string, data []byte) {
	begin, end := `{"object":"chat.completion.chunk","choices":[{"index":`, `,"finish_reason":null}]}`
	switch e {
	case Contents:
		begin, end = `{"candidates":[{"index":`, "}]}"
	case Messages:
		name, begin, end = blockDelta, `{"type":"`+blockDelta+`","index":`, "}"
	}
	b := c.appendString(append([]byte(begin), p.Key...), text)
	for _, closer := range slices.Backward(p.closers) {
		b = append(b, closer)
	}
	return name, append(b, end...)
}

// Clone returns a copy that stays valid.
func (p Place) Clone() Place {
	return Place{bytes.Clone(p.Key), p.Choice, bytes.Clone(p.closers)}
}

// The names of events of /v1/responses that have a piece of a text, and of those that end it.
const (
	deltaEvent = ".delta"
	doneEvent  = ".done"
	// Of recordings.
	audioEvent = "audio.delta"
)

// Completed returns the Key of the text that an event of /v1/responses ends; nil if none.
func (c Codec) Completed(data []byte) []byte {
	w := walker{scanner: scanner{b: data}, codec: c}
	if kind, key := w.part(); strings.HasSuffix(kind, doneEvent) {
		return key
	}
	return nil
}

// logprobs are the fields of events and answers with details of each token.
var logprobs = []string{"logprobs", "logprobsResult"}

// WithoutLogprobs returns an event or an answer without its logprobs: they repeat the text token by token. Those of
// /v1/messages have none.
func (c Codec) WithoutLogprobs(e Endpoint, data []byte) []byte {
	if e == Messages || !bytes.Contains(data, []byte(`"`+logprobs[0])) {
		return data
	}
	w := walker{scanner: scanner{b: data}, codec: c}
	if !w.withoutLogprobs(e) || w.copied == 0 {
		return data
	}
	return append(w.out, data[w.copied:]...)
}

// A walker reads an event, and writes it with changes.
type walker struct {
	scanner
	Rewriter

	found  []Reference
	codec  Codec
	out    []byte // the output up to the last change
	copied int    // bytes of the event copied to out
	place  Place  // of a choice
}

// named reads an object; value reads the value of each field.
func (w *walker) named(value func(name string) bool) bool {
	return w.fields(func(name []byte) bool { return value(string(name)) })
}

// replace writes other JSON in place of the input since begin.
func (w *walker) replace(begin int, with []byte) {
	w.out = append(append(w.out, w.b[w.copied:begin]...), with...)
	w.copied = w.at
}

// whole reads a complete value.
func (w *walker) whole(name string) bool {
	value, ok := w.value()
	if !ok {
		return false
	}
	if with, n := w.Whole(name, value); n > 0 {
		w.replace(w.at-len(value), with)
	}
	return true
}

// piece reads a string that is a piece of a text.
func (w *walker) piece(p Place) bool {
	w.blanks()
	begin := w.at
	text, ok := w.text()
	if !ok || text == "" {
		return ok
	}
	if becomes := w.Piece(p, text); becomes != text {
		w.replace(begin, w.codec.appendString(nil, becomes))
	}
	return true
}

// index looks ahead for the index of the next object; otherwise is the default.
func (w *walker) index(otherwise int) int {
	ahead, n := walker{scanner: w.scanner}, otherwise
	ahead.named(func(name string) bool {
		value, ok := ahead.value()
		if strings.EqualFold(name, "index") {
			if index, ok := whole(value); ok {
				n = index
			}
		}
		return ok
	})
	return n
}

// choice reads a choice of an event of /v1/chat/completions.
func (w *walker) choice() bool {
	if w.sees() != '{' {
		return w.whole("")
	}
	w.place.Choice = w.index(0)
	return w.named(func(name string) bool {
		if !strings.EqualFold(name, "delta") {
			return w.whole(name)
		}
		w.place.Key = append(strconv.AppendInt(w.place.Key[:0], int64(w.place.Choice), 10), `,"delta":`...)
		w.place.closers = w.place.closers[:0]
		return w.delta("", `{`, "}")
	})
}

// delta reads the value of a delta's field. In the place's Key, objects begin with open.
func (w *walker) delta(of, open, closers string) bool {
	key, closed := len(w.place.Key), len(w.place.closers)
	leave := func() { w.place.Key, w.place.closers = w.place.Key[:key], w.place.closers[:closed] }
	switch w.sees() {
	case '"':
		if closed > 0 {
			return w.piece(w.place)
		}
	case '{':
		return w.named(func(name string) bool {
			switch {
			case slices.Contains(standing, name):
				return w.whole(name)
			case of == "audio" && name == "data":
				return w.skip() // base64 is no text
			}
			w.place.Key = append(w.codec.appendString(append(w.place.Key, open...), name), ':')
			w.place.closers = append(w.place.closers, closers...)
			defer leave()
			return w.delta(name, `{`, "}")
		})
	case '[':
		return w.elements(func(i int) bool {
			if w.sees() != '{' {
				return w.whole(of)
			}
			return w.delta(of, fmt.Sprintf(`[{"index":%d,`, w.index(i)), "]}")
		})
	}
	return w.whole(of)
}

// part looks ahead for the name of an event of /v1/responses, and for the Key of its text.
func (w *walker) part() (kind string, key []byte) {
	ahead := walker{scanner: w.scanner}
	var ids [4][]byte
	ahead.named(func(name string) bool {
		ahead.blanks()
		begin := ahead.at
		if name == "type" && ahead.sees() == '"' {
			var ok bool
			kind, ok = ahead.text()
			return ok
		}
		if !ahead.skip() {
			return false
		}
		if i := slices.Index([]string{"item_id", "output_index", "content_index", "summary_index"}, name); i >= 0 {
			ids[i] = ahead.b[begin:ahead.at]
		}
		return true
	})
	key = append(key, strings.TrimSuffix(strings.TrimSuffix(kind, deltaEvent), doneEvent)...)
	for _, id := range ids {
		key = append(append(key, ' '), id...)
	}
	return kind, key
}

// withoutLogprobs reads any value.
func (w *walker) withoutLogprobs(e Endpoint) bool {
	switch w.sees() {
	case '{':
		return w.named(func(name string) bool {
			if !slices.Contains(logprobs, name) {
				return w.withoutLogprobs(e)
			}
			kind, begin := w.sees(), w.at
			if !w.skip() {
				return false
			}
			// In a response's copy of its tools, an object of this name describes an argument.
			if kind == '[' {
				w.replace(begin, []byte("[]"))
			} else if kind == '{' && e.EndsByChoice() {
				w.replace(begin, []byte("null"))
			}
			return true
		})
	case '[':
		return w.elements(func(int) bool { return w.withoutLogprobs(e) })
	}
	return w.skip()
}
