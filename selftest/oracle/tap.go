package oracle

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a Tap. Excess is counted, and makes Stop fail.
const (
	maxExchanges   = 1 << 21 // that are kept
	maxTapped      = 1 << 16 // connections that are followed
	tapBuffer      = 64 << 20
	tapPause       = 5 * time.Millisecond // between looks at what has come in
	tapHead        = 128                  // bytes kept of a packet: all its headers
	stampTimeout   = 10 * time.Second     // for the kernel to begin to stamp packets
	packetOutgoing = 4                    // PACKET_OUTGOING of if_packet.h
)

// An Exchange is a request and its response as the kernel saw them pass.
type Exchange struct {
	Request time.Time     // when the last packet of the request passed
	Took    time.Duration // until the last packet of the response passed
}

// A Tap listens to the loopback device and times exchanges by the kernel's time stamps of their packets
// (packet(7), SO_TIMESTAMPNS). It is a referee: it shares no clock reading with servers or clients. It
// cannot see the time from a client's write to its packet. Nor does it see the time from the response's
// packet until the client has read it. Both are some microseconds and a wake-up.
//
// A connection must carry one request at a time. Packets sent again are counted once. The time stamps
// come from the real-time clock: do not set it meanwhile.
//
// Opening a Tap takes CAP_NET_RAW.
type Tap struct {
	fd, wake int
	done     chan struct{}
	follower follower
	err      error // read after done
}

// StartTap begins to listen to the TCP packets of one address's port on the loopback device. Its thread
// looks every 5 ms at what has come in, on the given CPUs, or any.
func StartTap(address netip.AddrPort, cpus []int) (_ *Tap, err error) {
	t := &Tap{fd: -1, wake: -1, done: make(chan struct{}), follower: follower{server: address, open: map[netip.AddrPort]*flow{}}}
	defer func() {
		if err != nil {
			t.close()
			err = fmt.Errorf("oracle: tap on %s: %w", address, err)
		}
	}()
	if !address.Addr().IsLoopback() {
		return nil, errors.New("want a loopback address")
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, err
	}
	// Bound to no protocol at first, so that nothing comes in before the filter stands.
	if t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if t.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	filter := tapFilter(address)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	if unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer) != nil {
		// Without CAP_NET_ADMIN the buffer is smaller. If it is too small, drops say so.
		if err := unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, tapBuffer); err != nil {
			return nil, fmt.Errorf("buffer: %w", err)
		}
	}
	if err := unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return nil, fmt.Errorf("time stamps: %w", err)
	}
	if err := awaitStamps(); err != nil {
		return nil, err
	}
	if err := unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: lo.Index}); err != nil {
		return nil, fmt.Errorf("bind to lo: %w", err)
	}
	go t.listen(cpus)
	return t, nil
}

// Stop ends listening and returns the exchanges in the order in which their requests passed on each
// connection. It fails when packets were dropped or did not fit: then some times would be wrong, and
// none could be trusted.
func (t *Tap) Stop() ([]Exchange, error) {
	one := [8]byte{1}
	_, _ = unix.Write(t.wake, one[:]) // a fresh counter takes it
	<-t.done
	defer t.close()
	if t.err != nil {
		return nil, fmt.Errorf("oracle: tap: %w", t.err)
	}
	stats, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return nil, fmt.Errorf("oracle: tap: statistics: %w", err)
	}
	if stats.Drops > 0 {
		return nil, fmt.Errorf("oracle: tap: %d of %d packets were dropped", stats.Drops, stats.Packets)
	}
	return t.follower.exchanges()
}

