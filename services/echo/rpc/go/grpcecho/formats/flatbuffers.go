package formats

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	flatbuffers "github.com/google/flatbuffers/go"
	"google.golang.org/grpc/mem"

	"dyno/services/echo/rpc/echofb"
	"dyno/services/echo/rpc/echopb"
)

// tables is the codec of FlatBuffers, for unary Echo. A request is not decoded: its fields are
// read where they lie.
type tables struct{}

func (tables) Name() string { return FlatBuffers }

// A table is a request in FlatBuffers. Its fields lie in the buffer, which it owns.
type table struct {
	text, payload []byte
	status, delay uint32
	buffer        mem.Buffer
}

var errDamaged = errors.New("flatbuffers: damaged message")

// read finds the fields. FlatBuffers in Go has no verifier, but follows no offset out of the
// bytes: Go's own checks of bounds panic there, and that is what tells a damaged message.
func (t *table) read(b []byte) (err error) {
	defer func() {
		if recover() != nil {
			*t, err = table{}, errDamaged
		}
	}()
	m := echofb.GetRootAsEchoRequest(b, 0)
	t.text, t.payload, t.status, t.delay = m.Text(), m.PayloadBytes(), m.Status(), m.DelayMs()
	return nil
}

// free gives the buffer back.
func (t *table) free() {
	if t.buffer != nil {
		t.buffer.Free()
	}
	*t = table{}
}

// Unmarshal fills in a question, which keeps the buffer until it is freed.
func (tables) Unmarshal(data mem.BufferSlice, v any) error {
	q, ok := v.(*question)
	if !ok {
		return fmt.Errorf("flatbuffers: there is no table for %T", v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	if err := q.table.read(buffer.ReadOnlyData()); err != nil {
		buffer.Free()
		return err
	}
	q.table.buffer, q.isTable = buffer, true
	return nil
}

// A built is a message that is built, in the memory of its builder. It is the pool of the one
// buffer that shows it: when that has been sent, the builder can be used again.
type built struct {
	*flatbuffers.Builder
	message []byte
}

var _ mem.BufferPool = (*built)(nil)

// maxKept is the most memory that a builder keeps between messages, in bytes.
const maxKept = 64 << 10

var builders = sync.Pool{New: func() any { return &built{Builder: flatbuffers.NewBuilder(1 << 10)} }}

// Get is part of mem.BufferPool, and is not called here.
func (b *built) Get(n int) *[]byte { return mem.DefaultBufferPool().Get(n) }

// Put takes the message back.
func (b *built) Put(*[]byte) {
	if b.message = nil; cap(b.Bytes) <= maxKept {
		builders.Put(b)
	}
}

// request builds a request.
func request(m *echopb.EchoRequest) *built {
	b := builders.Get().(*built)
	b.Reset()
	text, payload := b.CreateString(m.GetText()), b.CreateByteVector(m.GetPayload())
	echofb.EchoRequestStart(b.Builder)
	echofb.EchoRequestAddText(b.Builder, text)
	echofb.EchoRequestAddPayload(b.Builder, payload)
	echofb.EchoRequestAddStatus(b.Builder, m.GetStatus())
	echofb.EchoRequestAddDelayMs(b.Builder, m.GetDelayMs())
	b.Finish(echofb.EchoRequestEnd(b.Builder))
	b.message = b.FinishedBytes()
	return b
}

// response builds an answer. It copies what it is given.
func response(text, payload []byte) *built {
	b := builders.Get().(*built)
	b.Reset()
	t, p := b.CreateByteString(text), b.CreateByteVector(payload)
	echofb.EchoResponseStart(b.Builder)
	echofb.EchoResponseAddText(b.Builder, t)
	echofb.EchoResponseAddPayload(b.Builder, p)
	b.Finish(echofb.EchoResponseEnd(b.Builder))
	b.message = b.FinishedBytes()
	return b
}

// Marshal hands over a message that was built, or builds one of a request.
func (tables) Marshal(v any) (mem.BufferSlice, error) {
	var b *built
	switch v := v.(type) {
	case *built:
		b = v
	case *echopb.EchoRequest:
		b = request(v)
	default:
		return nil, fmt.Errorf("flatbuffers: there is no table for %T", v)
	}
	if mem.IsBelowBufferPoolingThreshold(cap(b.message)) { // such a buffer does not come back
		defer b.Put(nil)
		return mem.BufferSlice{mem.SliceBuffer(bytes.Clone(b.message))}, nil
	}
	return mem.BufferSlice{mem.NewBuffer(&b.message, b)}, nil
}
