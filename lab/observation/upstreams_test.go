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

// What a server uses that the target has connected to counts from when it is found, and not if it is observed already.
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

	u, known := newUpstreams(itself), newUpstreams(itself, tree(server.Process.Pid))
	defer u.Close()
	defer known.Close()
	u.due, known.due = time.Now().Add(-time.Second), time.Now().Add(-time.Second)
	read := func(want bool) {
		t.Helper()
		var used, none [1]float64
		if err := u.Observe(used[:]); err != nil {
			t.Error(err)
		}
		if err := known.Observe(none[:]); err != nil {
			t.Error(err)
		}
		if (used[0] >= 0.05) != want || used[0] > 0.2 || used[0] != u.CPUSeconds() || none[0] != 0 {
			t.Errorf("%v, and %v of what is known", used, none)
		}
	}
	read(false)
	one := make([]byte, 1)
	if _, err := connection.Write(one); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(one); err != nil {
		t.Fatal(err)
	}
	read(true)
}
