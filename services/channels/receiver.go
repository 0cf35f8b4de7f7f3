package channels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// maxStreams bounds how many streams a receiver remembers.
const maxStreams = 1024

// A receiver is the other end of framed TCP sinks. It hands on each record once, in order, and acknowledges it once
// it is settled. It may serve any number of connections, also several of one stream: after a reconnect, one side may
// notice first.
type receiver struct {
	maxPayload int
	idle       time.Duration // a peer that is silent for so long is disconnected; 0: never
	count      *counters

	mu      sync.Mutex
	streams map[StreamID]*received // guarded by mu
	clock   uint64                 // guarded by mu: connections so far
}

// A handler takes the records of a connection.
type handler interface {
	// handle takes a new record, and returns the number that it has here. The payload is valid
	// during the call. After an error the connection ends, and the peer sends the record again.
	handle(stream StreamID, r Record) (number uint64, err error)

	// settled returns the number up to which all records are settled: delivered for good, or
	// dropped and counted. awaitSettled waits until a number's is.
	settled() (through uint64)
	awaitSettled(ctx context.Context, number uint64) (through uint64, err error)
}

// received is the state of a stream.
type received struct {
	open int    // guarded by receiver.mu: connections
	used uint64 // guarded by receiver.mu: the clock when the last connection came

	mu     sync.Mutex // held while a record is handled; taken after receiver.mu, never before
	last   uint64     // guarded by mu: the number of the last record that was handled, 0 for none
	number uint64     // guarded by mu: the number that it has here

	acknowledged atomic.Uint64 // the number up to which all are settled, as far as connections have found out
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

// serve receives from one connection until it ends or ctx is done. It gives h each new record, in the order of their
// numbers, and one at a time within a stream. When ctx is done, it stops reading, and waits until hard is done for
// records that can still be acknowledged. The caller closes the connection.
func (r *receiver) serve(ctx, hard context.Context, conn net.Conn, h handler) error {
	// Only reading ends with ctx, so that handled records are still acknowledged.
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
	if err := acknowledge(conn, s.settledThrough(h)); err != nil {
		return err
	}

	acks := newAcks()
	hard, end := context.WithCancel(hard)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer end()
	defer acks.close()
	writer.Go(func() {
		if err := acks.write(hard, conn, s, h); err != nil {
			conn.Close()
		}
	})

	// A whole frame always fits, and usually many do.
	buf := make([]byte, max(64<<10, frameHead+r.maxPayload))
	have := 0
	for {
		r.await(ctx, conn)
		n, readErr := conn.Read(buf[have:])
		have += n
		used, m, err := r.frames(id, s, buf[:have], h)
		if m.peer > 0 && !acks.add(m) {
			return errors.New("acknowledge: the connection is gone")
		}
		switch {
		case err != nil:
			return err
		case errors.Is(readErr, io.EOF) && used == have:
			return nil
		case errors.Is(readErr, io.EOF):
			return ErrShort
		case readErr != nil && ctx.Err() != nil:
			acks.close()
			writer.Wait()
			return nil
		case errors.Is(readErr, os.ErrDeadlineExceeded) && acks.awaited(): // the peer is silent because it waits
		case readErr != nil:
			return fmt.Errorf("receive: %w", readErr)
		}
		have = copy(buf, buf[used:have])
	}
}

// settledThrough returns the number of the peer's up to which all records are settled.
func (s *received) settledThrough(h handler) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.settled() >= s.number {
		s.acknowledged.Store(s.last)
	}
	return s.acknowledged.Load()
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
// record to acknowledge, of number 0 if there is none.
func (r *receiver) frames(id StreamID, s *received, b []byte, h handler) (used int, last mark, err error) {
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
			number, err := h.handle(id, rec)
			if err != nil {
				return used, last, fmt.Errorf("handle record %d: %w", rec.Seq, err)
			}
			if s.last > 0 { // otherwise the records of an earlier process are unknown
				r.count.missing.Add(rec.Seq - s.last - 1)
			}
			s.last, s.number = rec.Seq, number
		}
		last = mark{s.last, s.number}
		used += n
	}
}

// A mark is a record's number at its peer, and its number here.
type mark struct{ peer, number uint64 }

// maxMarks bounds the marks of a connection. Further ones replace the last.
const maxMarks = 64

// acks are the records of a connection that are to be acknowledged once they are settled: each
// stands for all before it.
type acks struct {
	mu     sync.Mutex
	marks  []mark        // guarded by mu, in order
	closed bool          // guarded by mu: no more will come
	gone   bool          // guarded by mu: nothing more can be written
	change chan struct{} // closed at a change of the fields under mu
}

func newAcks() *acks { return &acks{change: make(chan struct{}, 1)} }

// add adds a record, unless nothing more can be written.
func (a *acks) add(m mark) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.marks) == maxMarks {
		a.marks = a.marks[:maxMarks-1]
	}
	a.marks = append(a.marks, m)
	a.changed()
	return !a.gone
}

func (a *acks) changed() {
	select {
	case a.change <- struct{}{}:
	default:
	}
}

func (a *acks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.changed()
}

// awaited reports whether there is something to acknowledge.
func (a *acks) awaited() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.marks) > 0 && !a.gone
}

// write acknowledges records as they are settled, until acks is closed and all are, or ctx is done.
func (a *acks) write(ctx context.Context, conn net.Conn, s *received, h handler) (err error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.gone = err != nil
	}()
	for {
		a.mu.Lock()
		var first mark
		if len(a.marks) > 0 {
			first = a.marks[0]
		}
		closed := a.closed
		a.mu.Unlock()
		switch {
		case first.peer > 0:
		case closed:
			return nil
		default:
			select {
			case <-a.change:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		through, err := h.awaitSettled(ctx, first.number)
		if err != nil {
			return err
		}
		a.mu.Lock()
		n, last := 0, uint64(0)
		for ; n < len(a.marks) && a.marks[n].number <= through; n++ {
			last = a.marks[n].peer
		}
		a.marks = append(a.marks[:0], a.marks[n:]...)
		a.mu.Unlock()
		s.acknowledged.Store(max(last, s.acknowledged.Load()))
		if err := acknowledge(conn, last); err != nil {
			return err
		}
	}
}
