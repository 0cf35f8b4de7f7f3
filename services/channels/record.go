package channels

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A StreamID identifies one numbering of records.
type StreamID [16]byte

func (s StreamID) String() string { return hex.EncodeToString(s[:]) }

// MarshalText writes the identifier in hexadecimal.
func (s StreamID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the result of MarshalText.
func (s *StreamID) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("stream %q: want 32 hexadecimal digits", text)
	}
	copy(s[:], b)
	return nil
}

// A Record is one unit of a channel.
type Record struct {
	Seq     uint64 // within its stream, from 1
	Source  uint64 // the connection it came from, from 1; 0 if there is only one source
	Sum     uint32 // CRC32C of payload and header; see the package comment
	Payload []byte
}

const (
	headerMagic = "dynorec1"
	headerSize  = len(headerMagic) + 16
	frameHead   = 24 // bytes before the payload
	ackSize     = 8
)

// The faults of framed bytes.
var (
	ErrShort    = errors.New("incomplete frame")
	ErrChecksum = errors.New("checksum does not match")
	ErrTooLong  = errors.New("payload longer than allowed")
	ErrHeader   = errors.New("not a stream of records: its header is missing")
)

func castagnoli(sum uint32, p []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), p)
}

// seal sets the record's numbers and its checksum. payloadSum is the checksum of the
// payload alone.
func (r *Record) seal(seq uint64, payloadSum uint32) {
	r.Seq = seq
	head := r.head()
	r.Sum = castagnoli(payloadSum, head[:])
}

func (r *Record) head() (h [frameHead - 4]byte) {
	binary.BigEndian.PutUint32(h[0:], uint32(len(r.Payload)))
	binary.BigEndian.PutUint64(h[4:], r.Seq)
	binary.BigEndian.PutUint64(h[12:], r.Source)
	return h
}

// AppendFrame appends the record as a frame, with the checksum it carries.
func (r *Record) AppendFrame(b []byte) []byte {
	head := r.head()
	b = append(b, head[:]...)
	b = binary.BigEndian.AppendUint32(b, r.Sum)
	return append(b, r.Payload...)
}

// DecodeFrame decodes the frame at the start of b and returns its length in bytes.
// ErrShort means that b ends before the frame does. ErrChecksum and ErrTooLong mean that
// the stream is broken. The payload is part of b.
func DecodeFrame(b []byte, maxPayload int) (Record, int, error) {
	if len(b) < frameHead {
		return Record{}, 0, ErrShort
	}
	length := int64(binary.BigEndian.Uint32(b))
	if length > int64(maxPayload) {
		return Record{}, 0, fmt.Errorf("frame of %d bytes: %w (%d)", length, ErrTooLong, maxPayload)
	}
	end := frameHead + int(length)
	if len(b) < end {
		return Record{}, 0, ErrShort
	}
	r := Record{
		Seq:     binary.BigEndian.Uint64(b[4:]),
		Source:  binary.BigEndian.Uint64(b[12:]),
		Sum:     binary.BigEndian.Uint32(b[20:]),
		Payload: b[frameHead:end:end],
	}
	if castagnoli(castagnoli(0, r.Payload), b[:frameHead-4]) != r.Sum {
		return Record{}, 0, fmt.Errorf("frame with sequence number %d: %w", r.Seq, ErrChecksum)
	}
	return r, end, nil
}

func appendHeader(b []byte, id StreamID) []byte {
	return append(append(b, headerMagic...), id[:]...)
}

func decodeHeader(b []byte) (id StreamID, err error) {
	if len(b) < headerSize || !bytes.HasPrefix(b, []byte(headerMagic)) {
		return id, ErrHeader
	}
	copy(id[:], b[len(headerMagic):])
	return id, nil
}

// A Reader reads a framed stream, such as a framed sink's file.
type Reader struct {
	r          *bufio.Reader
	id         StreamID
	maxPayload int
	offset     int64
	frame      []byte
}

// NewReader reads the header from r. Payloads may have up to maxPayload bytes.
// It returns io.EOF if r is empty, and ErrShort if it ends in the header.
func NewReader(r io.Reader, maxPayload int) (*Reader, error) {
	f := &Reader{r: bufio.NewReaderSize(r, 64<<10), maxPayload: maxPayload}
	var b [headerSize]byte
	n, err := io.ReadFull(f.r, b[:])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		if bytes.HasPrefix([]byte(headerMagic), b[:min(n, len(headerMagic))]) {
			return nil, ErrShort
		}
		return nil, ErrHeader
	}
	if err != nil {
		return nil, err
	}
	f.offset = int64(headerSize)
	f.id, err = decodeHeader(b[:])
	return f, err
}

// Stream returns the stream the header names.
func (f *Reader) Stream() StreamID { return f.id }

// Offset returns the length of the header and of all frames read so far.
func (f *Reader) Offset() int64 { return f.offset }

// Next returns the next record; its payload is valid until the next call. It returns io.EOF at the end, and ErrShort
// (wrapped, with the offset) inside a frame; otherwise errors of DecodeFrame.
func (f *Reader) Next() (Record, error) {
	at := func(err error) (Record, error) { return Record{}, fmt.Errorf("offset %d: %w", f.offset, err) }
	f.frame = append(f.frame[:0], make([]byte, frameHead)...)
	switch _, err := io.ReadFull(f.r, f.frame); err {
	case nil:
	case io.EOF:
		return Record{}, io.EOF
	case io.ErrUnexpectedEOF:
		return at(ErrShort)
	default:
		return at(err)
	}
	length := int64(binary.BigEndian.Uint32(f.frame))
	if length <= int64(f.maxPayload) {
		f.frame = append(f.frame, make([]byte, length)...)
		if _, err := io.ReadFull(f.r, f.frame[frameHead:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			return at(ErrShort)
		} else if err != nil {
			return at(err)
		}
	}
	r, n, err := DecodeFrame(f.frame, f.maxPayload)
	if err != nil {
		return at(err)
	}
	f.offset += int64(n)
	return r, nil
}

// A Summary is the result of Verify.
type Summary struct {
	Stream      StreamID
	Records     uint64
	Bytes       uint64 // of payload
	First, Last uint64 // sequence numbers
	Missing     uint64 // numbers between First and Last that no record has
	Repeated    uint64 // records whose number was not higher than all before
}

// Verify reads a framed stream to its end and checks every checksum and every sequence
// number. At the first broken or incomplete frame it stops with an error, and returns
// what it found before. If Missing and Repeated are 0, the records are in order, and
// nothing between First and Last was lost.
func Verify(r io.Reader, maxPayload int) (Summary, error) {
	var s Summary
	f, err := NewReader(r, maxPayload)
	if err != nil {
		return s, err
	}
	s.Stream = f.Stream()
	for {
		rec, err := f.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		switch {
		case s.Records == 0:
			s.First, s.Last = rec.Seq, rec.Seq
		case rec.Seq <= s.Last:
			s.Repeated++
		default:
			s.Missing += rec.Seq - s.Last - 1
			s.Last = rec.Seq
		}
		s.Records++
		s.Bytes += uint64(len(rec.Payload))
	}
}
