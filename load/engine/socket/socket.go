// Package socket opens connections and carries their bytes, with TLS or without. A Socket is one
// connection, be it for requests or for events; a Thread is what the sockets of one thread share.
package socket

import (
	"errors"
	"syscall"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/poll"
	"dyno/load/engine/queue"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

const (
	// MaxConnecting bounds a thread's connections under way, so that they do not overrun the target's
	// accept queue. The others wait their turn.
	MaxConnecting = 128
	// MaxReads bounds the reads from one connection before others have their turn.
	MaxReads = 16

	readSize = 64 << 10
)

// A Thread is what the sockets of one thread share.
type Thread struct {
	Poller  *poll.Poller
	Clock   clock.Clock
	Buffer  []byte // what one read may bring; nothing is kept in it from one read to the next
	Emptied int64  // when all sockets with anything to read had last been reported

	to     []Endpoint        // not empty
	next   int               // how many sockets have got one, and where that began
	tls    *tlslayer.Context // nil without TLS
	sealed []byte            // bytes of TLS that are about to be written
	errnos map[errnoKind]*wire.Error
}

// NewThread returns what sockets share, whose clock's zero is base. They get the endpoints in turn, from one of them on.
func NewThread(to []Endpoint, first int, secure *tlslayer.Config, base time.Time) (*Thread, error) {
	t := &Thread{
		next: first, Clock: clock.New(base), Buffer: make([]byte, readSize), errnos: map[errnoKind]*wire.Error{},
	}
	for _, e := range to {
		t.to = append(t.to, e.clone())
	}
	var err error
	if secure != nil {
		if t.tls, err = tlslayer.NewContext(*secure); err != nil {
			return nil, err
		}
	}
	if t.Poller, err = poll.New(); err != nil {
		return nil, err
	}
	return t, nil
}

// Endpoints returns how many the sockets have.
func (t *Thread) Endpoints() int { return len(t.to) }

// StartStamping asks the kernel to stamp all further arrivals.
func (t *Thread) StartStamping() error { return t.Clock.StartStamping(t.to[0].family) }

// Secure tells whether the sockets speak TLS.
func (t *Thread) Secure() bool { return t.tls != nil }

// FailedHandshakes returns how many TLS handshakes have failed.
func (t *Thread) FailedHandshakes() uint64 { return t.tls.Failed() }

// An errnoKind is a system error and what it means for a request.
type errnoKind struct {
	kind  wire.Kind
	errno syscall.Errno
}

// Error returns the one error for a system error of that kind, so that repeated failures allocate
// nothing.
func (t *Thread) Error(kind wire.Kind, errno syscall.Errno) *wire.Error {
	key := errnoKind{kind, errno}
	e := t.errnos[key]
	if e == nil {
		text := errno.Error()
		switch errno {
		case syscall.ECONNRESET:
			text = "the peer reset the connection"
		case syscall.EPIPE:
			text = "the peer had closed the connection"
		}
		e = &wire.Error{Kind: kind, Text: text}
		t.errnos[key] = e
	}
	return e
}

// PeerError returns the error for a system error of a connection: it has the given kind, unless the
// generator was out of descriptors, ports or memory, or this machine forbids the connection.
func (t *Thread) PeerError(kind wire.Kind, errno syscall.Errno) *wire.Error {
	return t.Error(kindOf(errno, kind), errno)
}

func kindOf(errno syscall.Errno, otherwise wire.Kind) wire.Kind {
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM:
		return wire.Generator
	}
	return otherwise
}

// generatorError makes a system error one of the generator's own.
func (t *Thread) generatorError(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return t.Error(wire.Generator, errno)
	}
	return err
}

// ConnectError returns the failure of a request whose connection could not be
// opened.
func (t *Thread) ConnectError(err error) *wire.Error {
	var (
		failure *wire.Error
		errno   syscall.Errno
	)
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.As(err, &errno):
		return t.PeerError(wire.Connect, errno)
	}
	return &wire.Error{Kind: wire.Connect, Text: err.Error()}
}

// A Socket is a place for one connection. Bytes that it does not take at once wait until there is room.
type Socket struct {
	FD         int32 // none without a connection
	To         int32 // the number of its endpoint
	Generation uint32
	HungUp     bool // the peer has said that it will send no more
	stamping   bool // it stamps what arrives
	pending    []byte
	tls        *secured // nil without TLS
	Lost       error    // reading or writing failed for this; what had arrived by then may still be unread
}

// A secured is the TLS of a socket, and the memory of pending bytes.
type secured struct {
	*tlslayer.Conn
	kept []byte
}

// None is the descriptor of no connection.
const None = queue.None

