package sockets

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
	"dyno/internal/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestListenAndConnect(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		l, err := Listen(address, false)
		if err != nil {
			t.Fatal(err)
		}
		target := l.Addr.String()
		if !l.TCP() {
			target = "unix:" + target
		}
		r, err := Resolve(target)
		if err != nil {
			t.Fatal(err)
		}
		if r.Addr.String() != l.Addr.String() || r.TCP() != l.TCP() {
			t.Errorf("%s resolves to %v", target, r.Addr)
		}
		fd, err := r.Socket()
		if err != nil {
			t.Fatal(err)
		}
		if errno := r.Connect(fd); errno != 0 && errno != unix.EINPROGRESS {
			t.Fatal(errno)
		}
		var c int
		for deadline := time.Now().Add(20 * time.Second); ; {
			c, err = Accept(l.FD, l.TCP())
			if !errors.Is(err, unix.EAGAIN) || time.Now().After(deadline) {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		local, _ := loop.Addrs(c)
		_, peer := loop.Addrs(fd)
		if local.String() != l.Addr.String() || peer.String() != l.Addr.String() {
			t.Errorf("%s: local %v, seen by the peer as %v", address, local, peer)
		}
		if errno := loop.SocketError(fd); errno != 0 {
			t.Error(errno)
		}
		loop.Reset(c)
		loop.Close(fd)
		l.Close()
		l.Close()
		if fd, err = r.Socket(); err != nil {
			t.Fatal(err)
		}
		switch errno := r.Connect(fd); errno {
		case unix.ECONNREFUSED, unix.ENOENT:
		case unix.EINPROGRESS:
			for deadline := time.Now().Add(20 * time.Second); ; {
				if errno := loop.SocketError(fd); errno == unix.ECONNREFUSED {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: still connects", address)
				}
			}
		default:
			t.Errorf("%s after closing: %v", address, errno)
		}
		loop.Close(fd)
	}
}

func TestReusePort(t *testing.T) {
	a, err := Listen("127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := Listen(a.Addr.String(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := net.Listen("tcp", a.Addr.String()); err == nil {
		t.Error("a third listener without SO_REUSEPORT got the same address")
	}
}
