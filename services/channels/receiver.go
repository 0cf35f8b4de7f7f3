package channels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// maxStreams bounds how many streams a receiver remembers.
const maxStreams = 1024

// A receiver is the other end of framed TCP sinks. It hands on each record once, in order,
// and acknowledges it afterwards. It may serve any number of connections, also several of
// one stream, for example after a reconnection that only one side has noticed.
type receiver struct {
	maxPayload int
	idle       time.Duration // a peer that is silent for so long is disconnected; 0: never
	count      *counters

	mu      sync.Mutex
	streams map[StreamID]*received // guarded by mu
	clock   uint64                 // guarded by mu: connections so far
}

// received is the state of a stream.
type received struct {
	open int    // guarded by receiver.mu: connections
	used uint64 // guarded by receiver.mu: the clock when the last connection came

	mu   sync.Mutex // held while a record is handled; taken after receiver.mu, never before
	last uint64     // guarded by mu: the number of the last record that was handled, 0 for none
}

func newReceiver(maxPayload int, idle time.Duration, count *counters) *receiver {
	return &receiver{maxPayload: maxPayload, idle: idle, count: count, streams: map[StreamID]*received{}}
}

// enter returns the state of a stream that has one more connection. If there are too many
// streams, it forgets the one without connections whose last one came first.
func (r *receiver) enter(id StreamID) (*received, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streams[id]
	if s == nil {
		if len(r.streams) == maxStreams && !r.forget() {
			return nil, fmt.Errorf("stream %v: %d others are connected: want at most %d", id, maxStreams, maxStreams)
		}
		s = &received{}
		r.streams[id] = s
	}
	r.clock++
	s.open++
	s.used = r.clock
	return s, nil
}

func (r *receiver) leave(s *received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.open--
}

// forget is called with mu held. It returns false if all streams have connections.
func (r *receiver) forget() bool {
	var oldest StreamID
	var found *received
	for id, s := range r.streams {
		if s.open == 0 && (found == nil || s.used < found.used) {
			oldest, found = id, s
		}
	}
	if found == nil {
		return false
	}
	delete(r.streams, oldest)
	return true
}

// serve receives from one connection until it ends or ctx is done. It calls handle for each
// new record, in the order of their numbers, and one at a time within a stream. The payload
// is valid during the call. If handle returns an error, the connection ends, and the peer
// sends the record again on the next. The caller closes the connection.
func (r *receiver) serve(ctx context.Context, conn net.Conn, handle func(StreamID, Record) error) error {
	// Only reading ends with ctx, so that what was handled is still acknowledged.
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })
	defer stop()

	var header [headerSize]byte
	r.await(ctx, conn)
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return fmt.Errorf("read header: %w", err)
	}
	id, err := decodeHeader(header[:])
	if err != nil {
		return err
	}
	s, err := r.enter(id)
	if err != nil {
		return err
	}
	defer r.leave(s)
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if err := acknowledge(conn, last); err != nil {
		return err
	}

	// A whole frame always fits, and usually many do.
	buf := make([]byte, max(64<<10, frameHead+r.maxPayload))
	have := 0
	for {
		r.await(ctx, conn)
		n, readErr := conn.Read(buf[have:])
		have += n
		used, last, err := r.frames(id, s, buf[:have], handle)
		if last > 0 {
			// One acknowledgement covers everything that came with one read.
			if err := acknowledge(conn, last); err != nil {
				return err
			}
		}
		switch {
		case err != nil:
			return err
		case errors.Is(readErr, io.EOF) && used == have, readErr != nil && ctx.Err() != nil:
			return nil
		case errors.Is(readErr, io.EOF):
			return ErrShort
		case readErr != nil:
			return fmt.Errorf("receive: %w", readErr)
		}
		have = copy(buf, buf[used:have])
	}
}

// await bounds how long the next read waits.
func (r *receiver) await(ctx context.Context, conn net.Conn) {
	if r.idle > 0 {
		conn.SetReadDeadline(time.Now().Add(r.idle))
	}
	if ctx.Err() != nil { // ctx may have ended just before the line above
		conn.SetReadDeadline(time.Now())
	}
}

func acknowledge(conn net.Conn, last uint64) error {
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, last)); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// frames handles the whole frames at the start of b. It returns their length and the
// number to acknowledge, 0 if there is none.
func (r *receiver) frames(id StreamID, s *received, b []byte, handle func(StreamID, Record) error) (used int, last uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		rec, n, err := DecodeFrame(b[used:], r.maxPayload)
		if errors.Is(err, ErrShort) {
			return used, last, nil
		}
		if err != nil {
			r.count.rejected.Add(1)
			return used, last, err
		}
		if rec.Seq <= s.last {
			r.count.repeated.Add(1)
		} else {
			if err := handle(id, rec); err != nil {
				return used, last, fmt.Errorf("handle record %d: %w", rec.Seq, err)
			}
			if s.last > 0 { // else nobody knows what an earlier process has
				r.count.missing.Add(rec.Seq - s.last - 1)
			}
			s.last = rec.Seq
		}
		last = s.last
		used += n
	}
}
