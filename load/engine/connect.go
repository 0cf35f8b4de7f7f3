package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/wire"
)

// An endpoint is a resolved address. It belongs to one thread: connecting writes
// to its encoded form.
type endpoint struct {
	family int
	addr   unix.Sockaddr
}

// clone returns an endpoint for another thread.
func (e endpoint) clone() endpoint {
	switch a := e.addr.(type) {
	case *unix.SockaddrInet4:
		c := *a
		e.addr = &c
	case *unix.SockaddrInet6:
		c := *a
		e.addr = &c
	case *unix.SockaddrUnix:
		c := *a
		e.addr = &c
	}
	return e
}

// resolve looks the address up. Of several, it takes the first that accepts a
// connection, so that a name like localhost means the family the target listens on.
func resolve(ctx context.Context, network, address string) (endpoint, error) {
	if network == "unix" {
		return endpoint{unix.AF_UNIX, &unix.SockaddrUnix{Name: address}}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return endpoint{}, err
	}
	lookup := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}[network]
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, lookup, host)
	if err != nil {
		return endpoint{}, err
	}
	if len(addrs) == 0 {
		return endpoint{}, fmt.Errorf("%s has no address for %s", host, network)
	}
	if len(addrs) > 1 {
		for _, a := range addrs {
			d := net.Dialer{Timeout: time.Second}
			c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(port)))
			if err == nil {
				_ = c.Close() // only asked whether it is there
				return endpointOf(a, port)
			}
		}
	}
	return endpointOf(addrs[0], port)
}

func endpointOf(a netip.Addr, port int) (endpoint, error) {
	a = a.Unmap()
	if a.Is4() {
		return endpoint{unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: a.As4()}}, nil
	}
	sa := &unix.SockaddrInet6{Port: port, Addr: a.As16()}
	if zone := a.Zone(); zone != "" {
		ifi, err := net.InterfaceByName(zone)
		if err != nil {
			return endpoint{}, err
		}
		sa.ZoneId = uint32(ifi.Index) //nolint:gosec // an interface's index is positive
	}
	return endpoint{unix.AF_INET6, sa}, nil
}

// turn makes a slot wait for its turn to connect.
func (w *worker) turn(i int32) {
	w.slots[i].state = queued
	w.turns.push(i)
}

// admit begins connecting as far as the bound allows.
func (w *worker) admit(now int64) {
	for w.turns.count > 0 && w.underway < maxConnecting {
		i := w.turns.pop()
		w.connect(i, &w.slots[i], now)
	}
}

// openOneMore begins one more connection of the open loop, if one more is wanted and
// allowed: no more of them are under way than there are requests waiting.
func (w *worker) openOneMore() {
	if w.underway+w.turns.count >= w.waiting.count || len(w.vacant) == 0 {
		return
	}
	n := len(w.vacant)
	i := w.vacant[n-1]
	w.vacant = w.vacant[:n-1]
	w.turn(i)
}

func (w *worker) connect(i int32, s *slot, now int64) {
	fd, err := w.dial(i, s.generation+1, 0)
	if err != nil {
		w.refused(i, s, now, err)
		return
	}
	s.generation++
	s.fd, s.stamping = fd, w.stamping
	s.written = now
	s.state = connecting
	w.underway++
	w.connecting.push(w.slots, i)
}

// dial begins to open a connection whose events bear the token and the generation.
// With receive it asks for a receive buffer of so many bytes, which has to be before
// the connection exists to bound its window. What the generator itself lacks is an error of
// kind Generator; all else the system said of the peer.
func (w *worker) dial(token int32, generation uint32, receive int) (int32, error) {
	fd, err := w.socket()
	if err != nil {
		return none, w.own(err)
	}
	if receive > 0 {
		err = w.own(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receive))
	}
	if err == nil {
		if err = unix.Connect(fd, w.endpoint.addr); errors.Is(err, unix.EINPROGRESS) {
			err = nil
		}
		if w.endpoint.family != unix.AF_UNIX && errors.Is(err, unix.EAGAIN) {
			err = w.own(err) // no local port; of a Unix socket it means a full accept queue
		}
	}
	if err == nil {
		err = w.own(w.poller.add(fd, token, generation))
	}
	if err != nil {
		unix.Close(fd)
		return none, err
	}
	return int32(fd), nil
}

// own makes a system error one of the generator's own.
func (w *worker) own(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return w.errnoError(wire.Generator, errno)
	}
	return err
}

