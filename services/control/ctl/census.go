package ctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// dumpTimeout is how long the kernel may take to describe all sockets of an address family.
const dumpTimeout = 2 * time.Second

// A census counts this machine's connections to many addresses at a time, by groups that its
// caller has for them, as the kernel describes them (sock_diag(7)). It is used by one goroutine
// at a time.
type census struct {
	conn   *netlink.Conn
	most   int // sockets at a time
	groups map[string]*tally
}

// A tally is how a group's connections are, of the side that has connected.
type tally struct {
	connections int           // established
	measured    int           // of these, those with a round-trip time: none before the first acknowledgement
	rtt, maxRTT time.Duration // smoothed round-trip times: their sum, and the longest

	unsent  int64 // bytes written and not sent yet
	unacked int64 // segments sent and not acknowledged yet
	unread  int64 // bytes received and not read yet

	// What the connections that were there at any count have added up to until their last one.
	growth
	seen map[uint64]growth // by cookie, at the count before
	now  map[uint64]growth // and at this one
}

// A growth is what only grows with a connection's life.
type growth struct {
	retransmits uint64        // segments
	busy        time.Duration // with data to send
}

// newCensus begins one, of no more sockets than most at a time.
func newCensus(most int) (*census, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, err
	}
	c := &census{conn, most, map[string]*tally{}}
	if err := c.dump(unix.AF_INET, 0, nil); err != nil { // no socket has no state: it is an empty answer
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// sending are the states of connections that may still send.
const sending = 1<<unix.BPF_TCP_ESTABLISHED | 1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_CLOSE_WAIT | 1<<unix.BPF_TCP_LAST_ACK | 1<<unix.BPF_TCP_CLOSING

// count counts the connections to addresses by the groups that these belong to. A group stays,
// with what its connections have added up to, when it has none any more. The result holds until
// the next count.
func (c *census) count(at map[netip.AddrPort]string) (map[string]*tally, error) {
	for group, t := range c.groups {
		c.groups[group] = &tally{growth: t.growth, seen: t.now, now: map[uint64]growth{}}
	}
	n := 0
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := c.dump(family, sending, func(s *socket) error {
			if n++; n > c.most {
				return fmt.Errorf("more than %d sockets", c.most)
			}
			group, ok := at[s.remote]
			if !ok {
				return nil
			}
			t := c.groups[group]
			if t == nil {
				t = &tally{now: map[uint64]growth{}}
				c.groups[group] = t
			}
			t.add(s)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("sockets: %w", err)
		}
	}
	return c.groups, nil
}

// add counts a connection.
func (t *tally) add(s *socket) {
	last := t.seen[s.cookie]
	now := growth{uint64(s.info.Total_retrans), time.Duration(s.info.Busy_time) * time.Microsecond} //nolint:gosec // centuries
	t.retransmits += now.retransmits - min(now.retransmits, last.retransmits)
	t.busy += now.busy - min(now.busy, last.busy)
	t.now[s.cookie] = now

	t.unread += int64(s.unread)
	t.unsent += int64(s.info.Notsent_bytes)
	t.unacked += int64(s.info.Unacked)
	if s.state != unix.BPF_TCP_ESTABLISHED {
		return // its peer, or its owner, is done with it
	}
	t.connections++
	if rtt := time.Duration(s.info.Rtt) * time.Microsecond; rtt > 0 {
		t.measured++
		t.rtt += rtt
		t.maxRTT = max(t.maxRTT, rtt)
	}
}

// A socket is one as the kernel describes it (struct inet_diag_msg, struct tcp_info).
type socket struct {
	state  uint8
	remote netip.AddrPort // an IPv4-mapped address as IPv4
	cookie uint64         // no other socket has it while the machine runs
	unread uint32
	info   unix.TCPInfo // fields that an old kernel does not have are 0
}

// Of linux/sock_diag.h and linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	requestSize      = 56
	messageSize      = 72
	attributeInfo    = 2 // INET_DIAG_INFO
)

// dump visits the sockets of an address family that are in some states.
func (c *census) dump(family uint8, states uint32, visit func(*socket) error) error {
	if err := c.conn.SetDeadline(time.Now().Add(dumpTimeout)); err != nil {
		return err
	}
	request := make([]byte, requestSize)
	request[0], request[1], request[2] = family, unix.IPPROTO_TCP, 1<<(attributeInfo-1)
	binary.NativeEndian.PutUint32(request[4:], states)
	header := netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump}
	if _, err := c.conn.Send(netlink.Message{Header: header, Data: request}); err != nil {
		return err
	}
	for m, err := range c.conn.ReceiveIter() {
		if err != nil {
			return err
		}
		s, err := parseSocket(m.Data)
		if err != nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
	}
	return nil
}

// parseSocket reads one message of an answer.
func parseSocket(b []byte) (*socket, error) {
	if len(b) < messageSize {
		return nil, errors.New("a message is cut short")
	}
	s := &socket{state: b[1], cookie: binary.NativeEndian.Uint64(b[44:]), unread: binary.NativeEndian.Uint32(b[56:])}
	size := 4
	if b[0] == unix.AF_INET6 {
		size = 16
	}
	address, _ := netip.AddrFromSlice(b[24 : 24+size])
	s.remote = netip.AddrPortFrom(address.Unmap(), binary.BigEndian.Uint16(b[6:]))
	attributes, err := netlink.NewAttributeDecoder(b[messageSize:])
	if err != nil {
		return nil, err
	}
	for attributes.Next() {
		if attributes.Type() == attributeInfo {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&s.info)), unsafe.Sizeof(s.info)), attributes.Bytes())
		}
	}
	return s, attributes.Err()
}
