package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/sys/unix"
)

// Buffers asks for socket buffers and reads back what the kernel gave. It bounds what
// is asked by net.core.wmem_max and rmem_max and doubles it, for its own bookkeeping
// (socket(7), SO_SNDBUF and SO_RCVBUF).
//
// Figures: asked_bytes; send_bytes and receive_bytes as read back; send_limit_bytes
// and receive_limit_bytes, the kernel's bounds; send_ratio and receive_ratio, of what
// was read back to what was asked.
type Buffers struct {
	Bytes int `yaml:"bytes" range:"1..1073741824" default:"65536" doc:"the size to request, for each kind of buffer"`
}

// Run asks once.
func (b Buffers) Run(ctx context.Context) (measurement.Result, error) {
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	r := measurement.Result{"asked_bytes": float64(b.Bytes)}
	for _, side := range []struct {
		name   string
		option int
		limit  string
	}{
		{"send", unix.SO_SNDBUF, "wmem_max"},
		{"receive", unix.SO_RCVBUF, "rmem_max"},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, side.option, b.Bytes); err != nil {
			return nil, fmt.Errorf("ask for a %s buffer of %d bytes: %w", side.name, b.Bytes, err)
		}
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, side.option)
		if err != nil {
			return nil, fmt.Errorf("read the %s buffer back: %w", side.name, err)
		}
		limit, err := readSetting("core/" + side.limit)
		if err != nil {
			return nil, err
		}
		r[side.name+"_bytes"] = float64(got)
		r[side.name+"_limit_bytes"] = float64(limit)
		r[side.name+"_ratio"] = float64(got) / float64(b.Bytes)
	}
	return r, nil
}

const (
	// settings is where the kernel shows the values of the caller's network namespace.
	settings = "/proc/sys/net/"
	// lowLatency is shown in the machine's first namespace only.
	lowLatency = "ipv4/tcp_low_latency"
)