// kindOf returns the kind of a system error of a connection: otherwise, unless it says that
// the generator lacked descriptors, ports or memory, or that this machine forbids the
// connection.
func kindOf(errno unix.Errno, otherwise wire.Kind) wire.Kind {
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.EADDRNOTAVAIL, unix.ENOBUFS, unix.ENOMEM, unix.EPERM:
		return wire.Generator
	}
	return otherwise
}

func (w *worker) socket() (int, error) {
	fd, err := unix.Socket(w.endpoint.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if w.endpoint.family == unix.AF_UNIX {
		return fd, nil
	}
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err == nil && w.stamping {
		err = askForStamps(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connected ends the connecting of a slot, well or badly.
func (w *worker) connected(i int32, s *slot) {
	errno, err := unix.GetsockoptInt(int(s.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	now := w.now()
	w.underway--
	w.connecting.remove(w.slots, i)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	if err != nil {
		w.hangUp(s)
		w.refused(i, s, now, err)
		return
	}
	w.conns.Opened++
	w.starved = false
	w.open++
	w.conns.Peak = max(w.conns.Peak, w.open)
	w.sheet.latency[ConnectTime].Record(now - s.written)
	s.used, s.hungUp = false, false
	s.pending = nil
	s.client.Reset()
	s.state = idle
	switch {
	case w.cursor == nil && s.requested:
		s.requested = false
		w.awaiting--
		w.dispatch(i, s, now)
	case w.cursor == nil:
		if w.origin != 0 {
			w.rest(i, s, now)
		}
	case w.waiting.count > 0:
		w.send(i, s, w.waiting.pop(), now)
	default:
		s.idleAt = int32(len(w.idles))
		w.idles = append(w.idles, i)
	}
}

// expireConnecting ends the attempts that have taken too long.
func (w *worker) expireConnecting(now int64) {
	limit := now - int64(w.engine.config.ConnectTimeout)
	for i := w.connecting.head; i != none && w.slots[i].written <= limit; i = w.connecting.head {
		s := &w.slots[i]
		w.underway--
		w.connecting.remove(w.slots, i)
		w.hangUp(s)
		w.refused(i, s, now, unix.ETIMEDOUT)
	}
}

// refused accounts for a connection that could not be opened: the request that
// it was for has failed.
func (w *worker) refused(i int32, s *slot, now int64, err error) {
	w.conns.Failed++
	failure := w.connectError(err)
	w.refusal = err
	if w.starved = failure.Kind == wire.Generator; w.starved {
		w.conns.Generator++
	}
	s.state = closed
	if s.failures < math.MaxUint8 {
		s.failures++
	}
	switch {
	case w.cursor == nil && s.requested:
		s.requested = false
		w.awaiting--
		w.begin(s)
		s.ready, s.written = now, now
		w.fail(s, now, failure)
	case w.cursor != nil && w.waiting.count > 0:
		// The oldest request that waits has used up its attempt.
		s.intended = w.waiting.pop()
		s.window = w.belongs(s.intended)
		w.begin(s)
		s.ready, s.written = now, now
		w.fail(s, now, failure)
	}
	w.vacate(i, s, now)
}

// hangUp closes a slot's socket, whose later events no longer count.
func (w *worker) hangUp(s *slot) {
	unix.Close(int(s.fd))
	s.fd = -1
	s.generation++
	s.pending = nil
}

// disconnect closes an established connection.
func (w *worker) disconnect(i int32, s *slot) {
	if w.cursor != nil && s.state == idle && int(s.idleAt) < len(w.idles) && w.idles[s.idleAt] == i {
		last := len(w.idles) - 1
		w.idles[s.idleAt] = w.idles[last]
		w.slots[w.idles[s.idleAt]].idleAt = s.idleAt
		w.idles = w.idles[:last]
	}
	w.hangUp(s)
	w.open--
}

// vacate gives a slot without a connection its next task.
func (w *worker) vacate(i int32, s *slot, now int64) {
	if w.cursor != nil {
		s.state = closed
		w.vacant = append(w.vacant, i)
		w.openOneMore()
		return
	}
	if s.state == resting {
		return // its alarm will find it without a connection
	}
	s.state = closed
	if w.origin == 0 {
		return // the load has not begun; start wakes it
	}
	pause := w.backoff(s.failures)
	if s.failures == 0 && s.thinker != nil {
		pause = s.thinker.Next()
	}
	w.rest(i, s, now+int64(pause))
}

// connectError returns the failure of a request whose connection could not be
// opened.
func (w *worker) connectError(err error) *wire.Error {
	var (
		known *wire.Error
		errno unix.Errno
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &errno):
		return w.errnoError(kindOf(errno, wire.Connect), errno)
	}
	return &wire.Error{Kind: wire.Connect, Text: err.Error()}
}
