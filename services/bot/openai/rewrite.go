package openai

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Place is where a text stands that goes on from event to event: one field of a choice, an
// argument of one tool, a part of a response. It is the same in all of its events.
type Place struct {
	// Key is different from that of any other place. It is good until the function that is
	// given it returns.
	Key []byte
	// Choice is the one that it belongs to, of /v1/chat/completions.
	Choice int

	closers []byte // of the brackets that Key opens
}

// A Rewriter says what the texts of an event become.
type Rewriter struct {
	// Piece is what a piece of a text that goes on becomes.
	Piece func(p Place, piece string) string
	// Whole is what the value of a field that stands for itself becomes, as JSON, and how many changes
	// that has; 0 leaves it as it is. The name is "" in lists.
	Whole func(name string, value []byte) ([]byte, int)
}

// standing are fields of a delta that come whole: they name what the others are.
var standing = []string{"role", "id", "type", "name"}

// Rewrite returns an event's data with other texts. All but these stays as it is, byte for byte;
// an event in which nothing changes is returned itself.
func (c Codec) Rewrite(e Endpoint, data []byte, r Rewriter) ([]byte, error) {
	w := walker{scanner: scanner{b: data}, codec: c, Rewriter: r}
	ok := false
	if e == Chat {
		ok = w.fields(func(name string) bool {
			if !strings.EqualFold(name, "choices") || w.sees() != '[' {
				return w.whole(name)
			}
			return w.elements(func(int) bool { return w.choice() })
		})
	} else {
		kind, ids := w.part()
		place := Place{Key: ids}
		ok = w.fields(func(name string) bool {
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

// Continue returns the data of an event that has a choice go on with text at a place.
func (c Codec) Continue(p Place, text string) []byte {
	b := c.appendString(append([]byte(`{"object":"chat.completion.chunk","choices":[{"index":`), p.Key...), text)
	for _, closer := range slices.Backward(p.closers) {
		b = append(b, closer)
	}
	return append(b, `,"finish_reason":null}]}`...)
}

// Clone is good for as long as one likes.
func (p Place) Clone() Place {
	return Place{bytes.Clone(p.Key), p.Choice, bytes.Clone(p.closers)}
}

// What events of /v1/responses that have a piece of a text, and those that end it, are called.
const (
	deltaEvent = ".delta"
	doneEvent  = ".done"
	// Of recordings.
	audioEvent = "audio.delta"
)

// Completed returns the Key of the text that an event of /v1/responses ends; nil if it ends none.
func (c Codec) Completed(data []byte) []byte {
	w := walker{scanner: scanner{b: data}, codec: c}
	if kind, key := w.part(); strings.HasSuffix(kind, doneEvent) {
		return key
	}
	return nil
}

// logprobs are what events and answers tell of each token.
var logprobs = []byte(`"logprobs"`)

// WithoutLogprobs returns an event or an answer without what it tells of its tokens one by one:
// that is its text once more, cut differently.
func (c Codec) WithoutLogprobs(e Endpoint, data []byte) []byte {
	if !bytes.Contains(data, logprobs) {
		return data
	}
	w := walker{scanner: scanner{b: data}, codec: c}
	if !w.withoutLogprobs(e) || w.copied == 0 {
		return data
	}
	return append(w.out, data[w.copied:]...)
}

// A walker goes through an event, and writes it with changes.
type walker struct {
	scanner
	Rewriter

	codec  Codec
	out    []byte // what has changed, and all before it
	copied int    // of the event, to out
	place  Place  // of a choice
}

// sees tells what the next value begins with; 0 is the end.
func (w *walker) sees() byte {
	w.blanks()
	if w.at == len(w.b) {
		return 0
	}
	return w.b[w.at]
}

// fields takes an object. Value takes the value of a field.
func (w *walker) fields(value func(name string) bool) bool {
	return w.list('{', '}', func() bool {
		name, ok := w.text()
		return ok && w.next(':') && value(name)
	})
}

// elements takes a list.
func (w *walker) elements(value func(i int) bool) bool {
	i := -1
	return w.array(func() bool {
		i++
		return value(i)
	})
}

// replace writes other JSON in place of what began at a byte and has just been taken.
func (w *walker) replace(begin int, with []byte) {
	w.out = append(append(w.out, w.b[w.copied:begin]...), with...)
	w.copied = w.at
}

// whole takes a value that stands for itself.
func (w *walker) whole(name string) bool {
	w.blanks()
	begin := w.at
	if !w.skip() {
		return false
	}
	if value, n := w.Whole(name, w.b[begin:w.at]); n > 0 {
		w.replace(begin, value)
	}
	return true
}

// piece takes a string that is a piece of a text.
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

// index looks ahead for that of the object that follows; otherwise is of one that has none.
func (w *walker) index(otherwise int) int {
	ahead, n := walker{scanner: w.scanner}, otherwise
	ahead.fields(func(name string) bool {
		ahead.blanks()
		begin := ahead.at
		if !ahead.skip() {
			return false
		}
		if strings.EqualFold(name, "index") {
			if index, ok := whole(ahead.b[begin:ahead.at]); ok {
				n = index
			}
		}
		return true
	})
	return n
}

// choice takes a choice of an event of /v1/chat/completions.
func (w *walker) choice() bool {
	if w.sees() != '{' {
		return w.whole("")
	}
	w.place.Choice = w.index(0)
	return w.fields(func(name string) bool {
		if !strings.EqualFold(name, "delta") {
			return w.whole(name)
		}
		w.place.Key = append(strconv.AppendInt(w.place.Key[:0], int64(w.place.Choice), 10), `,"delta":`...)
		w.place.closers = w.place.closers[:0]
		return w.delta("", `{`, "}")
	})
}

// delta takes a value of a delta by its name, an object of which begins with open in the place's Key.
func (w *walker) delta(of, open, closers string) bool {
	key, closed := len(w.place.Key), len(w.place.closers)
	leave := func() { w.place.Key, w.place.closers = w.place.Key[:key], w.place.closers[:closed] }
	switch w.sees() {
	case '"':
		if closed > 0 {
			return w.piece(w.place)
		}
	case '{':
		return w.fields(func(name string) bool {
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

// part looks ahead for what an event of /v1/responses is called, and for the text that it is about.
func (w *walker) part() (kind string, key []byte) {
	ahead := walker{scanner: w.scanner}
	var ids [4][]byte
	ahead.fields(func(name string) bool {
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

// withoutLogprobs takes any value.
func (w *walker) withoutLogprobs(e Endpoint) bool {
	switch w.sees() {
	case '{':
		return w.fields(func(name string) bool {
			if name != "logprobs" {
				return w.withoutLogprobs(e)
			}
			kind, begin := w.sees(), w.at
			if !w.skip() {
				return false
			}
			// In what a response repeats of its tools, an object of this name describes an argument.
			if kind == '[' {
				w.replace(begin, []byte("[]"))
			} else if kind == '{' && e == Chat {
				w.replace(begin, []byte("null"))
			}
			return true
		})
	case '[':
		return w.elements(func(int) bool { return w.withoutLogprobs(e) })
	}
	return w.skip()
}
