package sysctl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dyno/host/child"
	"dyno/internal/leak"
	"dyno/internal/roles"
)

const (
	// hangGuard bounds every wait of these tests. It is no expectation of speed.
	hangGuard = 30 * time.Second
	somaxconn = "net.core.somaxconn" // one for each network
	finTime   = "net.ipv4.tcp_fin_timeout"
)

// TestMain lets the test binary be the programs that the tests start: the process that
// changes settings, and a program that ends badly.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], Role()); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "host" {
		os.Exit(host(os.Args[2]))
	}
	// The race detector's run time sleeps a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// host changes a setting and then ends in the way that the test asks for.
func host(end string) int {
	s, err := Set(map[string]string{somaxconn: "77"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("set", s.cmd.Process.Pid)
	if end == "panic" {
		panic("on purpose")
	}
	select {} // until it is killed
}

// ownNetwork gives the test a network namespace of its own, with settings below net that others do not
// see. They belong to its thread; the goroutine keeps the thread to its end.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("needs root, for a network of its own: ", err)
	}
}

func value(t *testing.T, name string) string {
	t.Helper()
	v, err := kernel().read(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSetAndRestore(t *testing.T) {
	ownNetwork(t)
	before := map[string]string{somaxconn: value(t, somaxconn), finTime: value(t, finTime), "net.ipv4.tcp_rmem": value(t, "net.ipv4.tcp_rmem")}
	s, err := Set(map[string]string{somaxconn: "12345", finTime: "17", "net.ipv4.tcp_rmem": "4096 65536 131072"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.Found()); diff != "" {
		t.Error(diff)
	}
	if a, b, c := value(t, somaxconn), value(t, finTime), value(t, "net.ipv4.tcp_rmem"); a != "12345" || b != "17" || plain(c) != "4096 65536 131072" {
		t.Errorf("%s, %s and %s are in force", a, b, c)
	}
	if err := s.Restore(); err != nil {
		t.Error(err)
	}
	for name, was := range before {
		if is := value(t, name); is != was {
			t.Errorf("%s is %s, was %s", name, is, was)
		}
	}
}

func TestAllOrNothing(t *testing.T) {
	ownNetwork(t)
	before := value(t, somaxconn)
	_, err := Set(map[string]string{
		somaxconn:                         "12345",
		finTime:                           "soon",
		"net.ipv4.tcp_congestion_control": "none-such",
		"net.core.no_such_thing":          "1",
		"kernel.ostype":                   "Unix",
		"kernel/../kernel.ostype":         "x",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, says := range []string{
		finTime + ": set to soon", "the kernel does not take this value", "net.ipv4.tcp_congestion_control: ",
		"net.core.no_such_thing: ", "this kernel has no such setting",
		"kernel.ostype: ", "run as root", "not the name of a setting",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("does not say %q:\n%v", says, err)
		}
	}
	if is := value(t, somaxconn); is != before {
		t.Errorf("somaxconn is %s, was %s", is, before)
	}
}

// Settings are restored, whatever happens to the program that asked for them.
func TestRestoredAfterDeath(t *testing.T) {
	for _, end := range []string{"SIGKILL", "panic"} {
		t.Run(end, func(t *testing.T) {
			ownNetwork(t)
			before := value(t, somaxconn)
			if before == "77" {
				t.Fatal("nothing would change")
			}
			cmd := roles.Command("host", end)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			var child int
			if _, scanned := fmt.Sscanf(line, "set %d", &child); scanned != nil {
				t.Fatalf("the host said %q, %v", line, err)
			}
			if end == "SIGKILL" {
				// The setting is in force; a terminal's signals do not end the process.
				if is := value(t, somaxconn); is != "77" {
					t.Errorf("somaxconn is %s, want 77", is)
				}
				for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
					if err := syscall.Kill(child, s); err != nil {
						t.Error(err)
					}
				}
				if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
			_ = cmd.Wait() // the program was meant to end badly
			roles.Until(t, "the setting is put back", func() bool { return value(t, somaxconn) == before })
			roles.Until(t, "nobody is left", func() bool { return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) || zombie(child) })
		})
	}
}

// zombie reports whether a process is dead, on a machine whose first process does not reap.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

func TestItsProcessIsKilled(t *testing.T) {
	ownNetwork(t)
	before := value(t, somaxconn)
	s, err := Set(map[string]string{somaxconn: "78"})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(); err != nil {
		t.Error(err)
	}
	if is := value(t, somaxconn); is != before {
		t.Errorf("somaxconn is %s, was %s", is, before)
	}
}

func TestUnprivileged(t *testing.T) {
	cmd := roles.Command("host", "")
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Cloneflags: syscall.CLONE_NEWNET}
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), somaxconn+": ") || !strings.Contains(string(out), "permission denied (run as root") {
		t.Errorf("%v: %s", err, out)
	}
}

// memory is a store whose settings are in a map. It keeps a bounded number of characters
// of a value, like a kernel that clamps values.
func memory(m map[string]string, most int) store {
	return store{
		read: func(name string) (string, error) {
			v, ok := m[name]
			if !ok {
				return "", os.ErrNotExist
			}
			return v, nil
		},
		write: func(name, v string) error {
			m[name] = v[:min(len(v), most)]
			return nil
		},
	}
}

func TestClampedValueIsRefused(t *testing.T) {
	m := map[string]string{"a.b": "1", "a.c": "2"}
	found, err := memory(m, 3).set(map[string]string{"a.b": "12345", "a.c": "7"})
	if err == nil || !strings.Contains(err.Error(), "a.b: the kernel has turned 12345 into 123") || found != nil {
		t.Errorf("%v, %v", found, err)
	}
	if diff := cmp.Diff(map[string]string{"a.b": "1", "a.c": "2"}, m); diff != "" {
		t.Error(diff)
	}
}

func FuzzPath(f *testing.F) {
	for _, name := range []string{somaxconn, "..", "a..b", "a/../../etc", "net.ipv4.conf.eth0-1.rp_filter", ".a.b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := path(name)
		if err == nil && (!strings.HasPrefix(p, root+"/") || strings.Contains(p, "..") || strings.Count(p, "/") < 4) {
			t.Errorf("%q is at %s", name, p)
		}
	})
}
