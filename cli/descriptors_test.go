package cli

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/selftest/oracle"
)

// If a descriptor table grows under load, opening the next descriptor waits for RCU. So
// it has its size before a service can be reached, and before load begins.
func TestDescriptorTablesHaveTheirSizeBeforehand(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	address := vacant(t)
	for name, c := range map[string]struct {
		args  []string
		ready func() bool
		room  uint64
	}{
		"echo":   {[]string{"serve", "echo", "--tcp", address}, func() bool { return listens(address) }, 1 << 16},
		"relay":  {[]string{"serve", "relay", "--listen", address, "--to", server.Addr().String()}, func() bool { return listens(address) }, 1 << 16},
		"events": {[]string{"serve", "events", "--listen", address}, func() bool { return listens(address) }, 1 << 16},
		"oracle": {[]string{oracle.Command, "null", "--listen", address}, func() bool { return listens(address) }, 1 << 16},
		"engine": {
			[]string{"http", "-q", "-c", "3", "--rate", "100", "--duration", "1m", "http://" + server.Addr().String() + "/"},
			func() bool { return server.Traffic().Received > 0 }, 1024 + 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := begin(t, t.TempDir(), c.args...)
			until(t, name+" is ready", c.ready)
			var limit unix.Rlimit
			if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
				t.Fatal(err)
			}
			if want, got := min(c.room, limit.Cur), tableSize(t, d.cmd.Process.Pid); got < want {
				t.Errorf("room for %d descriptors, want %d", got, want)
			}
			if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			d.wait(t)
		})
	}
}

// tableSize returns how many descriptors the table of a process has room for.
func tableSize(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "FDSize:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no FDSize in", string(text))
	return 0
}

// vacant returns an address of this machine at which no process listens.
func vacant(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// listens tells whether a process listens at an address.
func listens(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
