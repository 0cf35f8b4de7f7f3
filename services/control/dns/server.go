package dns

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"dyno/services/internal/serve"
)

// Bounds of queries over TCP (RFC 7766): the bytes of a message, the connections at a time, in all and from one
// network, and their idle time. acceptPause is the pause in accepting when descriptors or memory have run out.
const (
	maxTCP         = 65535
	maxConnections = 256
	maxOfNetwork   = 64
	idle           = 10 * time.Second
	acceptPause    = 100 * time.Millisecond
)

// CheckDomain returns the fault of a domain. It must be a private one, such as one below internal.
func CheckDomain(domain string) error {
	good := len(domain) <= 100 && strings.HasSuffix(domain, ".")
	for label := range strings.SplitSeq(strings.TrimSuffix(domain, "."), ".") {
		good = good && len(label) >= 1 && len(label) <= 63 && !strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
		})
	}
	if !good {
		return fmt.Errorf("%q: must be in lower case, end with a dot and have 100 bytes at most, such as \"control.internal.\"", domain)
	}
	return nil
}

// A Server answers over UDP and TCP.
type Server struct {
	zone   *Zone
	packet net.PacketConn
	stream net.Listener

	mu          sync.Mutex // guards what follows
	connections list.List  // of *connection, the longest idle first
	closed      bool
	done        chan struct{} // closed by Close
}

// NewServer returns a server, which owns both listeners.
func NewServer(z *Zone, packet net.PacketConn, stream net.Listener) *Server {
	return &Server{zone: z, packet: packet, stream: serve.Patient(stream), done: make(chan struct{})}
}

// Serve answers until Close, and returns nil then.
func (s *Server) Serve() error {
	var running sync.WaitGroup
	defer running.Wait()
	failed := make(chan error, 2)
	running.Go(func() { failed <- s.packets() })
	running.Go(func() { failed <- s.streams(&running) })
	err := <-failed
	return errors.Join(err, s.end())
}

// Close ends the server. It waits for no query: each takes microseconds. It returns 0.
func (s *Server) Close(context.Context) (cut int) {
	_ = s.end() // Serve returns the error
	return 0
}

func (s *Server) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	for e := s.connections.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*connection).Close() // it ends, whatever happens
	}
	return errors.Join(s.packet.Close(), s.stream.Close())
}

// over returns err, or nil if the server was closed.
func (s *Server) over(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return err
}

// packets answers over UDP, one query after the other. An answer takes microseconds; further queries wait in the
// socket, which the kernel bounds.
func (s *Server) packets() error {
	buffer := make([]byte, maxTCP)
	for {
		n, from, err := s.packet.ReadFrom(buffer)
		if err != nil {
			return s.over(err)
		}
		if answer := s.zone.Answer(buffer[:n], false); answer != nil {
			_, _ = s.packet.WriteTo(answer, from) // the client repeats its query
		}
	}
}

// streams answers over TCP.
func (s *Server) streams(running *sync.WaitGroup) error {
	for {
		c, err := s.stream.Accept()
		if serve.Passing(err) {
			select {
			case <-time.After(acceptPause):
			case <-s.done:
			}
			continue
		}
		if err != nil {
			return s.over(err)
		}
		e := s.add(c)
		running.Go(func() {
			_ = s.answer(e) // the client has gone, or is silent
			s.mu.Lock()
			defer s.mu.Unlock()
			s.connections.Remove(e)
		})
	}
}

// A connection is over TCP, from a network: an IPv4 address, or the 64 bits of IPv6 that one machine has.
type connection struct {
	net.Conn
	network netip.Prefix
}

func networkOf(a net.Addr) netip.Prefix {
	from, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := from.Addr().Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.WithZone("").Prefix(bits) // never more bits than the address has
	return network
}

// add notes a connection. If its network, or all together, have too many, it closes the longest idle one (RFC 7766,
// section 6.2.3). If it closed the new one, idle clients could keep others out.
func (s *Server) add(c net.Conn) *list.Element {
	one := &connection{c, networkOf(c.RemoteAddr())}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close() // its goroutine ends with it
	}
	var own *list.Element // the longest idle one of the network
	n := 0
	for e := s.connections.Front(); e != nil; e = e.Next() {
		if e.Value.(*connection).network != one.network {
			continue
		}
		if n++; own == nil {
			own = e
		}
	}
	idlest := s.connections.Front()
	switch {
	case n >= maxOfNetwork:
		idlest = own
	case s.connections.Len() < maxConnections:
		idlest = nil
	}
	if idlest != nil {
		_ = s.connections.Remove(idlest).(*connection).Close() // the client reconnects
	}
	return s.connections.PushBack(one)
}

// asked notes a query on a connection, which becomes the least idle.
func (s *Server) asked(e *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections.MoveToBack(e) // no effect, if it was closed meanwhile
}

// answer answers one connection's queries, each after its length (RFC 1035, section 4.2.2).
func (s *Server) answer(e *list.Element) error {
	c := e.Value.(*connection)
	defer c.Close() //nolint:errcheck // it ends, whatever happens
	for {
		if err := c.SetDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return err
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return err
		}
		s.asked(e)
		answer := s.zone.Answer(query, true)
		if answer == nil {
			return errors.New("it is no query")
		}
		framed := binary.BigEndian.AppendUint16(nil, uint16(len(answer))) //nolint:gosec // Answer bounds it
		if _, err := c.Write(append(framed, answer...)); err != nil {
			return err
		}
	}
}
