package formats

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
)

// Gob is Go's own format: a resource is a Document. Package encoding/gob is not made for hostile
// input.
var Gob gobs

type gobs struct{}

// Append writes a document as a stream of its own, which begins with the descriptions of types.
func (gobs) Append(dst []byte, d *Document) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := gob.NewEncoder(b).Encode(d)
	return b.Bytes(), err
}

// Decode parses the result of Append.
func (gobs) Decode(text []byte) (*Document, error) {
	r := bytes.NewReader(text)
	d := new(Document)
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
