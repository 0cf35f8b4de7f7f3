package channels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of one batch for a sink.
const (
	batchRecords = 256
	batchBytes   = 256 << 10
)

// A sink takes records out of a buffer until the buffer is empty and closed, or until ctx
// is done, the drain deadline. It tries again what can be tried again, and returns an
// error if the channel cannot go on.
type sink interface {
	run(ctx context.Context, b *buffer) error
}

// encode appends records in the sink's format.
func encode(out []byte, format string, records []Record) []byte {
	for i := range records {
		if format == Framed {
			out = records[i].AppendFrame(out)
		} else {
			out = append(append(out, records[i].Payload...), '\n')
		}
	}
	return out
}

// lastWhole returns the number of the last record that is whole within the first n
// encoded bytes, 0 if there is none.
func lastWhole(format string, records []Record, n int) (seq uint64) {
	for i := range records {
		if format == Framed {
			n -= frameHead
		} else {
			n-- // the newline
		}
		if n -= len(records[i].Payload); n < 0 {
			break
		}
		seq = records[i].Seq
	}
	return seq
}

// A backoff is the pause before the next attempt. It doubles each time. Half of it is
// random, so that clients that failed together do not come back together.
type backoff struct {
	min, max, current time.Duration
	rng               *rand.Rand
}

func (b *backoff) next() time.Duration {
	b.current = min(max(2*b.current, b.min), b.max)
	return b.current/2 + time.Duration(b.rng.Int64N(int64(b.current/2)+1))
}

func (b *backoff) reset() { b.current = 0 }

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// A tcpSink dials its peer and sends it records. It reconnects after failures.
type tcpSink struct {
	config Sink
	window int // records sent and not acknowledged
	stream StreamID
	again  bool // an earlier process began the stream: the peer may be ahead
	retry  backoff
	count  *counters
	log    *slog.Logger
}

