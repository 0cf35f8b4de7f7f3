// Package handshakes observes the TLS handshakes of this machine's connections from outside, by
// the server's address. No program is touched, and nothing is decrypted.
//
//	w, err := handshakes.Begin()
//	…
//	byService, err := w.Count(serviceAt) // now and then
//
// An eBPF program looks at each packet of this network namespace, on all its devices (packet(7)).
// It lets none through: all that leaves the kernel are the sums.
//
// A handshake begins with the segment that carries the ClientHello. It ends with the last message
// that a handshake of its version needs: the client's Finished in TLS 1.3 and in a resumption of
// TLS 1.2 or older, the server's Finished in a full handshake of TLS 1.2 or older (RFC 8446,
// RFC 5246). So its time is what the exchange takes at this machine's devices. The connecting
// by TCP before is not part of it, and no wait of the client's program after it either. Where the
// server is on this machine and the client is not, the same holds at the server's end.
//
// A handshake has failed when a side sends an alert, or ends the connection, before that. What
// comes after the end is not seen: a server that refuses the client's certificate in TLS 1.3 says so
// behind the client's Finished, and the handshake counts as completed.
//
// # How far to trust it
//
// The kind of a segment is told by the first record in it, and TLS begins a new segment wherever one
// side has waited for the other. What is not TLS over TCP (QUIC) is not seen, nor is a handshake that
// an IPv6 extension header or an IP fragment hides. A handshake begun before Begin is not counted. If more
// than 65,536 are under way, the oldest are forgotten.
//
// # What it costs
//
// The program runs for every packet that this machine sends or gets, and for both where the
// machine talks to itself: 0.29 µs for packets of others, 0.36 µs for those of servers that are
// followed, on two EPYC vCPUs, Linux 6.18, by the kernel's own account of eBPF programs
// (BenchmarkCost). What the kernel takes to hand packets to any socket of this kind is not in it.
//
// # Where it works
//
// With CAP_NET_RAW and CAP_BPF, or root, on Linux 5.8 or newer.
package handshakes

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Bounds of the kernel's tables.
const (
	maxAddresses = 1 << 16 // of servers
	maxPending   = 1 << 16 // handshakes under way
)

// A Tally counts handshakes since the watch began.
type Tally struct {
	Completed uint64
	Failed    uint64
	Total     time.Duration // of those that were completed
	Max       time.Duration // the longest of them
}

// Mean returns the mean time of a handshake, 0 if none was completed.
func (t Tally) Mean() time.Duration {
	if t.Completed == 0 {
		return 0
	}
	return time.Duration(uint64(t.Total) / t.Completed) //nolint:gosec // no greater than the total
}

// An address is a server's, as the program has it.
type address struct {
	IP   [16]byte // IPv4 mapped into IPv6
	Port [2]byte  // big-endian
	_    [2]byte
}

func addressOf(a netip.AddrPort) address {
	return address{IP: a.Addr().As16(), Port: [2]byte{byte(a.Port() >> 8), byte(a.Port())}}
}

// A sum is what the program adds up for an address, on each CPU its own.
type sum struct {
	Completed, Failed, Nanoseconds, Longest uint64
}

// A Watch observes until it is closed. It is used by one goroutine at a time.
type Watch struct {
	sums, pending *ebpf.Map
	program       *ebpf.Program
	socket        int

	followed map[netip.AddrPort]*followed
	groups   map[string]Tally
}

// A followed address has a group, and what was counted for it when it was read last.
type followed struct {
	group string
	read  sum
}

// Begin begins to watch. No handshake is counted before the first Count, which says to what addresses.
func Begin() (*Watch, error) {
	w := &Watch{socket: -1, followed: map[netip.AddrPort]*followed{}, groups: map[string]Tally{}}
	if err := w.begin(); err != nil {
		_ = w.Close() // the first error is the one to tell
		return nil, fmt.Errorf("handshakes: %w", err)
	}
	return w, nil
}

