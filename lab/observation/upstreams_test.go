package observation

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"dyno/observe"
)

// A server that the target has connected to counts from the load's beginning, unless it is observed already.
func TestUpstreams(t *testing.T) {
	tree := func(pid int) *observe.Tree {
		of, err := observe.NewTree("process", pid)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = of.Close() })
		_ = of.Observe(make([]float64, len(of.Columns())))
		return of
	}
	itself := tree(os.Getpid()) // without the server below it, which begins later
	const program = `
import socket, sys, time
def use(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds: pass
s = socket.create_server(("127.0.0.1", 0))
use(0.2)
print("127.0.0.1:%d" % s.getsockname()[1], flush=True)
c = s.accept()[0]
c.recv(1)
use(0.1)
c.send(b"x")
c.recv(1)
`
	server := exec.CommandContext(t.Context(), "python3", "-c", program)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Wait() }()
	address, _, err := bufio.NewReader(out).ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", string(address))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()

	early, late, known := newUpstreams(itself), newUpstreams(itself), newUpstreams(itself, tree(server.Process.Pid))
	read := func(u *upstreams, least, most float64) {
		t.Helper()
		u.due = u.due.Add(-time.Hour)
		var used [1]float64
		if err := u.Observe(used[:]); err != nil || used[0] < least || used[0] > most || used[0] != u.CPUSeconds() {
			t.Errorf("%v, %v; want %v to %v", used, err, least, most)
		}
	}
	read(early, 0, 0.05)
	one := make([]byte, 1)
	if _, err := connection.Write(one); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(one); err != nil {
		t.Fatal(err)
	}
	read(early, 0.05, 0.2)
	read(late, 0.05, 0.2)
	read(known, 0, 0)
	for _, u := range []*upstreams{early, late, known} {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
}