func (s *tcpSink) run(ctx context.Context, b *buffer) error {
	for {
		if err := b.await(ctx); errors.Is(err, errDone) {
			return nil
		} else if err != nil {
			return err
		}
		dialer := net.Dialer{Timeout: s.config.DialTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", s.config.Address)
		if err == nil {
			s.count.connects.Add(1)
			if s.config.Format == Framed {
				err = s.framed(ctx, conn, b)
			} else {
				err = s.raw(ctx, conn, b)
			}
			conn.Close()
			if errors.Is(err, errDone) {
				return nil
			}
			b.rewind()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.count.sinkErrors.Add(1)
		wait := s.retry.next()
		s.log.Warn("sink failed, will connect again", "address", s.config.Address, "in", wait, "err", err)
		pause(ctx, wait)
	}
}

// raw writes records until the connection fails. Records that the kernel took are
// settled. A peer that closes its side counts as gone.
func (s *tcpSink) raw(ctx context.Context, conn net.Conn, b *buffer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { conn.Close() })
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel(nil)
	reader.Go(func() {
		_, err := io.Copy(io.Discard, conn)
		cancel(errors.Join(errors.New("the peer closed the connection"), err))
	})

	var records []Record
	var out []byte
	for {
		var err error
		records, err = b.take(ctx, records[:0], batchRecords, batchBytes, b.limit.Records)
		if err != nil {
			if errors.Is(err, errDone) {
				_ = conn.(*net.TCPConn).CloseWrite() // fails only if the peer is gone, and all is settled by then
			}
			return err
		}
		out = encode(out[:0], Raw, records)
		n, err := conn.Write(out)
		if last := lastWhole(Raw, records, n); last > 0 {
			b.settle(last)
			s.retry.reset()
		}
		if err != nil {
			cancel(err)
			return context.Cause(ctx)
		}
	}
}

// framed writes records and reads acknowledgements until the connection fails, or until
// every record is acknowledged.
func (s *tcpSink) framed(ctx context.Context, conn net.Conn, b *buffer) error {
	conn.SetDeadline(time.Now().Add(s.config.AckTimeout))
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { conn.Close() }) // a later deadline cannot undo that
	var acks sync.WaitGroup
	defer acks.Wait()
	defer cancel(nil)

	if _, err := conn.Write(appendHeader(nil, s.stream)); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	var first [ackSize]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return fmt.Errorf("read the peer's position: %w", err)
	}
	has := binary.BigEndian.Uint64(first[:])
	if _, newest := b.unsettled(); has > newest && !s.again {
		return fmt.Errorf("the peer claims record %d of stream %v, which has only %d", has, s.stream, newest)
	}
	b.settle(has)
	acks.Go(func() { cancel(s.readAcks(conn, b, has)) })

	var records []Record
	var out []byte
	for {
		var err error
		records, err = b.take(ctx, records[:0], batchRecords, batchBytes, s.window)
		if errors.Is(err, errFinal) {
			err = b.flushed(ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		out = encode(out[:0], Framed, records)
		conn.SetWriteDeadline(time.Now().Add(s.config.AckTimeout))
		if _, err := conn.Write(out); err != nil {
			cancel(err)
			return context.Cause(ctx)
		}
	}
}

// readAcks settles what the peer acknowledges. It returns if the connection fails, if the
// peer acknowledges what it was not sent, or if it has been silent for AckTimeout or a
// little longer while records wait.
func (s *tcpSink) readAcks(conn net.Conn, b *buffer, last uint64) error {
	var buf [ackSize * 64]byte
	have, overdue := 0, false
	for {
		conn.SetReadDeadline(time.Now().Add(s.config.AckTimeout))
		n, err := conn.Read(buf[have:])
		have += n
		if whole := have - have%ackSize; whole > 0 {
			ack := binary.BigEndian.Uint64(buf[whole-ackSize : whole])
			copy(buf[:], buf[whole:have])
			have -= whole
			if !b.handedOut(ack) {
				return fmt.Errorf("the peer acknowledges record %d, which it was not sent", ack)
			}
			if ack > last {
				last, overdue = ack, false
				b.settle(ack)
				s.retry.reset()
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			waiting, _ := b.unsettled()
			if waiting > 0 && overdue {
				return fmt.Errorf("no acknowledgement in %v", s.config.AckTimeout)
			}
			overdue = waiting > 0
			continue
		}
		if err != nil {
			return fmt.Errorf("read acknowledgement: %w", err)
		}
	}
}

// A fileSink appends to a file. The records that it has settled are in the file. After a
// failure, it cuts off everything beyond them and writes it again.
type fileSink struct {
	config  Sink
	file    appendFile
	regular bool  // it can be truncated
	size    int64 // of the settled records and the header
	written int64 // size, and what was written since
	dirty   bool  // the file may be longer than written
	retry   backoff
	count   *counters
	log     *slog.Logger
}

// An appendFile is the part of *os.File that a fileSink writes through.
type appendFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// openFileSink opens the file, cuts off what a crash left incomplete, and returns what
// the file already holds. For the framed format that is its stream, which is the given
// one if the file is new, and the last sequence number.
func openFileSink(config Sink, maxRecord int, log *slog.Logger) (s *fileSink, held *Summary, err error) {
	// The source may be for its owner only. Who has made the file says himself who may read it.
	f, err := os.OpenFile(config.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open sink: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	s = &fileSink{config: config, file: f, log: log}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("open sink: %w", err)
	}
	if s.regular = info.Mode().IsRegular(); !s.regular {
		return s, nil, nil
	}
	// Two writers would cut off each other's records.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, nil, fmt.Errorf("open sink: %s: in use by another process: %w", config.Path, err)
	}
	var whole int64
	if config.Format == Framed {
		held, whole, err = wholeFrames(f, maxRecord)
	} else {
		whole, err = wholeLines(f, info.Size(), maxRecord)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open sink: %s: %w", config.Path, err)
	}
	if whole < info.Size() {
		log.Warn("cut off an incomplete record at the end of the sink's file", "path", config.Path, "bytes", info.Size()-whole)
		if err := f.Truncate(whole); err != nil {
			return nil, nil, fmt.Errorf("open sink: cut off incomplete record: %w", err)
		}
	}
	s.size, s.written = whole, whole
	return s, held, nil
}

// wholeFrames returns what a framed file holds and where its last whole frame ends. Only
// an incomplete frame at the end can come from a crash; any other fault is an error. The
// summary is nil if there is no whole header.
func wholeFrames(f io.Reader, maxRecord int) (*Summary, int64, error) {
	r, err := NewReader(f, maxRecord)
	if errors.Is(err, io.EOF) || errors.Is(err, ErrShort) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	held := &Summary{Stream: r.Stream()}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrShort) {
			return held, r.Offset(), nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w: move the file away to begin a new one", err)
		}
		held.Records++
		held.Last = rec.Seq
	}
}

