package target

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/host/cgroup"
	"dyno/host/proc"
	"dyno/internal/roles"
)

func TestValidateReportsEverything(t *testing.T) {
	bad := func(n int) *int { return &n }
	err := Spec{
		Args:         []string{"", "a\x00b"},
		Env:          []string{"GOOD=1", "=x", "novalue"},
		CPUs:         []int{0, -1, 0, maxCPU},
		Ready:        Probe{TCP: "nowhere", HTTP: "ftp://x", Output: "(", Unix: strings.Repeat("x", 200)},
		ReadyTimeout: -1,
		StopTimeout:  -1,
		Cgroup:       &cgroup.Limits{CPUMax: 0.001, CPUWeight: -1, MemoryMax: -1},
		Nice:         bad(20),
		NUMA:         bad(-1),
	}.Validate()
	if err == nil {
		t.Fatal("valid?")
	}
	for _, field := range []string{
		"args: ", "args[1]: ", "env[1]: ", "env[2]: ", "cpus[1]: ", "cpus[2]: ", "cpus[3]: ",
		"ready_timeout: ", "stop_timeout: ", "ready: ", "ready.tcp: ", "ready.http: ", "ready.output: ", "ready.unix: ",
		"cgroup.cpu_max: ", "cgroup.cpu_weight: ", "cgroup.memory_max: ", "nice: ", "numa: ",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("no fault of %q in:\n%v", field, err)
		}
	}
	if strings.Contains(err.Error(), "env[0]") || strings.Contains(err.Error(), "cpus[0]") {
		t.Errorf("good fields are called bad:\n%v", err)
	}
	if err := (Spec{Args: []string{"x"}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestAffinity(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := allowed[len(allowed)-1]
	t.Run("of a target and its children", func(t *testing.T) {
		want := fmt.Sprintf("^up %d$", last)
		started(t, Spec{
			Args:  sh(`(echo up $(grep Cpus_allowed_list /proc/self/status | cut -f2)); exec sleep 1000`),
			CPUs:  []int{last},
			Ready: Probe{Output: want},
		})
	})
	t.Run("of every thread", func(t *testing.T) {
		out, err := roles.Command("affinity").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if want := fmt.Sprintf("[%d]\n", last); string(out) != want {
			t.Errorf("%q; want %q", out, want)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, cpus := range [][]int{{last, maxCPU - 1}, {maxCPU - 1}} {
			_, err := Start(t.Context(), Spec{Args: sh("exit 0"), CPUs: cpus})
			var f *Failure
			if !errors.As(err, &f) || !strings.Contains(err.Error(), "available") {
				t.Errorf("cpus %v: %v; want a *Failure that says what is not available", cpus, err)
			}
		}
		for _, cpus := range [][]int{nil, {-1}, {maxCPU}} {
			if err := SetAffinity(cpus); err == nil {
				t.Errorf("SetAffinity(%v) says nothing", cpus)
			}
		}
	})
}

// printAffinity places this process on its last CPU, including existing threads and later ones. It
// prints the distinct sets that it then finds.
func printAffinity() int {
	allowed, err := AllowedCPUs()
	if err == nil {
		for range 20 { // goroutines that hold a thread each, for good
			go func() {
				runtime.LockOSThread()
				select {}
			}()
		}
		err = errors.Join(err, SetAffinity(allowed[len(allowed)-1:]))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	tids, err := os.ReadDir("/proc/self/task")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	found := make(map[string]bool)
	for _, e := range tids {
		var tid int
		if _, err := fmt.Sscan(e.Name(), &tid); err == nil {
			if cpus, err := affinity(tid); err == nil {
				found[fmt.Sprint(cpus)] = true
			}
		}
	}
	for s := range found {
		fmt.Println(s)
	}
	return 0
}

func TestPorts(t *testing.T) {
	low, high, err := ephemeralRange()
	if err != nil {
		t.Fatal(err)
	}
	var ports Ports
	seen := make(map[int]bool)
	for i := range 200 {
		network := []string{"tcp", "udp"}[i%2]
		port, err := ports.Free(network)
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d twice", port)
		}
		seen[port] = true
		if port >= low && port <= high {
			t.Errorf("port %d is ephemeral", port)
		}
		if !bindable(network, port) {
			t.Errorf("port %d is not free", port)
		}
	}
	if _, err := ports.Free("unix"); err == nil {
		t.Error("a port for a Unix socket")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if bindable("tcp", l.Addr().(*net.TCPAddr).Port) {
		t.Error("a port in use counts as free")
	}
	if u, err := net.ListenPacket("udp", "[::1]:0"); err == nil { // else there is no IPv6
		defer u.Close()
		if bindable("udp", u.LocalAddr().(*net.UDPAddr).Port) {
			t.Error("a port in use on ::1 counts as free")
		}
	}
}

// Two who ask at the same time, as two dynos do, are never given the same port. When one has
// ended the other may have its ports.
func TestPortsAreOneProcessOnly(t *testing.T) {
	var one, other Ports
	given := map[int]*Ports{}
	for range 300 {
		for _, p := range []*Ports{&one, &other} {
			port, err := p.Free("tcp")
			if err != nil {
				t.Fatal(err)
			}
			if given[port] != nil {
				t.Fatalf("port %d twice", port)
			}
			given[port] = p
		}
	}
	if len(one.mine) < 300/blockPorts || len(one.mine) != len(one.held) {
		t.Errorf("%d blocks and %d reservations for 300 ports", len(one.mine), len(one.held))
	}
	block := one.mine[0]
	if new(Ports).reserve(block) {
		t.Error("a block was reserved twice")
	}
	for _, f := range one.held {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !new(Ports).reserve(block) {
		t.Error("a block stays reserved when its process has ended")
	}
}

// A copy of the socket that looked for a port may live on briefly in a starting process. It must not
// pass for a server.
func TestPortIsNeverAnswered(t *testing.T) {
	port, err := new(Ports).Free("tcp")
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	answered := make(chan bool)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				answered <- false
				return
			default:
			}
			if c, err := net.Dial("tcp", addr); err == nil {
				c.Close()
				answered <- true
				return
			}
		}
	}()
	for range 2000 {
		bindable("tcp", port)
	}
	close(stop)
	if <-answered {
		t.Error("somebody answered on a port while it was looked at")
	}
}

func TestOutput(t *testing.T) {
	// However the bytes are cut, the tail is the last lines.
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-z ]{0,12}`), 0, 50).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		o := newOutput(nil, nil)
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			o.take(rest[:n])
			rest = rest[n:]
		}
		want := lines
		if len(want) > 0 && want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		want = want[max(0, len(want)-tailLines):]
		if got := o.lines(); !slices.Equal(got, want) {
			t.Fatalf("tail %q; want %q", got, want)
		}
	})
}

func TestOutputIsBounded(t *testing.T) {
	o := newOutput(nil, Probe{Output: "^x+$"}.pattern())
	for range 100 {
		o.take([]byte(strings.Repeat("x", 1000)))
	}
	if got := o.lines(); len(got) != 1 || len(got[0]) != maxLine {
		t.Errorf("kept %d lines, the first of %d bytes", len(got), len(got[0]))
	}
	if !isClosed(o.matched) {
		t.Error("a line without its end does not match")
	}
}

func TestKillIsForOneProcessOnly(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Start--
	if err := kill(other); err != nil {
		t.Error(err)
	}
	if alive([]proc.Process{p}) == nil {
		t.Error("killed a process that started at another time")
	}
	if err := kill(p); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if err := kill(p); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
}
