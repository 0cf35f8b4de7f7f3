package tcp

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// congestion reads a socket's congestion control.
func congestion(c syscall.RawConn) (name string, err error) {
	var fault error
	err = c.Control(func(fd uintptr) { name, fault = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) })
	return strings.TrimRight(name, "\x00"), errors.Join(err, fault)
}

// TestCongestion: sockets that are dialled and accepted have the congestion control that
// they were given: each that this machine has.
func TestCongestion(t *testing.T) {
	text, err := os.ReadFile(available)
	if err != nil {
		t.Skip(err)
	}
	tried := 0
	for _, name := range strings.Fields(string(text)) {
		if err := Check(name); err != nil {
			t.Logf("not for this process: %v", err)
			continue
		}
		tried++
		control := Control(name)
		l, err := (&net.ListenConfig{Control: control}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		dialed, err := (&net.Dialer{Control: control}).Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer dialed.Close()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		for what, c := range map[string]net.Conn{"dialled": dialed, "accepted": accepted} {
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := congestion(raw); got != name || err != nil {
				t.Errorf("%s: %q, %v: want %q", what, got, err, name)
			}
		}
	}
	if tried == 0 {
		t.Error("no congestion control can be set")
	}
}

func TestCheck(t *testing.T) {
	for _, name := range []string{"a name", "none-of-these", "much-longer-than-a-name-may-be", "a/b"} {
		if err := Check(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Check(""); err != nil {
		t.Error(err)
	}
	// Of a network without congestion control.
	l, err := (&net.ListenConfig{Control: Control("none-of-these")}).Listen(context.Background(), "unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
