package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/host/cgroup"
	"dyno/host/proc"
	"dyno/host/sockdiag"
)

// A Listener is a process that listens on an address.
type Listener struct {
	PID  int
	Name string // as in ps
}

// String is as in "nginx, pid 4711".
func (l Listener) String() string { return fmt.Sprintf("%s, pid %d", l.Name, l.PID) }

// ListenerAt returns the process on this machine that listens on an address, host:port or unix:/path.
// If several do, as in a server with workers, it returns their ancestor, or else the first. It returns
// false if the address is another machine's, or if /proc does not show the process: other users'
// descriptors are hidden.
func ListenerAt(address string) (Listener, bool) {
	inodes := make(map[string]bool)
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		file, err := os.Open("/proc/net/unix")
		if err != nil {
			return Listener{}, false
		}
		defer func() { _ = file.Close() }() // it was read only
		for _, inode := range unixListeners(file, path) {
			inodes["socket:["+inode+"]"] = true
		}
	} else if at, ok := localAddress(address); ok {
		tcpSockets(sockdiag.Request{States: sockdiag.Listening, Port: at.Port()}, func(s *sockdiag.Socket) {
			if own := s.Local.Addr(); !at.Addr().IsValid() || own.IsUnspecified() || own == at.Addr().Unmap() {
				inodes[link(s)] = true
			}
		})
	}
	if len(inodes) == 0 {
		return Listener{}, false
	}
	all, err := proc.All()
	if err != nil {
		return Listener{}, false
	}
	holders := slices.DeleteFunc(all, func(p proc.Process) bool { return !holds(p.PID, inodes) })
	if len(holders) == 0 {
		return Listener{}, false
	}
	l, err := ProcessNamed(ancestor(holders))
	return l, err == nil
}

// tcpSockets calls visit for the TCP sockets of this machine that the kernel shows.
func tcpSockets(r sockdiag.Request, visit func(*sockdiag.Socket)) {
	const timeout = time.Second
	c, err := sockdiag.Open(0, timeout)
	if err != nil {
		return
	}
	defer c.Close()
	n := 0
	_ = c.Dump(context.Background(), r, func(s *sockdiag.Socket) error { // a part is better than nothing
		if n++; n > mostSockets {
			return errEnough
		}
		visit(s)
		return nil
	})
}

// link is what a descriptor of a socket links to in /proc.
func link(s *sockdiag.Socket) string { return fmt.Sprintf("socket:[%d]", s.Inode) }

var errEnough = errors.New("enough sockets were read")

// mostServers bounds the result of ServersOf, mostSockets what is read of the kernel's list.
const (
	mostServers = 16
	mostSockets = 100_000
)

// ServersOf returns the processes on this machine to which these processes have TCP connections. It follows the
// connections of the found processes too.
func ServersOf(pids []int) (servers []Listener) {
	for len(pids) > 0 {
		var found []int
		for _, address := range connectedTo(pids) {
			l, ok := ListenerAt(address.String())
			if !ok || slices.Contains(pids, l.PID) || slices.ContainsFunc(servers, func(s Listener) bool { return s.PID == l.PID }) {
				continue
			}
			if len(servers) == mostServers {
				return servers
			}
			servers, found = append(servers, l), append(found, l.PID)
		}
		pids = withChildren(found)
	}
	return servers
}

// withChildren returns processes with all below them.
func withChildren(pids []int) []int {
	all, err := proc.All()
	if err != nil {
		return nil
	}
	both := slices.Clone(pids)
	for _, pid := range pids {
		for _, p := range proc.Below(all, pid) {
			both = append(both, p.PID)
		}
	}
	return both
}

// connectedTo returns the addresses to which processes have connections, and at whose port a process of this
// machine listens.
func connectedTo(pids []int) (addresses []netip.AddrPort) {
	own := map[string]bool{}
	for _, pid := range pids {
		for _, socket := range openFiles(pid) {
			own[socket] = true
		}
	}
	listening, seen := map[uint16]bool{}, map[netip.AddrPort]bool{}
	tcpSockets(sockdiag.Request{States: sockdiag.Listening | sockdiag.Established}, func(s *sockdiag.Socket) {
		if s.State == sockdiag.Listening {
			listening[s.Local.Port()] = true
		} else if own[link(s)] {
			seen[s.Remote] = true
		}
	})
	for address := range seen {
		if listening[address.Port()] {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// ancestor returns the first process whose parent is not in the list, which is not empty.
func ancestor(list []proc.Process) int {
	for _, p := range list {
		if !slices.ContainsFunc(list, func(q proc.Process) bool { return q.PID == p.Parent }) {
			return p.PID
		}
	}
	return list[0].PID
}

// FirstIn returns the process in a control group, and in the groups below it, that has started the others.
func FirstIn(f cgroup.Folders) (Listener, error) {
	var members []proc.Process
	for _, pid := range cgroup.PIDs(f.Processes()) {
		if p, err := proc.Read(pid); err == nil {
			members = append(members, p)
		}
	}
	if len(members) == 0 {
		return Listener{}, fmt.Errorf("no process that can be seen here is in the control group %s", f.Processes())
	}
	return ProcessNamed(ancestor(members))
}

// ProcessNamed returns a process with its name.
func ProcessNamed(pid int) (Listener, error) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return Listener{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Listener{PID: pid, Name: string(bytes.TrimSpace(name))}, nil
}

// holds tells whether a process has one of these sockets.
func holds(pid int, inodes map[string]bool) bool {
	return slices.ContainsFunc(openFiles(pid), func(file string) bool { return inodes[file] })
}

// openFiles returns what a process has open, sockets as socket:[inode]; nothing if it may not be seen.
func openFiles(pid int) (files []string) {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, fd := range fds {
		if link, err := os.Readlink(dir + fd.Name()); err == nil {
			files = append(files, link)
		}
	}
	return files
}

// localAddress reads host:port. It returns false if the host is not this machine. The name
// localhost means any loopback address, which is the invalid one.
func localAddress(address string) (netip.AddrPort, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	at, err := netip.ParseAddr(host)
	switch {
	case host == "localhost":
		return netip.AddrPortFrom(netip.Addr{}, uint16(n)), true
	case err != nil:
		return netip.AddrPort{}, false
	case at.IsLoopback():
		return netip.AddrPortFrom(at, uint16(n)), true
	}
	own, err := net.InterfaceAddrs()
	here := err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(at.AsSlice())
	})
	return netip.AddrPortFrom(at, uint16(n)), here
}

// unixListeners returns the inodes of the sockets that listen on path. The text has the format of
// /proc/net/unix.
func unixListeners(text io.Reader, path string) (inodes []string) {
	const acceptsConnections = "00010000"
	for lines := bufio.NewScanner(text); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) >= 8 && f[3] == acceptsConnections && strings.Join(f[7:], " ") == path {
			inodes = append(inodes, f[6])
		}
	}
	return inodes
}