func readSetting(name string) (int, error) {
	text, err := os.ReadFile(settings + name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// LowLatency measures whether net.ipv4.tcp_low_latency changes what a connection carries over loopback, and how much
// of it enters the page cache. It turns the setting of the whole machine over every 20 ms, and puts it back.
//
// Figures: off_bytes_per_second and on_bytes_per_second; ratio, of the second to the first; page_cache_share, by how
// much the machine's page cache grew or shrank for each byte that was carried.
type LowLatency struct {
	Buffer   int           `yaml:"buffer" range:"4096..1073741824" default:"524288" doc:"SO_RCVBUF"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"2s" doc:"how long to measure"`
}

// Run carries bytes for the duration.
func (l LowLatency) Run(ctx context.Context) (_ measurement.Result, err error) {
	found, err := readSetting(lowLatency)
	if err != nil {
		return nil, err
	}
	set := func(value int) error { return os.WriteFile(settings+lowLatency, []byte(strconv.Itoa(value)), 0) }
	defer func() { err = errors.Join(err, set(found)) }()
	near, far, err := pair(ctx)
	if err != nil {
		return nil, err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		b := make([]byte, 64<<10)
		for err := error(nil); err == nil; {
			_, err = near.Write(b) // until the connection is closed
		}
		_ = near.Close()
	}()
	defer func() { <-sent }()
	defer func() { _ = far.Close() }()
	if err := far.SetReadBuffer(l.Buffer); err != nil {
		return nil, err
	}
	before, err := field("/proc/meminfo", "Cached")
	var carried, seconds [2]float64
	b := make([]byte, 64<<10)
	for end, turn := time.Now().Add(l.Duration), 0; err == nil && ctx.Err() == nil && (time.Now().Before(end) || turn < 2); turn++ {
		on := turn % 2
		err = set(on)
		began := time.Now()
		for err == nil && time.Since(began) < 20*time.Millisecond {
			var n int
			n, err = far.Read(b)
			carried[on] += float64(n)
		}
		seconds[on] += time.Since(began).Seconds()
	}
	after, err2 := field("/proc/meminfo", "Cached")
	if err := errors.Join(err, err2, interrupted(ctx)); err != nil {
		return nil, err
	}
	off, on := carried[0]/seconds[0], carried[1]/seconds[1]
	return measurement.Result{
		"off_bytes_per_second": off,
		"on_bytes_per_second":  on,
		"ratio":                on / off,
		"page_cache_share":     math.Abs(after-before) / (carried[0] + carried[1]),
	}, nil
}

// NoDelay measures the round trip of a message that is written in parts, over loopback. It does so with and
// without Nagle's algorithm (RFC 896; TCP_NODELAY in tcp(7)). With it, a second small part waits until the first
// is acknowledged, and the receiver puts acknowledgements off, unless an option of its socket forbids it.
//
// Figures: mean_seconds, deviation_seconds (the standard deviation) and
// largest_seconds of a round trip; round_trips.
type NoDelay struct {
	On       bool          `yaml:"on" default:"true" doc:"TCP_NODELAY"`
	Parts    int           `yaml:"parts" range:"1..100" default:"2" doc:"writes per message"`
	Bytes    int           `yaml:"bytes" range:"1..65536" default:"50" doc:"per part"`
	Quick    bool          `yaml:"quick" doc:"the receiver acknowledges at once (TCP_QUICKACK)"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

// Run sends messages for the duration, one after the other.
func (n NoDelay) Run(ctx context.Context) (measurement.Result, error) {
	near, far, err := pair(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = near.Close() }() // measured, and read to the end
	message := n.Parts * n.Bytes
	echoed := make(chan error, 1)
	go func() {
		defer func() { _ = far.Close() }() // what it says then is of no use
		echoed <- n.answerWhole(far, message)
	}()
	if err := near.SetNoDelay(n.On); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(n.Duration)
	// A program that waits for an answer has then waited long enough for any of them.
	_ = near.SetDeadline(deadline.Add(10 * time.Second))
	part, answer := make([]byte, n.Bytes), make([]byte, message)
	var count, sum, squares, largest float64
	for time.Now().Before(deadline) && ctx.Err() == nil {
		began := time.Now()
		for range n.Parts {
			if _, err := near.Write(part); err != nil {
				return nil, fmt.Errorf("write: %w", err)
			}
		}
		if err := readWhole(near, answer); err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		took := time.Since(began).Seconds()
		count, sum, squares, largest = count+1, sum+took, squares+took*took, max(largest, took)
	}
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if err := near.CloseWrite(); err != nil {
		return nil, err
	}
	if err := <-echoed; err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	if count == 0 {
		return nil, errNothing
	}
	mean := sum / count
	return measurement.Result{
		"mean_seconds":      mean,
		"deviation_seconds": math.Sqrt(max(0, squares/count-mean*mean)),
		"largest_seconds":   largest,
		"round_trips":       count,
	}, nil
}

// answerWhole answers each message with as many bytes in one write, until the peer
// has no more to send.
func (n NoDelay) answerWhole(c *net.TCPConn, message int) error {
	b := make([]byte, message)
	raw, err := c.SyscallConn()
	for err == nil {
		if n.Quick { // the kernel takes it back after a while
			if err := acknowledgeAtOnce(raw); err != nil {
				return err
			}
		}
		err := readWhole(c, b)
		if errors.Is(err, errEnded) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return err
}

// acknowledgeAtOnce ends the delay of acknowledgements.
func acknowledgeAtOnce(c syscall.RawConn) error {
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1))
	}); err != nil {
		return err
	}
	return failed
}

var errEnded = errors.New("the peer has no more to send")

// readWhole fills b; errEnded before its first byte is the orderly end.
func readWhole(c *net.TCPConn, b []byte) error {
	for filled := 0; filled < len(b); {
		n, err := c.Read(b[filled:])
		filled += n
		switch {
		case err == nil:
		case filled == 0 && n == 0 && errors.Is(err, io.EOF):
			return errEnded
		default:
			return err
		}
	}
	return nil
}

// pair returns both ends of a TCP connection over loopback.
func pair(ctx context.Context) (near, far *net.TCPConn, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp4", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	peer, err := l.Accept()
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c.(*net.TCPConn), peer.(*net.TCPConn), nil
}

// KeepAlive measures how long a connection takes to notice that its peer has fallen
// silent: the peer's socket drops all that arrives, as a host does that has lost its
// network. Probes begin after an idle time and go out at an interval, a number of
// times; the socket's own values stand before the kernel's (tcp(7), TCP_KEEPIDLE,
// TCP_KEEPINTVL and TCP_KEEPCNT; tcp_keepalive_time, _intvl and _probes).
//
// Kernel values are set in a network namespace of the program's own, which takes the
// right to make one.
//
// Figures: detected, 1 or 0; detected_seconds, how long that took, or else Wait.
type KeepAlive struct {
	On bool `yaml:"on" default:"true" doc:"SO_KEEPALIVE"`
	// TCP_KEEPCNT takes no more than 127.
	Socket int           `yaml:"socket" range:"0..127" doc:"TCP_KEEPIDLE and TCP_KEEPINTVL in seconds, and TCP_KEEPCNT; 0 leaves them to the kernel"`
	Kernel int           `yaml:"kernel" range:"0..127" doc:"tcp_keepalive_time and _intvl in seconds, and _probes, in a network namespace of its own; 0 leaves them"`
	Wait   time.Duration `yaml:"wait" range:"1us..10m" default:"5s" doc:"how long the peer is silent"`
}

// Run opens a connection, silences its peer and waits.
func (k KeepAlive) Run(ctx context.Context) (measurement.Result, error) {
	return onThread(func() (measurement.Result, error) { return k.wait(ctx) })
}

// onThread measures on a thread that may enter a namespace.
func onThread(run func() (measurement.Result, error)) (measurement.Result, error) {
	type outcome struct {
		measurement.Result
		error
	}
	done := make(chan outcome, 1)
	go func() {
		// Not unlocked: a thread in a namespace of its own must not run anything else.
		runtime.LockOSThread()
		r, err := run()
		done <- outcome{r, err}
	}()
	o := <-done
	return o.Result, o.error
}

func (k KeepAlive) wait(ctx context.Context) (measurement.Result, error) {
	if k.Kernel > 0 {
		values := map[string]int{"tcp_keepalive_time": k.Kernel, "tcp_keepalive_intvl": k.Kernel, "tcp_keepalive_probes": k.Kernel}
		if err := enterNamespace(values); err != nil {
			return nil, err
		}
	}
	near, far, err := silentPair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(near)
	defer unix.Close(far)
	set := func(level, option, value int) {
		if err == nil && value > 0 {
			err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(near, level, option, value))
		}
	}
	if k.On {
		set(unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	}
	for _, option := range []int{unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT} {
		set(unix.IPPROTO_TCP, option, k.Socket)
	}
	if err != nil {
		return nil, err
	}
	// The peer is silent from here on.
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	program := unix.SockFprog{Len: 1, Filter: &drop[0]}
	if err := unix.SetsockoptSockFprog(far, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return nil, fmt.Errorf("silence the peer: %w", err)
	}
	began := time.Now()
	for {
		left := k.Wait - time.Since(began)
		if left <= 0 || ctx.Err() != nil {
			break
		}
		fds := []unix.PollFd{{Fd: int32(near)}} //nolint:gosec // a descriptor
		n, err := unix.Poll(fds, int(min(left, 100*time.Millisecond).Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("poll: %w", err)
		}
		if n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			return measurement.Result{"detected": 1, "detected_seconds": time.Since(began).Seconds()}, interrupted(ctx)
		}
	}
	return measurement.Result{"detected": 0, "detected_seconds": k.Wait.Seconds()}, interrupted(ctx)
}

// enterNamespace puts the calling thread into a network namespace of its own, with values of settings of its IPv4.
func enterNamespace(values map[string]int) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace for the kernel's values: %w", err)
	}
	if err := raiseLoopback(); err != nil {
		return fmt.Errorf("raise the namespace's loopback: %w", err)
	}
	for name, value := range values {
		if err := os.WriteFile(settings+"ipv4/"+name, []byte(strconv.Itoa(value)), 0); err != nil {
			return err
		}
	}
	return nil
}

func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// silentPair returns both ends of a connection in the calling thread's namespace. Go's
// own sockets could be made by another thread, in another.
func silentPair() (near, far int, err error) {
	near, far = -1, -1
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return near, far, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(listener)
	address := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := errors.Join(unix.Bind(listener, address), unix.Listen(listener, 1)); err != nil {
		return near, far, fmt.Errorf("listen: %w", err)
	}
	at, err := unix.Getsockname(listener)
	if err != nil {
		return near, far, fmt.Errorf("listen: %w", err)
	}
	if near, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return near, far, fmt.Errorf("socket: %w", err)
	}
	if err = unix.Connect(near, at); err == nil {
		far, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	}
	if err != nil {
		unix.Close(near)
		return -1, -1, fmt.Errorf("connect: %w", err)
	}
	return near, far, nil
}