// awaitStamps returns when the kernel stamps packets as they arrive. It begins to in a
// work queue of its own, some time after the first socket has asked for it; until then
// a packet is stamped when it is read, and its reader would see no time pass.
func awaitStamps() error {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("time stamps: %w", err)
	}
	defer func() { _ = c.Close() }() // a probe only
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("time stamps: %w", err)
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }); err != nil || set != nil {
		return fmt.Errorf("time stamps: %w", errors.Join(err, set))
	}
	deadline := time.Now().Add(stampTimeout)
	if err := c.SetDeadline(deadline); err != nil {
		return fmt.Errorf("time stamps: %w", err)
	}
	packet, control := make([]byte, 1), make([]byte, 128)
	for {
		if _, err := c.WriteTo(packet, c.LocalAddr()); err != nil {
			return fmt.Errorf("time stamps: %w", err)
		}
		sent := time.Now()
		time.Sleep(time.Millisecond) // a stamp of the reading is later than sent
		_, n, _, _, err := c.ReadMsgUDP(packet, control)
		if err != nil {
			return fmt.Errorf("time stamps: not of packets' arrival within %v: %w", stampTimeout, err)
		}
		at, err := stamp(control[:n])
		if err != nil {
			return err
		}
		if at <= sent.UnixNano() {
			return nil
		}
	}
}

func (t *Tap) close() {
	for _, fd := range []int{t.fd, t.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// listen reads packets until Stop, and those that have come in by then.
func (t *Tap) listen(cpus []int) {
	defer close(t.done)
	runtime.LockOSThread() // never unlocked: the thread and its affinity end here
	if len(cpus) > 0 {
		var set unix.CPUSet
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		if t.err = unix.SchedSetaffinity(0, &set); t.err != nil {
			return
		}
	}
	packet, control := make([]byte, tapHead), make([]byte, 128)
	wake := []unix.PollFd{{Fd: int32(t.wake), Events: unix.POLLIN}}
	for stopped := false; !stopped; {
		if _, err := unix.Poll(wake, int(tapPause/time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
			t.err = fmt.Errorf("poll: %w", err)
			return
		}
		stopped = wake[0].Revents != 0
		for {
			n, cn, _, _, err := unix.Recvmsg(t.fd, packet, control, 0)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil {
				var at int64
				if at, err = stamp(control[:cn]); err == nil {
					t.follower.take(packet[:n], at)
				}
			}
			if err != nil {
				t.err = fmt.Errorf("receive: %w", err)
				return
			}
		}
	}
}

// stamp returns the time in a packet's control message, in nanoseconds of the
// real-time clock.
func stamp(control []byte) (int64, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SO_TIMESTAMPNS || len(m.Data) < 16 {
			continue
		}
		// A struct timespec of this machine: seconds and nanoseconds.
		return int64(nativeUint64(m.Data))*1e9 + int64(nativeUint64(m.Data[8:])), nil
	}
	return 0, errors.New("a packet without a time stamp")
}

// tapFilter returns the classic BPF program that passes the heads of TCP packets
// from or to a port. Lo shows each packet twice, going out and coming in: only
// the latter passes.
func tapFilter(address netip.AddrPort) []unix.SockFilter {
	const (
		ancillary  = math.MaxUint32 - 0x1000 + 1 // SKF_AD_OFF
		packetType = 4                           // SKF_AD_PKTTYPE
	)
	port := uint32(address.Port())
	// Jumps are relative; both families end with: 4 instructions on the ports, pass, drop.
	ports := func(mode uint16, source uint32) []unix.SockFilter {
		return []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_H | mode, K: source},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: port},
			{Code: unix.BPF_LD | unix.BPF_H | mode, K: source + 2},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: port},
			{Code: unix.BPF_RET | unix.BPF_K, K: tapHead},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		}
	}
	head := func(version uint32, protocolAt uint32, more []unix.SockFilter) []unix.SockFilter {
		drop := func(at int) uint8 { return uint8(7 + len(more) - at - 2) } // to the last instruction
		return append([]unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: ancillary + packetType},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: drop(1), K: packetOutgoing},
			{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: 4},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: drop(4), K: version},
			{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: protocolAt},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: drop(6), K: unix.IPPROTO_TCP},
		}, more...)
	}
	if address.Addr().Is4() {
		// BPF_MSH loads the length of an IPv4 header into X.
		return head(4, 9, append([]unix.SockFilter{{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0}}, ports(unix.BPF_IND, 0)...))
	}
	return head(6, 6, ports(unix.BPF_ABS, 40))
}

