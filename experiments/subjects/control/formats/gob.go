package formats

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"

	"dyno/services/control/format"
)

// Gob is Go's own format: a resource is a format.Document.
// Package encoding/gob is not made for hostile input: a server that has this format is for measurements only.
var Gob format.Format = gobs{}

type gobs struct{}

func (gobs) MediaTypes() []string { return []string{"application/x-gob"} }

// Append writes a document as a stream of its own, which begins with the descriptions of types.
func (gobs) Append(dst []byte, d *format.Document) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := gob.NewEncoder(b).Encode(d)
	return b.Bytes(), err
}

func (gobs) Decode(text []byte) (*format.Document, error) {
	r := bytes.NewReader(text)
	d := new(format.Document)
	if err := gob.NewDecoder(r).Decode(d); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if r.Len() > 0 {
		return nil, errors.New("there is more after the document")
	}
	return d, nil
}
