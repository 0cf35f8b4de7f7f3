package formats

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/mem"
)

// gobs is the codec of encoding/gob. It takes the structs of Protocol Buffers: gob encodes
// their exported fields. Each message is a stream of its own, which begins with the description
// of its type: gob saves that only where one peer reads all messages in their order.
type gobs struct{}

func (gobs) Name() string { return Gob }

// Marshal encodes a message.
func (gobs) Marshal(v any) (mem.BufferSlice, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return nil, fmt.Errorf("gob: %w", err)
	}
	return mem.BufferSlice{mem.SliceBuffer(b.Bytes())}, nil
}

var errTrailing = errors.New("gob: more than one message")

// Unmarshal decodes a message.
func (gobs) Unmarshal(data mem.BufferSlice, v any) error {
	if q, ok := v.(*question); ok {
		v = &q.message
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	r := bytes.NewReader(buffer.ReadOnlyData())
	if err := gob.NewDecoder(r).Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("gob: %w", err)
	}
	if r.Len() > 0 {
		return errTrailing
	}
	return nil
}
