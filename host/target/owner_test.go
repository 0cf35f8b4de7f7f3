package target

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dyno/host/proc"
)

func TestListenerAt(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "s")
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	port := strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port)
	if tcp6, err := net.Listen("tcp6", "[::1]:0"); err == nil { // else there is no IPv6
		defer tcp6.Close()
		if got, ok := ListenerAt(tcp6.Addr().String()); !ok || got.PID != os.Getpid() {
			t.Errorf("%s: %v, %v", tcp6.Addr(), got, ok)
		}
	}
	for address, found := range map[string]bool{
		"127.0.0.1:" + port: true, "localhost:" + port: true, "unix:" + path: true,
		"127.0.0.2:" + port: false, "192.0.2.1:" + port: false, "example.com:" + port: false, "unix:" + path + "x": false, "127.0.0.1": false, "": false, "127.0.0.1:70000": false,
	} {
		got, ok := ListenerAt(address)
		if ok != found || found && (got.PID != os.Getpid() || got.Name == "") {
			t.Errorf("%s: %v, %v", address, got, ok)
		}
	}
}

// If workers have the server's socket too, the listener is the process that started them.
func TestListenerWithWorkers(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	file, err := tcp.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	worker := exec.CommandContext(t.Context(), "cat")
	worker.ExtraFiles = []*os.File{file}
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	got, ok := ListenerAt(tcp.Addr().String())
	if !ok || got.PID != os.Getpid() {
		t.Errorf("found %v, want this process, %d", got, os.Getpid())
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Servers are those that processes have connected to, and that these have connected to. Clients are none.
func TestServersOf(t *testing.T) {
	start := func(to ...string) (pid int, address string) {
		c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"connected"}, to...)...)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = c.Wait()
		})
		line, _, err := bufio.NewReader(out).ReadLine()
		if err != nil {
			t.Fatal(err)
		}
		return c.Process.Pid, string(line)
	}
	back, backAddress := start()
	front, frontAddress := start(backAddress, backAddress)
	client, _ := start(frontAddress)
	for pid, want := range map[int][]int{back: nil, front: {back}, client: {front, back}} {
		var got []int
		for _, s := range ServersOf([]int{pid}) {
			got = append(got, s.PID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", pid, got, want)
		}
	}
}

// Process IDs wrap around: a worker's may be lower than its parent's.
func TestAncestor(t *testing.T) {
	for _, c := range []struct {
		list []proc.Process
		want int
	}{
		{[]proc.Process{{PID: 7, Parent: 1}}, 7},
		{[]proc.Process{{PID: 7, Parent: 1}, {PID: 8, Parent: 7}}, 7},
		{[]proc.Process{{PID: 7, Parent: 8}, {PID: 8, Parent: 1}, {PID: 9, Parent: 8}}, 8},
		{[]proc.Process{{PID: 7, Parent: 1}, {PID: 8, Parent: 1}}, 7},
	} {
		if got := ancestor(c.list); got != c.want {
			t.Errorf("%v: %d, want %d", c.list, got, c.want)
		}
	}
}

func TestProcessNamed(t *testing.T) {
	if p, err := ProcessNamed(os.Getpid()); err != nil || !strings.HasPrefix("target.test", p.Name) {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := ProcessNamed(1 << 30); err == nil {
		t.Error("there is a process of a number that none can have")
	}
}
