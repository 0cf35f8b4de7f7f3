package target

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dyno/host/cgroup"
	"dyno/host/child"
	"dyno/host/proc"
	"dyno/internal/leak"
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = 30 * time.Second

// TestMain lets the test binary be the programs that the tests start: the supervisor, and
// a dyno that will be killed.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], Role()); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "host":
			os.Exit(host(nil, os.Args[2:]))
		case "limited-host":
			os.Exit(host(&cgroup.Limits{CPUMax: 0.5, MemoryMax: 256 << 20}, os.Args[2:]))
		case "unprivileged":
			os.Exit(unprivileged())
		case "hog":
			os.Exit(hog())
		case "connected":
			os.Exit(connected(os.Args[2:]))
		case "affinity":
			os.Exit(printAffinity())
		}
	}
	// The race detector's run time sleeps a second before it exits: in every target.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// host is a dyno: it starts a target, prints its processes, and waits to be killed.
func host(limits *cgroup.Limits, args []string) int {
	p, err := Start(context.Background(), Spec{Args: args, Cgroup: limits, Ready: Probe{Output: "^up$"}})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	pids, err := p.PIDs()
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(p.Supervisor(), strings.Trim(fmt.Sprint(pids), "[]"))
	select {}
}

// connected is a server that has connected to others. It prints its address, and ends with its input.
func connected(to []string) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		for _, address := range to {
			if _, err = net.Dial("tcp", address); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// start starts a target and stops it when the test ends.
func started(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Stop(context.Background())
		<-p.Done()
	})
	return p
}

// awaitDone fails the test when the process does not end.
func awaitDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(hangGuard):
		t.Fatal("still not done")
	}
}

// identities pins processes, so that a reused number is not mistaken for one of them.
func identities(t *testing.T, pids []int) []proc.Process {
	t.Helper()
	var ps []proc.Process
	for _, pid := range pids {
		p, err := proc.Read(pid)
		if err != nil {
			t.Fatalf("process %d: %v", pid, err)
		}
		ps = append(ps, p)
	}
	return ps
}

func alive(ps []proc.Process) (left []int) {
	for _, p := range ps {
		if now, err := proc.Read(p.PID); err == nil && now.Start == p.Start && now.State != 'Z' && now.State != 'X' {
			left = append(left, p.PID)
		}
	}
	return left
}
