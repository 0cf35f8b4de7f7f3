package openai

import (
	"bytes"
	"encoding/json"
	"sync"
)

// JSON is a library that encodes and decodes.
type JSON interface {
	Unmarshal(data []byte, v any) error
	// Append encodes v and appends it to b.
	Append(b []byte, v any) ([]byte, error)
}

// A Codec reads and writes messages. Its methods may be called from any goroutine.
type Codec struct {
	// JSON reads requests, and errors of upstreams, whose form is open. Answers and events are read in one pass, without it.
	JSON JSON
}

// Standard is the codec of the gateway: it uses encoding/json.
func Standard() Codec { return Codec{JSON: &standard{}} }

// standard is encoding/json. Its encoders write to the caller's buffer, where json.Marshal would return a copy.
type standard struct{ encoders sync.Pool } // of *encoder

// An encoder is a json.Encoder with its buffer.
type encoder struct {
	b []byte
	e *json.Encoder
}

func (w *encoder) Write(text []byte) (int, error) {
	w.b = append(w.b, text...)
	return len(text), nil
}

func (s *standard) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func (s *standard) Append(b []byte, v any) ([]byte, error) {
	w, ok := s.encoders.Get().(*encoder)
	if !ok {
		w = &encoder{}
		w.e = json.NewEncoder(w)
	}
	w.b = b
	err := w.e.Encode(v) // writes all or nothing
	text := w.b
	w.b = nil
	if err != nil {
		return b, err // the encoder is not used again: it remembers errors
	}
	s.encoders.Put(w)
	return bytes.TrimSuffix(text, []byte("\n")), nil
}
