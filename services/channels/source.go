package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"dyno/services/internal/serve"
)

// A source pushes records into a buffer until it is at its end or ctx is done. After that
// it still pushes what it has already read, until hard is done.
type source interface {
	run(ctx, hard context.Context, b *buffer) error
	close() error // for a source that was never run
}

// counters count events outside of the buffer. They belong to one channel.
type counters struct {
	rejected     atomic.Uint64 // records that were too long
	torn         atomic.Uint64 // records left incomplete
	repeated     atomic.Uint64 // records of framed peers that had arrived before
	missing      atomic.Uint64 // numbers that framed peers left out
	connections  atomic.Int64  // of producers, open
	accepted     atomic.Uint64 // connections of producers
	refused      atomic.Uint64 // connections beyond max_connections
	disconnected atomic.Uint64 // producers disconnected because the buffer was full
	rotations    atomic.Uint64
	truncations  atomic.Uint64
	connects     atomic.Uint64 // to the sink
	sourceErrors atomic.Uint64
	sinkErrors   atomic.Uint64
	reopened     atomic.Uint64 // times the sink's path was opened again
}

// A listenSource accepts producers.
type listenSource struct {
	config   Source
	listener net.Listener
	quiet    time.Duration // at the end: how long a silent producer is waited for
	grace    time.Duration // at the end: the limit for all producers together
	receiver *receiver     // of framed peers; nil if the source is not framed
	count    *counters
	log      *slog.Logger
}

func listen(config Source, drain time.Duration, count *counters, log *slog.Logger) (*listenSource, error) {
	address := config.Address
	if config.Kind == Unix {
		address = "unix:" + config.Path
	}
	l, err := serve.Listen(context.Background(), address, nil)
	if err != nil {
		return nil, err
	}
	s := &listenSource{config: config, listener: l, quiet: min(drain/4, 100*time.Millisecond), grace: drain / 2, count: count, log: log}
	if config.Framing == Framed {
		s.receiver = newReceiver(config.MaxRecordBytes, config.IdleTimeout, count)
	}
	return s, nil
}

func (s *listenSource) close() error { return s.listener.Close() }

func (s *listenSource) run(ctx, hard context.Context, b *buffer) error {
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	var producers sync.WaitGroup
	defer producers.Wait()
	for id := uint64(1); ; {
		conn, err := s.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			switch {
			case serve.OfConnection(err):
				continue
			case !serve.Passing(err):
				return fmt.Errorf("accept: %w", err)
			}
			s.log.Warn("accepting pauses", "error", err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		if s.count.connections.Load() >= int64(s.config.MaxConnections) {
			s.count.refused.Add(1)
			conn.Close()
			continue
		}
		s.count.connections.Add(1)
		s.count.accepted.Add(1)
		number := id
		id++
		producers.Go(func() {
			defer s.count.connections.Add(-1)
			defer conn.Close()
			s.log.Debug("producer connected", "connection", number, "from", conn.RemoteAddr().String())
			carry := s.produce
			if s.receiver != nil {
				carry = s.receive
			}
			err := carry(ctx, hard, b, conn, number)
			s.log.Debug("producer gone", "connection", number, "err", err)
		})
	}
}

// produce pushes the records of one connection. When ctx is done, it goes on reading what
// has already been sent: until the producer pauses, but at most for grace.
func (s *listenSource) produce(ctx, hard context.Context, b *buffer, conn net.Conn, number uint64) error {
	var end time.Time // of grace, once ctx is done
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now().Add(s.quiet)) })
	defer stop()
	split := splitter{lengths: s.config.Framing == Length, max: s.config.MaxRecordBytes}
	defer func() {
		if _, left, torn := split.end(); left || torn {
			s.count.torn.Add(1)
		}
	}()
	buf := make([]byte, 16<<10)
	for {
		if s.config.IdleTimeout > 0 {
			conn.SetReadDeadline(time.Now().Add(s.config.IdleTimeout))
		}
		if ctx.Err() != nil {
			now := time.Now()
			if end.IsZero() {
				end = now.Add(s.grace)
			}
			deadline := now.Add(s.quiet)
			if deadline.After(end) {
				deadline = end
			}
			conn.SetReadDeadline(deadline)
		}
		n, err := conn.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			record, used, ok, err := split.next(p)
			p = p[used:]
			if err != nil {
				s.count.rejected.Add(1)
				split.end() // the record is rejected, not torn
				return err
			}
			if !ok {
				continue
			}
			switch became, _ := b.push(hard, number, record, position{}); {
			case became == abandoned:
				return context.Cause(hard)
			case became == dropped && b.limit.WhenFull == Disconnect:
				s.count.disconnected.Add(1)
				return errors.New("buffer full")
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive pushes the records of a framed peer, and acknowledges those that are settled.
// When ctx is done it reads no more: the peer keeps what is not acknowledged.
func (s *listenSource) receive(ctx, hard context.Context, b *buffer, conn net.Conn, number uint64) error {
	stop := context.AfterFunc(hard, func() { conn.Close() })
	defer stop()
	return s.receiver.serve(ctx, hard, conn, &receiving{b, hard, number})
}

// receiving is the way of the records of one connection into a buffer.
type receiving struct {
	buffer *buffer
	hard   context.Context
	source uint64
}

func (r *receiving) handle(_ StreamID, rec Record) (uint64, error) {
	became, number := r.buffer.push(r.hard, r.source, bytes.Clone(rec.Payload), position{})
	if became == abandoned {
		return 0, context.Cause(r.hard)
	}
	return number, nil
}

func (r *receiving) settled() uint64 {
	through, _ := r.buffer.settledThrough()
	return through
}

func (r *receiving) awaitSettled(ctx context.Context, number uint64) (uint64, error) {
	return r.buffer.awaitSettled(ctx, number)
}

// A stdinSource reads standard input.
type stdinSource struct {
	config Source
	in     *os.File
	count  *counters
	log    *slog.Logger
}

func (s *stdinSource) close() error { return nil }

func (s *stdinSource) run(ctx, hard context.Context, b *buffer) error {
	split := splitter{lengths: s.config.Framing == Length, max: s.config.MaxRecordBytes}
	buf := make([]byte, 64<<10)
	for {
		ready, err := readable(ctx, s.in)
		if err != nil {
			return fmt.Errorf("wait for standard input: %w", err)
		}
		if !ready {
			return nil // unread bytes stay in the pipe or file
		}
		n, err := s.in.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			record, used, ok, err := split.next(p)
			p = p[used:]
			if err != nil {
				s.count.rejected.Add(1)
				s.log.Warn("skipped a record of standard input", "err", err)
			}
			if !ok {
				continue
			}
			if became, _ := b.push(hard, 0, record, position{}); became == abandoned {
				return nil
			}
		}
		if err != nil {
			line, ok, torn := split.end()
			if ok {
				b.push(hard, 0, line, position{})
			}
			if torn {
				s.count.torn.Add(1)
			}
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("read standard input: %w", err)
			}
			return nil
		}
	}
}

// readable waits until f can be read. If ctx is done first, it returns false. A read of a terminal or pipe cannot be
// interrupted, so it begins only when it will not wait. ctx is checked ten times a second.
func readable(ctx context.Context, f *os.File) (bool, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	for ctx.Err() == nil {
		var n int
		var pollErr error
		err := raw.Control(func(fd uintptr) {
			n, pollErr = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		})
		if err != nil {
			return false, err
		}
		if n > 0 || pollErr != nil && !errors.Is(pollErr, unix.EINTR) {
			return true, nil // the read will return the error, if there is one
		}
	}
	return false, nil
}
