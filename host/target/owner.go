package target

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"dyno/host/proc"
)

// owner describes the process that listens on an address ("nginx, pid 4711"). It returns
// "" if /proc does not show it: other users' descriptors are hidden.
func owner(network, addr string) string {
	inodes := make(map[string]bool)
	add := func(file string, parse func([]byte) []string) {
		if text, err := os.ReadFile(file); err == nil {
			for _, inode := range parse(text) {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	if network == "unix" {
		add("/proc/net/unix", func(b []byte) []string { return unixListeners(b, addr) })
	} else if port, err := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:]); err == nil {
		ip, _ := netip.ParseAddr(strings.Trim(addr[:strings.LastIndexByte(addr, ':')], "[]")) // a name means any address
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			add(file, func(b []byte) []string { return tcpListeners(b, ip, port) })
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	all, err := proc.All()
	if err != nil {
		return ""
	}
	for _, p := range all {
		dir := fmt.Sprintf("/proc/%d/fd/", p.PID)
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if link, err := os.Readlink(dir + fd.Name()); err == nil && inodes[link] {
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
				return fmt.Sprintf("%s, pid %d", bytes.TrimSpace(name), p.PID)
			}
		}
	}
	return ""
}

// tcpListeners returns the inodes of the sockets that listen on the port, either on ip or
// on every address. An invalid ip matches every socket. The text is that of /proc/net/tcp
// or tcp6 (proc_pid_net(5)).
func tcpListeners(text []byte, ip netip.Addr, port int) (inodes []string) {
	const listen = "0A"
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 10 || f[3] != listen {
			continue
		}
		host, p, ok := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(p, 16, 16); !ok || err != nil || int(n) != port {
			continue
		}
		at, ok := parseHexAddr(host)
		if ok && (!ip.IsValid() || at.IsUnspecified() || at == ip.Unmap()) {
			inodes = append(inodes, f[9])
		}
	}
	return inodes
}

// parseHexAddr reads an address as the kernel prints it: as 32-bit words in the byte
// order of the machine, which is little-endian.
func parseHexAddr(s string) (netip.Addr, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || (len(b) != 4 && len(b) != 16) {
		return netip.Addr{}, false
	}
	for w := 0; w < len(b); w += 4 {
		b[w], b[w+1], b[w+2], b[w+3] = b[w+3], b[w+2], b[w+1], b[w]
	}
	a, ok := netip.AddrFromSlice(b)
	return a.Unmap(), ok
}

// unixListeners returns the inodes of the sockets that listen on path. The text
// is that of /proc/net/unix.
func unixListeners(text []byte, path string) (inodes []string) {
	const acceptsConnections = "00010000"
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) >= 8 && f[3] == acceptsConnections && strings.Join(f[7:], " ") == path {
			inodes = append(inodes, f[6])
		}
	}
	return inodes
}