func (w *Watch) begin() (err error) {
	_ = rlimit.RemoveMemlock() // needed before Linux 5.11 only; if it fails there, so does the next step
	w.sums, err = ebpf.NewMap(&ebpf.MapSpec{
		// Without room in advance: addresses are few, and CPUs may be many.
		Name: "dyno_sums", Type: ebpf.PerCPUHash, Flags: unix.BPF_F_NO_PREALLOC,
		KeySize: uint32(unsafe.Sizeof(address{})), ValueSize: uint32(unsafe.Sizeof(sum{})), MaxEntries: maxAddresses,
	})
	if err != nil {
		return fmt.Errorf("map of sums: %w", err)
	}
	w.pending, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "dyno_pending", Type: ebpf.LRUHash,
		KeySize: uint32(2 * unsafe.Sizeof(address{})), ValueSize: uint32(unsafe.Sizeof(handshake{})), MaxEntries: maxPending,
	})
	if err != nil {
		return fmt.Errorf("map of handshakes: %w", err)
	}
	if w.program, err = ebpf.NewProgram(onPacket(w.sums, w.pending)); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	// Bound to no protocol at first, so that nothing is queued before the filter stands.
	if w.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(w.socket, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, w.program.FD()); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	// ETH_P_ALL in network order: the one protocol of which sockets see what is sent, too.
	if err := unix.Bind(w.socket, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// Close ends the watch.
func (w *Watch) Close() (err error) {
	if w.socket >= 0 {
		err = unix.Close(w.socket)
		w.socket = -1
	}
	return errors.Join(err, w.program.Close(), w.pending.Close(), w.sums.Close())
}

// Count adds up what was seen, by group of the server's address. It takes the groups of addresses as
// they are now. An address is followed from the Count on that has it first, and stays in the group that it
// had last when it is no longer among them. A group keeps what its addresses have added up to.
func (w *Watch) Count(at map[netip.AddrPort]string) (map[string]Tally, error) {
	for a, group := range at {
		f := w.followed[a]
		if f == nil {
			if len(w.followed) == maxAddresses {
				return nil, fmt.Errorf("handshakes: more than %d addresses of servers", maxAddresses)
			}
			if err := w.follow(a); err != nil {
				return nil, err
			}
			f = &followed{}
			w.followed[a] = f
		}
		f.group = group
	}
	var perCPU []sum
	for a, f := range w.followed {
		if err := w.sums.Lookup(addressOf(a), &perCPU); err != nil {
			return nil, fmt.Errorf("handshakes: read the sums of %v: %w", a, err)
		}
		now := add(perCPU)
		t := w.groups[f.group]
		t.Completed += now.Completed - f.read.Completed
		t.Failed += now.Failed - f.read.Failed
		t.Total += time.Duration(now.Nanoseconds - f.read.Nanoseconds) //nolint:gosec // centuries
		if now.Longest > f.read.Longest {
			t.Max = max(t.Max, time.Duration(now.Longest)) //nolint:gosec // centuries
		}
		w.groups[f.group], f.read = t, now
	}
	all := make(map[string]Tally, len(w.groups))
	for group, t := range w.groups {
		all[group] = t
	}
	return all, nil
}

// follow makes room for an address, without which the program passes it over.
func (w *Watch) follow(a netip.AddrPort) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("handshakes: number of CPUs: %w", err)
	}
	if err := w.sums.Put(addressOf(a), make([]sum, cpus)); err != nil {
		return fmt.Errorf("handshakes: follow %v: %w", a, err)
	}
	return nil
}

// add adds up what the CPUs have counted.
func add(perCPU []sum) (all sum) {
	for _, s := range perCPU {
		all.Completed += s.Completed
		all.Failed += s.Failed
		all.Nanoseconds += s.Nanoseconds
		all.Longest = max(all.Longest, s.Longest)
	}
	return all
}
