package channels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// maxStreams bounds how many streams a Receiver remembers. It refuses connections of
// further streams.
const maxStreams = 1024

// A Receiver is the other end of framed TCP sinks. It passes on each record once, in
// order, and acknowledges it afterwards. It may serve any number of connections, also
// several of one stream, for example after a reconnection that only one side has noticed.
type Receiver struct {
	handle     func(StreamID, Record) error
	maxPayload int

	mu      sync.Mutex
	streams map[StreamID]*received // guarded by mu
}

// received is the state of a stream.
type received struct {
	mu         sync.Mutex // held while a record is handled; taken after Receiver.mu, never before
	last       uint64     // guarded by mu
	duplicates uint64     // guarded by mu
	missing    uint64     // guarded by mu
}

// NewReceiver returns a receiver for payloads of at most maxPayload bytes. It calls
// handle for each new record, in the order of their numbers and one at a time within a
// stream. The payload is valid during the call. If handle returns an error, the
// connection ends, and the record is sent again on the next.
func NewReceiver(maxPayload int, handle func(StreamID, Record) error) *Receiver {
	return &Receiver{handle: handle, maxPayload: maxPayload, streams: map[StreamID]*received{}}
}

// Resume records that an earlier receiver has handled every record of the stream up to
// seq.
func (r *Receiver) Resume(id StreamID, seq uint64) error {
	s, err := r.stream(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, seq)
	return nil
}

// Stream returns the last number of a stream that was handled, how many records were sent
// more than once, and how many numbers are missing, which means that their records were
// dropped.
func (r *Receiver) Stream(id StreamID) (last, duplicates, missing uint64) {
	r.mu.Lock()
	s := r.streams[id]
	r.mu.Unlock()
	if s == nil {
		return 0, 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.duplicates, s.missing
}

func (r *Receiver) stream(id StreamID) (*received, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streams[id]
	if s == nil {
		if len(r.streams) == maxStreams {
			return nil, fmt.Errorf("stream %v: already %d others", id, maxStreams)
		}
		s = &received{}
		r.streams[id] = s
	}
	return s, nil
}

// ServeConn receives from one connection until it ends, and closes it. It returns nil if
// the end comes between two records.
func (r *Receiver) ServeConn(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	var header [headerSize]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return fmt.Errorf("read header: %w", err)
	}
	id, err := decodeHeader(header[:])
	if err != nil {
		return err
	}
	s, err := r.stream(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, last)); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}

	// A whole frame always fits, and usually many do.
	buf := make([]byte, max(64<<10, frameHead+r.maxPayload))
	have := 0
	for {
		n, readErr := conn.Read(buf[have:])
		have += n
		used, last, err := r.frames(id, s, buf[:have])
		if last > 0 {
			// One acknowledgement covers everything that came with one read.
			if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, last)); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
		switch {
		case err != nil:
			return err
		case errors.Is(readErr, io.EOF) && used == have:
			return nil
		case errors.Is(readErr, io.EOF):
			return ErrShort
		case readErr != nil:
			return fmt.Errorf("receive: %w", readErr)
		}
		have = copy(buf, buf[used:have])
	}
}

// frames handles the whole frames at the start of b. It returns their length and the
// number to acknowledge, 0 if there is none.
func (r *Receiver) frames(id StreamID, s *received, b []byte) (used int, last uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		rec, n, err := DecodeFrame(b[used:], r.maxPayload)
		if errors.Is(err, ErrShort) {
			return used, last, nil
		}
		if err != nil {
			return used, last, err
		}
		if rec.Seq <= s.last {
			s.duplicates++
		} else {
			if err := r.handle(id, rec); err != nil {
				return used, last, fmt.Errorf("handle record %d: %w", rec.Seq, err)
			}
			s.missing += rec.Seq - s.last - 1
			s.last = rec.Seq
		}
		last = s.last
		used += n
	}
}
