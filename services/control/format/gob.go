package format

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
)

// appendGob writes a document as a stream of its own, which begins with the descriptions of types.
func appendGob(dst []byte, d *Document) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := gob.NewEncoder(b).Encode(d)
	return b.Bytes(), err
}

// appendGobs writes events as one stream: the types are described once.
func appendGobs(dst []byte, events []Event) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	e := gob.NewEncoder(b)
	for i := range events {
		if err := e.Encode(&events[i]); err != nil {
			return dst, err
		}
	}
	return b.Bytes(), nil
}

func readGob(text []byte) (*Document, error) {
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