// wholeLines returns where the last whole line ends.
func wholeLines(f io.ReaderAt, size int64, maxRecord int) (int64, error) {
	tail := make([]byte, min(size, int64(maxRecord)+1))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for i := len(tail); i > 0; i-- {
		if tail[i-1] == '\n' {
			return size - int64(len(tail)-i), nil
		}
	}
	if int64(len(tail)) == size {
		return 0, nil // only the start of a first record
	}
	return 0, fmt.Errorf("its last line is longer than max_record_bytes, %d: not written by this channel", maxRecord)
}

// begin writes the header of a new framed file.
func (s *fileSink) begin(id StreamID) error {
	n, err := s.file.Write(appendHeader(nil, id))
	s.size += int64(n)
	s.written = s.size
	if err != nil {
		return fmt.Errorf("write header of %s: %w", s.config.Path, err)
	}
	return nil
}

func (s *fileSink) run(ctx context.Context, b *buffer) (err error) {
	defer func() {
		// Closing returns the kernel's error for data that it took and that was never
		// synced.
		if closeErr := s.file.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close sink: %w", closeErr))
		}
	}()
	var records []Record
	var out []byte
	lastSync := time.Now()
	newest := uint64(0) // number of the last record written
	// attempt writes and settles one batch, and syncs if it is time.
	attempt := func() error {
		deadline, cancel := ctx, context.CancelFunc(func() {})
		if s.config.Sync == SyncInterval && s.written > s.size {
			deadline, cancel = context.WithDeadline(ctx, lastSync.Add(s.config.SyncEvery))
		}
		defer cancel()
		var err error
		records, err = b.take(deadline, records[:0], batchRecords, batchBytes, b.limit.Records)
		switch {
		case ctx.Err() != nil, errors.Is(err, errDone):
			return err
		case err == nil:
			out = encode(out[:0], s.config.Format, records)
			n, err := s.file.Write(out)
			s.written += int64(n)
			s.dirty = err != nil
			if err != nil {
				return fmt.Errorf("write: %w", err)
			}
			newest = records[len(records)-1].Seq
			// Unsynced records fill the buffer. Without this, producers would wait for
			// the interval to end.
			if s.config.Sync == SyncInterval && time.Since(lastSync) < s.config.SyncEvery && !b.halfUnsettled() {
				return nil
			}
		}
		if s.config.Sync != SyncNever {
			if err := s.file.Sync(); err != nil && s.regular {
				// The kernel may have dropped the pages, so unsettled records are written
				// again rather than only synced again.
				s.dirty = true
				return fmt.Errorf("sync: %w", err)
			}
			lastSync = time.Now()
		}
		s.size = s.written
		b.settle(newest)
		s.retry.reset()
		return nil
	}
	for {
		err := s.clean()
		if err == nil {
			err = attempt()
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errDone):
			return nil
		case ctx.Err() != nil:
			// Records that are in the file but not yet synced need only one sync.
			if !s.dirty && s.written > s.size && s.file.Sync() == nil {
				s.size = s.written
				b.settle(newest)
			}
			return errors.Join(context.Cause(ctx), s.clean())
		}
		b.rewind()
		s.count.sinkErrors.Add(1)
		wait := s.retry.next()
		s.log.Warn("sink failed, will try again", "path", s.config.Path, "in", wait, "err", err)
		pause(ctx, wait)
	}
}

// clean cuts off what was written but not settled, after a failure.
func (s *fileSink) clean() error {
	if !s.dirty {
		return nil
	}
	if s.regular {
		if err := s.file.Truncate(s.size); err != nil {
			return fmt.Errorf("cut off what was written incompletely: %w", err)
		}
	}
	s.written, s.dirty = s.size, false
	return nil
}

// A writerSink writes to standard output. That cannot be opened again: if it fails, the
// channel fails.
type writerSink struct {
	format string
	stream StreamID
	out    io.Writer
}

func (s *writerSink) run(ctx context.Context, b *buffer) error {
	if s.format == Framed {
		if _, err := s.write(ctx, appendHeader(nil, s.stream)); err != nil {
			return err
		}
	}
	var records []Record
	for {
		var err error
		records, err = b.take(ctx, records[:0], batchRecords, batchBytes, b.limit.Records)
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := s.write(ctx, encode(nil, s.format, records))
		if last := lastWhole(s.format, records, n); last > 0 {
			b.settle(last)
		}
		if err != nil {
			return err
		}
	}
}

// write writes p, and stops waiting when ctx is done: a write to a pipe that nobody reads
// ends only with the process.
func (s *writerSink) write(ctx context.Context, p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := s.out.Write(p)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			r.err = fmt.Errorf("write to standard output: %w", r.err)
		}
		return r.n, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
