package websocket

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/flate"

	"dyno/load/wire"
)

// tail ends a compressed message; it is not sent (RFC 7692, section 7.2.1). The block behind it, which is the last
// one and empty, ends the stream for the decoder.
var (
	tail     = []byte("\x00\x00\xff\xff")
	lastTail = []byte("\x00\x00\xff\xff\x01\x00\x00\xff\xff")
)

// windowSize is how far back compressed data refers, at most.
const windowSize = 32 << 10

// A deflater compresses and decompresses messages, for all connections of a worker.
type deflater struct {
	writer *flate.Writer
	packed bytes.Buffer
	reader io.ReadCloser
	source source
	plain  []byte
}

// A source is a compressed message, and then what ends it.
type source struct{ rest, tail []byte }

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		s.rest, s.tail = s.tail, nil
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// ReadByte implements io.ByteReader: without it, the decoder would read ahead into a buffer of its own.
func (s *source) ReadByte() (byte, error) {
	var b [1]byte
	_, err := s.Read(b[:])
	return b[0], err
}

// compress compresses a message by itself. The result is valid until the next call.
func (d *deflater) compress(message []byte) []byte {
	d.packed.Reset()
	if d.writer == nil {
		d.writer, _ = flate.NewWriter(&d.packed, flate.BestSpeed) // the level is right
	} else {
		d.writer.Reset(&d.packed)
	}
	_, _ = d.writer.Write(message) // a bytes.Buffer takes all
	_ = d.writer.Flush()
	return bytes.TrimSuffix(d.packed.Bytes(), tail)
}

// decompress decompresses a message, which may refer to a window of those before it. The result is valid until the
// next call.
func (d *deflater) decompress(message, window []byte, most int64) ([]byte, *wire.Error) {
	d.source = source{message, lastTail}
	if d.reader == nil {
		d.reader = flate.NewReaderDict(&d.source, window)
	} else if err := d.reader.(flate.Resetter).Reset(&d.source, window); err != nil {
		return nil, ErrDeflate
	}
	d.plain = d.plain[:0]
	for {
		if len(d.plain) == cap(d.plain) {
			d.plain = append(d.plain, 0)[:len(d.plain)]
		}
		n, err := d.reader.Read(d.plain[len(d.plain):cap(d.plain)])
		d.plain = d.plain[:len(d.plain)+n]
		switch {
		case int64(len(d.plain)) > most:
			return nil, ErrTooLarge
		case err == io.EOF:
			return d.plain, nil
		case err != nil:
			return nil, ErrDeflate
		}
	}
}

// slide returns the window behind a message.
func slide(window, message []byte) []byte {
	if len(message) >= windowSize {
		return append(window[:0], message[len(message)-windowSize:]...)
	}
	if over := len(window) + len(message) - windowSize; over > 0 {
		window = window[:copy(window, window[over:])]
	}
	return append(window, message...)
}