// New returns a place for a connection.
func (t *Thread) New() Socket {
	s := Socket{FD: None, To: int32(t.next % len(t.to))} //nolint:gosec // of a few
	t.next++
	if t.tls != nil {
		s.tls = &secured{Conn: t.tls.Conn()}
	}
	return s
}

// Open begins to open a connection whose events bear the token and the new generation. With receive it
// asks for a receive buffer of that many bytes. This must happen before the connection exists to bound
// its window. A shortage of the generator is an error of kind Generator; other errors of the system
// concern the peer.
func (s *Socket) Open(t *Thread, token int32, receive int) error {
	to := &t.to[s.To]
	fd, err := t.socket(to.family)
	if err != nil {
		return t.generatorError(err)
	}
	if receive > 0 {
		err = t.generatorError(setOption(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, receive))
	}
	if err == nil {
		if err = connect(fd, to.addr); errors.Is(err, syscall.EINPROGRESS) {
			err = nil
		}
		if to.family != syscall.AF_UNIX && errors.Is(err, syscall.EAGAIN) {
			err = t.generatorError(err) // no local port; of a Unix socket it means a full accept queue
		}
	}
	if err == nil {
		err = t.generatorError(t.Poller.Add(fd, token, s.Generation+1))
	}
	if err != nil {
		closeSocket(fd)
		return err
	}
	s.Generation++
	s.FD, s.stamping, s.HungUp = int32(fd), t.Clock.Stamping(), false
	return nil
}

func (t *Thread) socket(family int) (int, error) {
	fd, err := open(family)
	if err != nil {
		return -1, err
	}
	if family == syscall.AF_UNIX {
		return fd, nil
	}
	err = setOption(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	if err == nil && t.Clock.Stamping() {
		err = clock.RequestStamps(fd)
	}
	if err != nil {
		closeSocket(fd)
		return -1, err
	}
	return fd, nil
}

// Close closes the connection. Its later events no longer count.
func (s *Socket) Close(t *Thread) {
	t.Poller.Remove(s.FD)
	closeSocket(int(s.FD))
	s.FD = None
	s.Generation++
	s.pending, s.Lost = nil, nil
	if s.tls != nil {
		s.tls.Reset()
		s.tls.kept = nil
	}
}

// Stamp makes a connection stamp what arrives that is older than the decision to do so.
func (s *Socket) Stamp(t *Thread) {
	if t.Clock.Stamping() && !s.stamping {
		s.stamp()
	}
}

func (s *Socket) stamp() { s.stamping = clock.RequestStamps(int(s.FD)) == nil }

// Read reads what has arrived. The socket was known to be empty at a time, which is 0 if that is
// not known.
func (s *Socket) Read(t *Thread, p []byte, empty int64) (n int, r clock.Reading, errno syscall.Errno) {
	return t.Clock.Read(s.FD, p, s.stamping, empty)
}

// IgnoreIn ends arrival events. From now on the reader reads at a pace of its own.
func (s *Socket) IgnoreIn(t *Thread) { t.Poller.IgnoreIn(s.FD) }

// Pending tells whether there is something that the socket has not taken yet.
func (s *Socket) Pending() bool { return len(s.pending) > 0 }

// Put makes bytes pending that stay unchanged until they are written. Nothing else is pending, and
// the socket has no TLS or does not use it yet.
func (s *Socket) Put(p []byte) { s.pending = p }

// Flush writes what is pending, and then what TLS has to say. Errors have the given kind.
func (s *Socket) Flush(t *Thread, kind wire.Kind) error {
	rest, errno := poll.WriteAll(s.FD, s.pending)
	s.pending = rest
	if errno != 0 {
		return t.PeerError(kind, errno)
	}
	if len(rest) > 0 {
		t.Poller.AwaitOut(s.FD)
	}
	return s.FlushTLS(t, kind)
}

// Break notes that the connection cannot be written to. The caller then reads until the end: a peer may
// have answered before it closed.
func (s *Socket) Break(err error) { s.Lost, s.pending, s.HungUp = err, nil, true }

// WriteOutput writes what a mux or a stream has to say. It returns whether the socket takes no more for now.
func (s *Socket) WriteOutput(t *Thread, m wire.Talker) (blocked bool, err error) {
	for !s.Pending() { // what was sealed before goes first
		p := m.Output()
		if len(p) == 0 {
			return false, nil
		}
		if s.Secure() {
			sealed, err := s.Seal(t, p)
			m.Wrote(len(p))
			if err == nil {
				err = s.WriteSealed(t, sealed)
			}
			if err != nil {
				return false, err
			}
			continue
		}
		switch n, errno := poll.Write(s.FD, p); errno {
		case 0:
			m.Wrote(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			t.Poller.AwaitOut(s.FD)
			return true, nil
		default:
			return false, t.PeerError(wire.Reset, errno)
		}
	}
	return true, nil
}
