package channels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
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

// A sink takes records from a buffer until that is empty and closed, or ctx ends at the drain deadline. It
// retries where that can help, and returns an error if the channel cannot go on.
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

// lastWhole returns the number of the last complete record within the first n encoded bytes, 0 if none.
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

// readAcks settles what the peer acknowledges. It returns if the connection fails, or if the peer acknowledges
// records that it was not sent. It also returns if the peer is silent for about AckTimeout while records wait.
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
// failure, it cuts off everything beyond them and writes it again. It follows its path: when the
// file there is another one, or has become shorter, it goes on with what is at the path.
type fileSink struct {
	config    Sink
	maxRecord int
	stream    StreamID // in the header of a framed file
	file      appendFile
	regular   bool  // it can be truncated, renamed and removed
	size      int64 // of the settled records and the header
	written   int64 // size, and what was written since
	dirty     bool  // the file may be longer than written
	retry     backoff
	count     *counters
	log       *slog.Logger

	looked       time.Time     // when the path was looked at
	syncWithin   time.Duration // how long records may be unsynced, if they are synced at intervals
	mostUnsynced int           // how many records may be
	savePosition func() error  // of the source; nil: it has none
}

// An appendFile is the part of *os.File that a fileSink works with.
type appendFile interface {
	io.WriteCloser
	io.ReaderAt
	Stat() (os.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// openFileSink opens the file, cuts off what a crash left incomplete, and returns what
// the file already holds. For the framed format that is its stream and the last sequence
// number, and nil if it has no record.
func openFileSink(config Sink, maxRecord int, log *slog.Logger) (s *fileSink, held *Summary, err error) {
	s = &fileSink{config: config, maxRecord: maxRecord, log: log, syncWithin: config.SyncEvery, mostUnsynced: math.MaxInt, looked: time.Now()}
	f, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	if held, err = s.adopt(f); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return s, held, nil
}

// open opens the file at the path for this sink alone.
func (s *fileSink) open() (f *os.File, err error) {
	// The source may be for its owner only. The mode of an existing file stays.
	f, err = os.OpenFile(s.config.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	if !info.Mode().IsRegular() {
		return f, nil
	}
	// Two writers would cut off each other's records.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("open sink: %s: in use by another process: %w", s.config.Path, err)
	}
	if s.config.Sync != SyncNever {
		err = syncFolder(s.config.Path) // so that a new file is found after a crash
	}
	return f, err
}

// adopt makes a file the sink's. It cuts off an incomplete record at its end, and returns what it holds.
func (s *fileSink) adopt(f appendFile) (held *Summary, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	regular, whole := info.Mode().IsRegular(), int64(0)
	if regular {
		if s.config.Format == Framed {
			held, whole, err = wholeFrames(io.NewSectionReader(f, 0, info.Size()), s.maxRecord)
		} else {
			whole, err = wholeLines(f, info.Size(), s.maxRecord)
		}
		if err != nil {
			return nil, fmt.Errorf("open sink: %s: %w", s.config.Path, err)
		}
		if held != nil && s.stream != (StreamID{}) && held.Stream != s.stream {
			return nil, fmt.Errorf("open sink: %s holds stream %v, and this channel has stream %v: move it away", s.config.Path, held.Stream, s.stream)
		}
		if whole < info.Size() {
			s.log.Warn("cut off an incomplete record at the end of the sink's file", "path", s.config.Path, "bytes", info.Size()-whole)
			if err := f.Truncate(whole); err != nil {
				return nil, fmt.Errorf("open sink: cut off incomplete record: %w", err)
			}
		}
	}
	s.file, s.regular, s.size, s.written, s.dirty = f, regular, whole, whole, false
	return held, nil
}

// wholeFrames returns what a framed file holds and where its last whole frame ends. Only
// an incomplete frame at the end can come from a crash; any other fault is an error. The
// summary is nil if there is no record.
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
		if ended := errors.Is(err, io.EOF) || errors.Is(err, ErrShort); ended && held.Records == 0 {
			return nil, 0, nil
		} else if ended {
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
func (s *fileSink) begin() error {
	n, err := s.file.Write(appendHeader(nil, s.stream))
	s.written += int64(n)
	if s.dirty = err != nil; s.dirty {
		return fmt.Errorf("write header of %s: %w", s.config.Path, err)
	}
	s.size = s.written
	return nil
}

// A framed peer keeps its records until they are settled, and its window is bounded. So those are
// synced sooner.
const (
	awaitedWithin  = 10 * time.Millisecond
	awaitedRecords = 512 // half the window that a sink has unless it says otherwise
)

// The path is looked at as often as this, and before records are settled.
const lookEvery = time.Second

// follow checks that the open file is still at the path, and has its expected length. If not, another process renamed,
// removed, replaced or truncated it. Then unsettled bytes are cut off, and the sink continues with the file at the
// path, or a new one.
func (s *fileSink) follow(b *buffer) error {
	if !s.regular {
		s.looked = time.Now()
		return nil
	}
	own, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("look at the sink's file: %w", err)
	}
	there, err := os.Stat(s.config.Path)
	same := err == nil && os.SameFile(own, there)
	hidden := err != nil && !errors.Is(err, os.ErrNotExist) && !isRemoved(own) // the path cannot be examined, and the file still exists
	if own.Size() >= s.written && (same || hidden) {
		s.looked = time.Now()
		return nil
	}
	s.looked = time.Time{} // no record is settled before the file is found
	b.rewind()
	keep := s.size
	if own.Size() < s.written {
		keep = max(0, own.Size()-(s.written-s.size)) // bytes written since are at the end
	}
	if own.Size() != keep {
		if err := s.file.Truncate(keep); err != nil {
			return fmt.Errorf("cut off the part in another file: %w", err)
		}
	}
	s.size, s.written, s.dirty = keep, keep, false
	if s.savePosition != nil { // after a crash nothing that is in the old file is to come again
		if err := s.savePosition(); err != nil {
			return err
		}
	}
	old, next := s.file, s.file
	if !same {
		if next, err = s.open(); err != nil {
			return err
		}
	}
	if _, err := s.adopt(next); err != nil {
		if !same {
			err = errors.Join(err, next.Close())
		}
		return err
	}
	if !same {
		if err := old.Close(); err != nil { // the kernel's error for data that it took and that was never synced
			s.log.Error("closed the sink's old file", "path", s.config.Path, "err", err)
		}
	}
	s.looked = time.Now()
	s.count.reopened.Add(1)
	s.log.Info("opened the sink's path again", "path", s.config.Path)
	return nil
}

// attempts has the state shared by attempts to write.
type attempts struct {
	records  []Record
	out      []byte
	lastSync time.Time
	newest   uint64 // number of the last record written
}

func (s *fileSink) run(ctx context.Context, b *buffer) (err error) {
	defer func() {
		// Closing returns the kernel's error for data that it took and that was never
		// synced.
		if closeErr := s.file.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close sink: %w", closeErr))
		}
	}()
	a := attempts{lastSync: time.Now()}
	for {
		err := s.clean()
		if err == nil {
			err = s.attempt(ctx, b, &a)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errDone):
			return nil
		case ctx.Err() != nil:
			// Records that are in the file but not yet synced need only one sync.
			if !s.dirty && s.written > s.size && s.file.Sync() == nil && s.follow(b) == nil && s.written > s.size {
				s.size = s.written
				b.settle(a.newest)
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

// attempt writes one batch, and settles what was written if it is time.
func (s *fileSink) attempt(ctx context.Context, b *buffer, a *attempts) error {
	if time.Since(s.looked) >= lookEvery {
		if err := s.follow(b); err != nil {
			return err
		}
	}
	if s.config.Format == Framed && s.size == 0 {
		if err := s.begin(); err != nil {
			return err
		}
	}
	until := s.looked.Add(lookEvery)
	if due := a.lastSync.Add(s.syncWithin); s.config.Sync == SyncInterval && s.written > s.size && due.Before(until) {
		until = due
	}
	deadline, cancel := ctx, context.CancelFunc(func() {})
	if !b.hasQueued() { // a deadline costs as much as some records
		deadline, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	var err error
	a.records, err = b.take(deadline, a.records[:0], batchRecords, batchBytes, b.limit.Records)
	switch {
	case ctx.Err() != nil, errors.Is(err, errDone):
		return err
	case errors.Is(err, errNudged):
		s.looked = time.Time{}
		return nil
	case err == nil:
		a.out = encode(a.out[:0], s.config.Format, a.records)
		n, err := s.file.Write(a.out)
		s.written += int64(n)
		s.dirty = err != nil
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		a.newest = a.records[len(a.records)-1].Seq
	case s.written == s.size:
		return nil // it is time to look at the path
	}
	// Unsynced records fill the buffer. Without this, producers would wait for
	// the interval to end.
	if s.config.Sync == SyncInterval && !errors.Is(err, errFinal) && time.Since(a.lastSync) < s.syncWithin && !b.manyUnsettled(s.mostUnsynced) {
		return nil
	}
	if s.config.Sync != SyncNever {
		if err := s.file.Sync(); err != nil && s.regular {
			// The kernel may have dropped the pages, so unsettled records are written
			// again rather than only synced again.
			s.dirty = true
			return fmt.Errorf("sync: %w", err)
		}
		a.lastSync = time.Now()
	}
	if err := s.follow(b); err != nil {
		return err
	}
	if s.written > s.size { // else they are to be written to another file
		s.size = s.written
		b.settle(a.newest)
		s.retry.reset()
	}
	return nil
}

// clean cuts off unsettled bytes after a failure.
func (s *fileSink) clean() error {
	if !s.dirty {
		return nil
	}
	if s.regular {
		if err := s.file.Truncate(s.size); err != nil {
			return fmt.Errorf("cut off an incomplete record: %w", err)
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

// write writes p, and stops waiting when ctx is done: a write to a pipe without a reader
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
