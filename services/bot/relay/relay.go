// Package relay replaces secrets in the stream of a model, event by event.
package relay

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"dyno/services/bot/mask"
	"dyno/services/bot/openai"
)

// Bounds of an answer's simultaneous texts, and of their memory. A model has a few choices, each with a few tool
// calls.
const (
	MaxTexts     = 1024
	maxTextBytes = 64 << 10
)

// ErrTexts says that an answer exceeds these bounds.
var ErrTexts = errors.New("the answer has too many texts at once")

// A Relay passes a stream on, event by event.
type Relay struct {
	Codec    openai.Codec
	Endpoint openai.Endpoint
	Usage    bool // the client has asked for it
	Masker   *mask.Masker
	texts    map[string]*runningText // by the keys of their places
	held     int                     // bytes of texts
	Full     bool                    // the texts exceed their bounds: the answer cannot be passed on
	found    int                     // secrets that were replaced outside of texts
	buf      []byte
}

// A runningText is a text that later events continue.
type runningText struct {
	place  openai.Place
	stream *mask.Stream
	last   []byte // its last event without the text, of /v1/responses, if text is held back
	name   string // of that event
}

// size returns the bytes held for it.
func (t *runningText) size() int { return 2*len(t.place.Key) + len(t.last) + len(t.name) }

// Next appends to b the client's form of an event.
func (r *Relay) Next(b []byte, f openai.Frame, e *openai.Event) []byte {
	if e.UsageOnly && !r.Usage {
		return b // only the gateway has requested it
	}
	if r.Full || len(f.Data) == 0 {
		return b // the client gets an error, not an end; or the end has no event
	}
	if r.Masker == nil {
		return append(b, f.Raw...)
	}
	if f.End() {
		return append(r.all(b), f.Raw...)
	}
	plain := r.Codec.WithoutLogprobs(r.Endpoint, f.Data) // single tokens would reveal a secret
	data, err := r.Codec.Rewrite(r.Endpoint, plain, openai.Rewriter{
		Whole: func(name string, value []byte) ([]byte, int) {
			value, n := r.Masker.Field(name, value)
			r.found += n
			return value, n
		},
		Piece: func(p openai.Place, piece string) string {
			t := r.text(p)
			if t == nil {
				return ""
			}
			r.buf = t.stream.Write(r.buf[:0], piece)
			if slices.Contains(e.Ended, p.Choice) { // the held text of others goes into an event before this one
				r.buf = t.stream.Close(r.buf)
			}
			r.noteLast(t, f, plain)
			return string(r.buf)
		},
	})
	if err != nil || r.Full {
		return b // it was parsed before: an event that cannot be masked is not passed on
	}
	if r.Endpoint == openai.Responses {
		if ended := r.texts[string(r.Codec.Completed(f.Data))]; ended != nil {
			b = r.rest(b, ended)
		}
	}
	if r.Endpoint != openai.Chat && e.Done {
		b = r.all(b)
	}
	for _, choice := range e.Ended {
		b = r.ended(b, func(t *runningText) bool { return t.place.Choice == choice })
	}
	if len(data) == len(f.Data) && &data[0] == &f.Data[0] {
		return append(b, f.Raw...)
	}
	// Between values, JSON may have line breaks, which would end the event's data.
	return openai.AppendFrame(b, string(f.Name), bytes.ReplaceAll(data, []byte{'\n'}, []byte{' '}))
}

// noteLast notes a text's last event, if more of the text is to follow it.
func (r *Relay) noteLast(t *runningText, f openai.Frame, plain []byte) {
	r.held -= t.size()
	t.last, t.name = nil, ""
	if t.stream.Held() && r.Endpoint == openai.Responses {
		const anyElement = "." // not empty: that would not count as a piece
		bare, err := r.Codec.Rewrite(r.Endpoint, plain, openai.Rewriter{
			Whole: func(string, []byte) ([]byte, int) { return nil, 0 },
			Piece: func(openai.Place, string) string { return anyElement },
		})
		if err == nil && r.held+2*len(t.place.Key)+len(bare)+len(f.Name) <= maxTextBytes {
			t.last, t.name = bytes.ReplaceAll(bare, []byte{'\n'}, []byte{' '}), string(f.Name)
		} else {
			r.Full = true
		}
	}
	r.held += t.size()
}

// text returns the text of a place, or nil if there are too many.
func (r *Relay) text(p openai.Place) *runningText {
	t := r.texts[string(p.Key)]
	if t == nil {
		if len(r.texts) == MaxTexts || r.held+2*len(p.Key) > maxTextBytes {
			r.Full = true
			return nil
		}
		if r.texts == nil {
			r.texts = map[string]*runningText{}
		}
		t = &runningText{place: p.Clone(), stream: r.Masker.Stream()}
		r.texts[string(t.place.Key)] = t
		r.held += t.size()
	}
	return t
}

// all appends the rest of all texts.
func (r *Relay) all(b []byte) []byte {
	return r.ended(b, func(*runningText) bool { return true })
}

// ended appends the rest of some texts, in the order of their keys.
func (r *Relay) ended(b []byte, which func(t *runningText) bool) []byte {
	for _, key := range slices.Sorted(maps.Keys(r.texts)) {
		if t := r.texts[key]; which(t) {
			b = r.rest(b, t)
		}
	}
	return b
}

// rest appends the held part of a text, which has ended.
func (r *Relay) rest(b []byte, t *runningText) []byte {
	delete(r.texts, string(t.place.Key)) // later pieces there are a new text
	r.held -= t.size()
	held := t.stream.Held()
	r.buf = t.stream.Close(r.buf[:0])
	r.found += t.stream.Found()
	if !held {
		return b
	}
	rest := string(r.buf)
	if r.Endpoint != openai.Responses {
		name, data := r.Codec.Continue(r.Endpoint, t.place, rest)
		return openai.AppendFrame(b, name, data)
	}
	data, err := r.Codec.Rewrite(r.Endpoint, t.last, openai.Rewriter{
		Whole: r.Masker.Field,
		Piece: func(openai.Place, string) string { return rest },
	})
	if err != nil {
		return b // it was parsed before
	}
	return openai.AppendFrame(b, t.name, data)
}

// Masked returns how many secrets have been replaced.
func (r *Relay) Masked() int {
	n := r.found
	for _, t := range r.texts {
		n += t.stream.Found()
	}
	return n
}
