package conditions

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// ErrReset is returned by Copy if the profile demands that the connection be reset. The
// caller sets SO_LINGER to 0 on both sides and closes them.
var ErrReset = errors.New("connection reset by its network profile")

const (
	readSize   = 32 << 10 // of one read
	maxRelease = 1 << 10  // chunks on their way with a small buffer; see line.room
)

// Copy copies bytes from src to dst, as direction dir of connection number conn. It ends with src, with ctx, at an
// error of either side, or at a reset of the profile. It returns how many bytes dst took, and nil at the end of src;
// otherwise ErrReset, the cause of ctx, or the error. Bytes read before the end or the failure of src are delivered
// at their times; so is the end itself.
//
// Memory is bounded by the buffer of the link; when it is full, reading pauses. Copy closes neither side. After an
// error, deadlines of src and dst may have passed, so the caller closes both. The other direction may be copied at
// the same time.
func (p *Profile) Copy(ctx context.Context, dst, src net.Conn, dir Direction, conn uint64) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	past := time.Unix(1, 0)
	l := p.link(dir)
	if !l.active() {
		stop := context.AfterFunc(ctx, func() {
			src.SetReadDeadline(past)
			dst.SetWriteDeadline(past)
		})
		defer stop()
		n, err := io.Copy(dst, src) // splices where possible
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return n, err
	}
	if l.ReadRate > 0 {
		// A large receive buffer would take bytes in place of the slow reader.
		if c, ok := src.(interface{ SetReadBuffer(int) error }); ok {
			_ = c.SetReadBuffer(16 << 10) // without this the connection is still read slowly
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		src.SetReadDeadline(past)
		dst.SetWriteDeadline(past)
	})
	defer stop()

	line := newLine(l.buffer())
	var reader sync.WaitGroup
	reader.Go(func() {
		line.end(line.fill(ctx, src, NewShaper(p, dir, conn, time.Now())))
	})
	n, err := line.drain(ctx, dst)
	if err != nil {
		cancel(err) // the reader may still be waiting
	}
	reader.Wait()
	return n, err
}

// A line holds the bytes between a reader and a writer, with the times at which they leave. Its ring grows up to a
// bound.
type line struct {
	bound int
	space chan struct{} // signals that bytes have left; capacity 1
	ready chan struct{} // signals that something was put in; capacity 1

	mu       sync.Mutex
	ring     []byte    // guarded by mu; used bytes are not written, free ones are not read
	head     int       // guarded by mu; index of the oldest byte
	used     int       // guarded by mu
	releases []Release // guarded by mu; of the used bytes, in order, from first on
	first    int       // guarded by mu
	ended    bool      // guarded by mu; nothing more will be added
	err      error     // guarded by mu; the reason, if it is not the end of the stream
}

func newLine(bound int) *line {
	return &line{
		bound: bound,
		space: make(chan struct{}, 1),
		ready: make(chan struct{}, 1),
		ring:  make([]byte, min(bound, 2*readSize)),
	}
}

// fill reads src into the line until it ends, fails, or is to be reset.
func (l *line) fill(ctx context.Context, src io.Reader, s *Shaper) error {
	for {
		limit, at := s.Read(time.Now())
		if err := sleep(ctx, time.Until(at)); err != nil {
			return err
		}
		free, err := l.room(ctx)
		if err != nil {
			return err
		}
		n, err := src.Read(free[:min(len(free), limit)])
		now := time.Now()
		if n > 0 {
			r := s.Chunk(n, now)
			l.put(r)
			if r.Reset {
				return nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			l.put(s.Chunk(0, now))
			return nil
		case err != nil:
			l.put(s.Chunk(0, now))
			return err
		}
	}
}

// room returns free space of the ring, and waits for some if it is full. Only the reader
// calls it, so the space stays free. Chunks count as well as bytes: the release times of
// many small chunks must not need more memory than those of large ones.
func (l *line) room(ctx context.Context) ([]byte, error) {
	for {
		l.mu.Lock()
		if l.used == len(l.ring) && len(l.ring) < l.bound {
			l.grow()
		}
		if l.used < len(l.ring) && len(l.releases)-l.first < max(maxRelease, l.bound/64) {
			tail := (l.head + l.used) % len(l.ring)
			end := len(l.ring)
			if tail < l.head {
				end = l.head
			}
			free := l.ring[tail:min(end, tail+readSize)]
			l.mu.Unlock()
			return free, nil
		}
		l.mu.Unlock()
		select {
		case <-l.space:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// grow doubles the full ring, up to the bound. The writer may still be reading from the
// old ring, which does not change. The caller holds mu.
func (l *line) grow() {
	ring := make([]byte, min(l.bound, 2*len(l.ring)))
	n := copy(ring, l.ring[l.head:])
	copy(ring[n:], l.ring[:l.head])
	l.ring, l.head = ring, 0
}

// put adds the bytes of r to the line. They are in the space that room returned.
func (l *line) put(r Release) {
	l.mu.Lock()
	l.used += r.N
	l.releases = append(l.releases, r)
	l.mu.Unlock()
	notify(l.ready)
}

func (l *line) end(err error) {
	l.mu.Lock()
	l.ended, l.err = true, err
	l.mu.Unlock()
	notify(l.ready)
}

// drain writes the bytes to dst at their times, until the line has ended.
func (l *line) drain(ctx context.Context, dst io.Writer) (written int64, err error) {
	for {
		due, wait, reset, err := l.due(time.Now())
		switch {
		case len(due) > 0:
			n, err := dst.Write(due)
			written += int64(n)
			if err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return written, err
			}
			l.mu.Lock()
			l.head = (l.head + n) % len(l.ring)
			l.used -= n
			l.mu.Unlock()
			notify(l.space)
		case reset:
			return written, ErrReset
		case errors.Is(err, io.EOF):
			return written, nil
		case err != nil:
			return written, err
		case wait > 0:
			if err := sleep(ctx, wait); err != nil {
				return written, err
			}
		default:
			select {
			case <-l.ready:
			case <-ctx.Done():
				return written, context.Cause(ctx)
			}
		}
	}
}

// due returns one of these, in this order of precedence: bytes whose time has come, as
// many as are contiguous; whether it is time for a reset; why the line has ended, io.EOF
// for the end of the stream; how long until the next bytes are due. If it returns none of
// them, the line is empty.
func (l *line) due(now time.Time) (due []byte, wait time.Duration, reset bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	contiguous := min(l.used, len(l.ring)-l.head)
	n := 0
	for ; l.first < len(l.releases) && !l.releases[l.first].At.After(now); l.first++ {
		r := &l.releases[l.first]
		if n+r.N > contiguous {
			r.N -= contiguous - n
			n = contiguous
			break
		}
		n += r.N
		r.N = 0
		if r.Reset {
			if n == 0 {
				return nil, 0, true, nil
			}
			break // the next call handles it, after the bytes before it are written
		}
	}
	if l.first*2 >= len(l.releases) { // rarely enough that the cost per chunk is constant
		l.releases = append(l.releases[:0], l.releases[l.first:]...)
		l.first = 0
	}
	switch {
	case n > 0:
		return l.ring[l.head : l.head+n], 0, false, nil
	case len(l.releases) > l.first:
		return nil, l.releases[l.first].At.Sub(now), false, nil
	case l.ended && l.err == nil:
		return nil, 0, false, io.EOF
	default:
		return nil, 0, false, l.err
	}
}

// notify leaves one signal in c, which has room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits for d, or until ctx is done, and then returns its cause.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
