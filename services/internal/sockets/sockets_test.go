package sockets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
	"dyno/internal/loop"
	"dyno/services/internal/serve"
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
		a, err := serve.ParseAddress(target)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Lookup(t.Context(), a)
		if err != nil || len(all) != 1 || IsName(a) {
			t.Fatalf("%s: %v, %v, a name: %v", target, all, err, IsName(a))
		}
		r := all[0]
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

// forbid makes the kernel answer a system call of this goroutine's thread with EPERM, as
// filters of container runtimes do.
func forbid(call uint32) error {
	runtime.LockOSThread()       // and never unlocked: the thread ends with the goroutine
	filter := []unix.SockFilter{ // seccomp(2); the data begins with the call's number
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestAcceptForbidden: if accepting is forbidden, the caller learns this, and pauses. The
// connection stays in the queue, so trying again at once would never end.
func TestAcceptForbidden(t *testing.T) {
	l, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	forbidden, accepted := make(chan error, 1), make(chan error, 1)
	go func() {
		err := forbid(unix.SYS_ACCEPT4)
		forbidden <- err
		if err == nil {
			_, err = Accept(l.FD, true)
			accepted <- err
		}
	}()
	if err := <-forbidden; err != nil {
		t.Skipf("system calls cannot be filtered here: %v", err)
	}
	select {
	case err := <-accepted:
		if !errors.Is(err, unix.EPERM) || !serve.Passing(err) {
			t.Errorf("%v, want EPERM, which passes", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("tries for 20 s")
	}
	fd, err := Accept(l.FD, true)
	if err != nil {
		t.Fatalf("the connection is gone: %v", err)
	}
	loop.Close(fd)
}

// TestLookup: a name has all its addresses, those of IPv4 first, and none twice.
func TestLookup(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:80":          "127.0.0.1:80",
		"[::ffff:127.0.0.1]:80": "127.0.0.1:80",
		"[::1]:80":              "[::1]:80",
		":80":                   "127.0.0.1:80 [::1]:80",
	} {
		a, err := serve.ParseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Lookup(t.Context(), a)
		var got []string
		for _, r := range list {
			got = append(got, r.Addr.String())
		}
		if err != nil || strings.Join(got, " ") != want || IsName(a) {
			t.Errorf("%s: %v, %v, a name: %v; want %s", text, got, err, IsName(a), want)
		}
	}
	local := serve.Address{Network: "tcp", Address: "localhost:80"}
	if list, err := Lookup(t.Context(), local); err != nil || len(list) == 0 || list[0].Addr.String() != "127.0.0.1:80" || !IsName(local) {
		t.Errorf("localhost: %v, %v", list, err)
	}
	if _, err := Lookup(t.Context(), serve.Address{Network: "tcp", Address: "no.such.host.invalid:80"}); err == nil || !strings.Contains(err.Error(), "resolve no.such.host.invalid:80") {
		t.Errorf("got %v", err)
	}
}

// TestHosts reads a file of names as hosts(5) describes it, and again after a change.
func TestHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	for _, c := range []struct{ text, name, want string }{
		{"# local\n127.0.0.1\tlocalhost  Me # b\n::1 localhost\n192.0.2.1 b\nnonsense a\n192.0.2.2\n", "localhost", "[127.0.0.1 ::1]"},
		{"127.0.0.1 localhost Me # b\n", "mE.", "[127.0.0.1]"},
		{"127.0.0.1 localhost # b\n", "b", "[]"},
		{"192.0.2.1 b", "b", "[192.0.2.1]"},
		{"192.0.2.2 b", "b", "[192.0.2.2]"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(inHosts(path, c.name)); got != c.want {
			t.Errorf("%q in %q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
	if got := inHosts(path+"x", "b"); got != nil {
		t.Errorf("without a file: %v", got)
	}
}