// A segment is what matters of a TCP packet.
type segment struct {
	from, to netip.AddrPort
	sequence uint32
	size     int // of its payload
	syn      bool
}

// parseSegment reads the headers of an IP packet, which may be cut short after
// them.
func parseSegment(p []byte) (s segment, ok bool) {
	if len(p) < 20 {
		return s, false
	}
	var source, destination netip.Addr
	var tcp []byte
	var size int
	switch p[0] >> 4 {
	case 4:
		head := int(p[0]&0xf) * 4
		if head < 20 || len(p) < head || p[9] != unix.IPPROTO_TCP {
			return s, false
		}
		source, destination = netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:]))
		tcp, size = p[head:], int(p[2])<<8+int(p[3])-head
	case 6:
		if len(p) < 40 || p[6] != unix.IPPROTO_TCP {
			return s, false
		}
		source, destination = netip.AddrFrom16([16]byte(p[8:])), netip.AddrFrom16([16]byte(p[24:]))
		tcp, size = p[40:], int(p[4])<<8+int(p[5])
	default:
		return s, false
	}
	if len(tcp) < 20 {
		return s, false
	}
	size -= int(tcp[12]>>4) * 4
	if size < 0 {
		return s, false
	}
	return segment{
		from:     netip.AddrPortFrom(source, uint16(tcp[0])<<8|uint16(tcp[1])),
		to:       netip.AddrPortFrom(destination, uint16(tcp[2])<<8|uint16(tcp[3])),
		sequence: uint32(tcp[4])<<24 | uint32(tcp[5])<<16 | uint32(tcp[6])<<8 | uint32(tcp[7]),
		size:     size,
		syn:      tcp[13]&0x02 != 0,
	}, true
}

// A follower makes exchanges of the packets of one server.
type follower struct {
	server     netip.AddrPort
	open       map[netip.AddrPort]*flow // by the client's address
	log        []Exchange
	lost       int64 // exchanges and connections that did not fit
	unreadable int64 // packets that could not be read
}

// A flow is one connection.
type flow struct {
	ends     [2]uint32 // the highest sequence number seen, of the client and of the server
	started  [2]bool   // ends holds one
	request  int64     // when the last packet of the request passed, 0: none
	response int64     // when the last packet of its response so far did, 0: none
}

// take takes one packet, in the order in which they passed.
func (f *follower) take(packet []byte, at int64) {
	s, ok := parseSegment(packet)
	if !ok {
		f.unreadable++
		return
	}
	client, side := s.from, 0
	if s.from == f.server {
		client, side = s.to, 1
	}
	c := f.open[client]
	if c == nil || s.syn && side == 0 {
		if c == nil && len(f.open) >= maxTapped {
			f.lost++
			return
		}
		if c != nil {
			f.end(c) // its port is used again
		}
		c = &flow{}
		f.open[client] = c
	}
	end := s.sequence + uint32(s.size)
	if s.size == 0 || c.started[side] && int32(end-c.ends[side]) <= 0 {
		return // an acknowledgement, or sent again
	}
	c.started[side], c.ends[side] = true, end
	switch {
	case side == 1 && c.request != 0:
		c.response = at
	case side == 0:
		f.end(c)
		c.request = at
	}
}

// end keeps the exchange of a connection, if it is whole.
func (f *follower) end(c *flow) {
	if c.response == 0 {
		return
	}
	if len(f.log) < maxExchanges {
		f.log = append(f.log, Exchange{time.Unix(0, c.request), time.Duration(c.response - c.request)})
	} else {
		f.lost++
	}
	c.response = 0
}

// exchanges ends all connections and returns what they carried.
func (f *follower) exchanges() ([]Exchange, error) {
	for _, c := range f.open {
		f.end(c)
	}
	switch {
	case f.lost > 0:
		return nil, fmt.Errorf("oracle: tap: %d connections or exchanges too many: it keeps %d exchanges on %d connections", f.lost, maxExchanges, maxTapped)
	case f.unreadable > 0:
		return nil, fmt.Errorf("oracle: tap: %d packets could not be read", f.unreadable)
	}
	return f.log, nil
}
