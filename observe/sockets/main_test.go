package sockets

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

func TestMain(m *testing.M) { leak.Main(m) }

// values are a fresh reading by column.
func values(t *testing.T, c *Connections) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	if err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if c.queue != nil {
		if err := c.queue.poller.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
	}
	columns := c.Columns()
	row := make([]float64, len(columns))
	if err := c.Observe(row); err != nil {
		t.Fatal(err)
	}
	m := make(map[string]float64)
	for i, column := range columns {
		m[column.Name] = row[i]
	}
	return m
}

func newConnections(t *testing.T, cfg Config) *Connections {
	t.Helper()
	cfg.Every = time.Hour // readings are asked for
	c, err := NewConnections(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A pair is a connection from both of its ends.
type pair struct{ client, server *net.TCPConn }

// connect opens n connections to a listener.
func connect(t *testing.T, l net.Listener, address string, n int) []pair {
	t.Helper()
	var pairs []pair
	for range n {
		client, err := net.DialTimeout("tcp", address, hangGuard)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); server.Close() })
		pairs = append(pairs, pair{client.(*net.TCPConn), server.(*net.TCPConn)})
	}
	return pairs
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// control calls f with a connection's descriptor.
func control(t *testing.T, c *net.TCPConn, f func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
}

// inNamespace runs f on a thread that alone is in a new network namespace, whose
// loopback interface is up.
func inNamespace(t *testing.T, f func(t *testing.T, tid int)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		defer func() { done <- err }() // also when f ends the goroutine
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return
		}
		defer home.Close()
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		defer func() {
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread() // or else the thread ends with the goroutine
			}
		}()
		if err = loopbackUp(); err == nil {
			f(t, unix.Gettid())
		}
	}()
	if err := <-done; err != nil {
		t.Skipf("no network namespace: %v", err)
	}
}

// loopbackUp does what "ip link set lo up" does.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// rawListener listens with a backlog on the calling thread's loopback interface.
func rawListener(backlog int) (fd int, at netip.AddrPort, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, at, err
	}
	local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	err = unix.Bind(fd, local)
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, at, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return -1, at, err
	}
	return fd, netip.AddrPortFrom(netip.AddrFrom4(local.Addr), uint16(name.(*unix.SockaddrInet4).Port)), nil
}

// rawConnect begins to connect and does not wait.
func rawConnect(at netip.AddrPort) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())})
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// native appends numbers in the machine's order.
func native(b []byte, numbers ...uint32) []byte {
	for _, n := range numbers {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}
