package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/roles"
	"dyno/observe"
)

// A thread's calls are counted to the last, wherever it comes from.
func TestCountsEveryCall(t *testing.T) {
	t.Parallel()
	c, _ := startBelow(t, "caller")
	o := observing(t, DefaultConfig("kernel", c.Process.Pid))
	want := uint64(0)
	for _, step := range []struct {
		command string
		calls   uint64
	}{
		{"calls 10007", 10007},
		{"threads 5 1009", 5 * 1009},
		{"forks 4 503", 4 * 503},
		{"exec", 0},
		{"calls 211", 211},
		{"threads 3 101", 3 * 101},
		{"readvs 1000", 0},
	} {
		before := look(t, o)
		do(t, c, step.command)
		after := look(t, o)
		want += step.calls
		if got := o.Syscalls()["getppid"]; got != want {
			t.Errorf("after %s: %d calls; want %d", step.command, got, want)
		}
		for column, least := range map[string]float64{"syscalls_total": float64(step.calls), "syscall_other_total": float64(step.calls)} {
			if d := after[column] - before[column]; !(d >= least) {
				t.Errorf("after %s: %s: %v; want at least %v", step.command, column, d, least)
			}
		}
		if d := after["syscall_readv_total"] - before["syscall_readv_total"]; step.command == "readvs 1000" && d != 1000 {
			t.Errorf("%v calls of readv; want 1000", d)
		}
		sum := after["syscall_other_total"]
		for _, g := range callGroups() {
			sum += after["syscall_"+g.column+"_total"]
		}
		if sum != after["syscalls_total"] {
			t.Errorf("the columns by name add up to %v; want %v", sum, after["syscalls_total"])
		}
		if after["missed_events_total"] != 0 {
			t.Errorf("%v events missed", after["missed_events_total"])
		}
	}
}

// A process that has exited is no longer in the set: the number may become another's.
func TestSetHoldsTheLiving(t *testing.T) {
	t.Parallel()
	c, _ := startBelow(t, "caller")
	o := observing(t, DefaultConfig("kernel", c.Process.Pid))
	do(t, c, "threads 9 1")
	do(t, c, "forks 3 1")
	do(t, c, "exec")
	do(t, c, "calls 1") // by the program that is executed
	tracer := o.source.(*tracer)
	set := make([]byte, tracer.set.Size())
	roles.Until(t, "the set is who lives", func() bool {
		if _, err := tracer.set.ReadAt(set, 0); err != nil {
			t.Fatal(err)
		}
		var living []int
		if err := eachThread(c.Process.Pid, func(_, tid int) error {
			living = append(living, tid)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		kept := 0
		var id uint32
		var w tracerWaited
		for i := tracer.collections[0].Maps[tracerMapDynoThreads].Iterate(); i.Next(&id, &w); {
			kept++
		}
		for _, tid := range living {
			if set[tid] != 1 {
				return false
			}
		}
		return len(living) > 0 && bytes.Count(set, []byte{1}) == len(living) && kept == len(living)
	})
}

// The root's own actions do not count; what it starts does.
func TestRootIsNotCounted(t *testing.T) {
	o := observing(t, DefaultConfig("kernel", os.Getpid()))
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			getppid(1000)
		})
	}
	threads.Wait()
	if n := o.Syscalls()["getppid"]; n != 0 {
		t.Errorf("%d calls of the root counted", n)
	}
	if err := exec.Command("/proc/self/exe", "caller", "2", "301").Run(); err != nil {
		t.Fatal(err)
	}
	if n := o.Syscalls()["getppid"]; n != 602 {
		t.Errorf("%d calls of processes that the root started; want 602", n)
	}
}

// Not even a sibling of the root.
func TestOthersAreNotCounted(t *testing.T) {
	t.Parallel()
	c, _ := startBelow(t, "caller")
	other, _ := startBelow(t, "caller")
	o := observing(t, DefaultConfig("kernel", c.Process.Pid))
	do(t, other, "calls 1000")
	do(t, other, "forks 1 1000")
	if n := o.Syscalls()["getppid"]; n != 0 {
		t.Errorf("%d calls of another process counted", n)
	}
}

// serving starts a server and returns its two ports.
func serving(t *testing.T) (c *roles.Child, first, second uint16) {
	t.Helper()
	c, _ = startBelow(t, "server")
	ports := strings.Fields(c.Line(t))
	return c, uint16(number(ports[0])), uint16(number(ports[1]))
}

// visit makes n connections, each with one request, and closes them.
func visit(t *testing.T, n int, port uint16, path string) {
	t.Helper()
	for range n {
		transport := &http.Transport{}
		client := http.Client{Transport: transport, Timeout: roles.HangGuard}
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		transport.CloseIdleConnections()
	}
}

// Accepts and connections are those that the server itself counts.
func TestCountsConnections(t *testing.T) {
	t.Parallel()
	c, port, other := serving(t)
	o := observing(t, DefaultConfig("kernel", c.Process.Pid, port))
	visit(t, 17, port, "/")      // closed by us
	visit(t, 13, port, "/close") // closed by the server
	visit(t, 11, other, "/")     // not to the port that is observed
	if n := c.Ask(t, ""); n != "41" {
		t.Fatalf("the server counts %s connections; want 41", n)
	}
	roles.Until(t, "all connections have ended", func() bool { return look(t, o)["connections_closed_total"] >= 30 })
	have := look(t, o)
	for column, want := range map[string]float64{
		"accepts_total": 41, "connections_established_total": 30, "connections_closed_total": 30,
		"retransmits_total": 0, "missed_events_total": 0,
	} {
		if have[column] != want {
			t.Errorf("%s: %v; want %v", column, have[column], want)
		}
	}
	// Go tries again after each, and gets an error that there is none.
	if have["syscall_accept_total"] <= 41 {
		t.Errorf("%v calls of accept; want more than 41", have["syscall_accept_total"])
	}
}

// Unacknowledged segments are sent again: as many as the socket says, if the kernel lets programs see
// all of them.
func TestCountsRetransmits(t *testing.T) {
	t.Parallel()
	const attempts = 5 // each with a connection of its own
	for _, tt := range []struct {
		name string
		port func(server, client net.Addr) int // that is observed
	}{
		{"by the target", func(sender, _ net.Addr) int { return sender.(*net.TCPAddr).Port }},
		{"to the target", func(_, receiver net.Addr) int { return receiver.(*net.TCPAddr).Port }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range attempts {
				sent, seen := sendsAgain(t, tt.port)
				if seen == float64(sent) {
					return
				}
				t.Logf("the socket has sent %d again, seen were %v", sent, seen)
				if seen > float64(sent) {
					break
				}
			}
			t.Error("counts do not agree")
		})
	}
}

// sendsAgain sends on a connection whose peer does not acknowledge. It ends when the socket and an
// observer of the port agree on the repeats, or no longer can.
func sendsAgain(t *testing.T, port func(server, client net.Addr) int) (sent uint32, seen float64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	receiver, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	sender, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	o := observing(t, DefaultConfig("kernel", os.Getpid(), uint16(port(sender.LocalAddr(), receiver.LocalAddr()))))
	deafen(t, receiver.(*net.TCPConn))
	if _, err := sender.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	beyond := 0
	roles.Until(t, "sent again and counted", func() bool {
		before := retransmitted(t, sender.(*net.TCPConn))
		seen = look(t, o)["retransmits_total"]
		sent = retransmitted(t, sender.(*net.TCPConn))
		if seen >= float64(max(before, 2)) && seen <= float64(sent) {
			sent = uint32(seen) // the others were sent, or counted, after what was seen
			return true
		}
		// The kernel says that it sends again before its socket counts that.
		if beyond++; seen <= float64(sent) {
			beyond = 0
		}
		return sent > 2 || beyond == 3
	})
	return sent, seen
}

// deafen has a socket drop whatever arrives.
func deafen(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	var serr error
	err = raw.Control(func(fd uintptr) {
		serr = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	})
	if err := errors.Join(err, serr); err != nil {
		t.Fatal(err)
	}
}

func retransmitted(t *testing.T, c *net.TCPConn) (n uint32) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var serr error
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if serr = err; err == nil {
			n = info.Total_retrans
		}
	})
	if err := errors.Join(err, serr); err != nil {
		t.Fatal(err)
	}
	return n
}

// The scheduler's own account of each thread says the same, to the nanosecond.
func TestRunQueueWaits(t *testing.T) {
	// Before its first process, package os starts another, which tells it whether the kernel
	// has pidfds and exits. Its waits would be observed, and its account would be gone.
	if err := exec.Command("/proc/self/exe", "-test.list=^$").Run(); err != nil {
		t.Fatal(err)
	}
	o := observing(t, DefaultConfig("kernel", os.Getpid()))
	if o.has&waitTimes == 0 {
		t.Fatal(o.Missing())
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	// Two threads on one CPU wait for each other.
	a, b := roles.Start(t, roles.Command("burner", strconv.Itoa(cpu))), roles.Start(t, roles.Command("burner", strconv.Itoa(cpu)))
	for _, c := range []*roles.Child{a, b} {
		if got := c.Line(t); got != "done" {
			t.Fatal(got)
		}
	}
	var have map[string]float64
	var wait, waits uint64
	roles.Until(t, "the accounts agree", func() bool {
		wait, waits = 0, 0
		for _, c := range []*roles.Child{a, b} {
			w, n := schedstat(t, c.Process.Pid)
			wait, waits = wait+w, waits+n
		}
		have = look(t, o)
		return have["run_queue_waits_total"] == float64(waits) && have["run_queue_wait_seconds"] == float64(wait)/1e9
	})
	if wait < 10e6 || waits < 10 {
		t.Errorf("two busy threads on one CPU waited %d times, %d ns in all", waits, wait)
	}
	var binned uint64
	var least, most float64 // seconds, by the edges of the buckets
	for b, n := range o.now.Buckets {
		binned += n
		low, width := edges(b)
		least += float64(n) * low / 1e9
		most += float64(n) * (low + width) / 1e9
	}
	if binned != waits {
		t.Errorf("%d waits in buckets; want %d", binned, waits)
	}
	if all := float64(wait) / 1e9; all < least || all > most {
		t.Errorf("waits of %v s in buckets from %v to %v", all, least, most)
	}
}

// schedstat sums up /proc/PID/task/*/schedstat: waits in nanoseconds, and how many.
func schedstat(t *testing.T, pid int) (wait, waits uint64) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var cpu, w, n uint64
		if _, err := fmt.Sscan(string(b), &cpu, &w, &n); err != nil {
			t.Fatal(err)
		}
		wait, waits = wait+w, waits+n
	}
	return wait, waits
}

// Values that are switched off are not known, and cost no hook.
func TestSwitches(t *testing.T) {
	t.Parallel()
	groups := map[string]func(column string) bool{
		"calls":       func(c string) bool { return strings.HasPrefix(c, "syscall") },
		"accepts":     func(c string) bool { return c == "accepts_total" },
		"connections": func(c string) bool { return strings.HasPrefix(c, "conn") || strings.HasPrefix(c, "retr") },
		"run queue":   func(c string) bool { return strings.HasPrefix(c, "run_queue") },
	}
	for _, tt := range []struct {
		on    string
		cfg   Config
		links int
	}{
		{"calls", Config{Name: "k", Root: os.Getpid(), Ports: []uint16{80}, SystemCalls: true}, 4},
		{"accepts", Config{Name: "k", Root: os.Getpid(), Ports: []uint16{80}, Accepts: true}, 5},
		{"connections", Config{Name: "k", Root: os.Getpid(), Ports: []uint16{80}, Connections: true}, 5},
		{"run queue", Config{Name: "k", Root: os.Getpid(), Ports: []uint16{80}, RunQueue: true}, 4},
	} {
		t.Run(tt.on, func(t *testing.T) {
			o := observing(t, tt.cfg)
			if err := exec.Command("true").Run(); err != nil { // so that somebody has waited
				t.Fatal(err)
			}
			for column, v := range look(t, o) {
				known := column == "missed_events_total" || groups[tt.on](column)
				if known == math.IsNaN(v) {
					t.Errorf("%s: %v", column, v)
				}
			}
			if len(o.Missing()) != 0 {
				t.Errorf("missing: %v", o.Missing())
			}
			if n := len(o.source.(*tracer).links); n != tt.links {
				t.Errorf("%d hooks; want %d", n, tt.links)
			}
			if (o.Syscalls() != nil) != tt.cfg.SystemCalls {
				t.Errorf("system calls: %v", o.Syscalls())
			}
		})
	}
}

// Without ports there are no connections to count, and it says so.
func TestWithoutPorts(t *testing.T) {
	o := observing(t, DefaultConfig("kernel", os.Getpid()))
	have := look(t, o)
	if !math.IsNaN(have["connections_closed_total"]) || !math.IsNaN(have["retransmits_total"]) || have["accepts_total"] != 0 {
		t.Errorf("%v", have)
	}
	for _, m := range o.Missing() {
		var u *observe.Unavailable
		if !errors.As(m, &u) || u.Observer != "kernel" || !strings.Contains(m.Error(), "ports") {
			t.Errorf("missing: %v", m)
		}
	}
	if len(o.Missing()) != 2 {
		t.Errorf("missing: %v", o.Missing())
	}
}

// A kernel that lacks something costs the columns of that, and says so.
func TestMissingTracepoint(t *testing.T) {
	t.Parallel()
	privileged(t)
	spec, err := loadTracer()
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs[tracerProgDynoState].AttachTo = "no_such_tracepoint"
	tracer, has, missing, err := newTracer(DefaultConfig("kernel", os.Getpid(), 80), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tracer.close(); err != nil {
			t.Error(err)
		}
	}()
	if want := callTotals | callNumbers | acceptCalls | retransmits | waitTimes | missedEvents; has != want {
		t.Errorf("counts %v; want %v", has, want)
	}
	if s := fmt.Sprint(missing); len(missing) != 1 || !strings.HasPrefix(s, "[connections: ") || !strings.Contains(s, "no_such_tracepoint") {
		t.Errorf("missing: %s", s)
	}
}

// When there are too many threads, their waits are not known, and nothing else.
func TestCrowded(t *testing.T) {
	t.Parallel()
	o := observing(t, DefaultConfig("kernel", os.Getpid(), 80))
	full := make([]tracerCounters, len(o.source.(*tracer).counted))
	full[0].Crowded = 1
	if err := o.source.(*tracer).collections[0].Maps[tracerMapDynoCounts].Put(uint32(0), full); err != nil {
		t.Fatal(err)
	}
	row := make([]float64, len(o.Columns()))
	if err := o.Observe(row); !errors.Is(err, errCrowded) {
		t.Errorf("error: %v", err)
	}
	for i, c := range o.Columns() {
		if strings.HasPrefix(c.Name, "run_queue") != math.IsNaN(row[i]) {
			t.Errorf("%s: %v", c.Name, row[i])
		}
	}
}

// perf events count what they can, to the last call as well.
func TestPerfEvents(t *testing.T) {
	t.Parallel()
	privileged(t)
	c, port, _ := serving(t)
	o, err := newCounts(DefaultConfig("kernel", c.Process.Pid, port))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.Method() != "perf" {
		t.Errorf("method %s", o.Method())
	}
	// It must not take the events away.
	second := observing(t, DefaultConfig("kernel", c.Process.Pid, port))
	visit(t, 17, port, "/")
	if n := c.Ask(t, ""); n != "17" {
		t.Fatalf("the server counts %s connections; want 17", n)
	}
	have := look(t, o)
	if n := look(t, second)["accepts_total"]; have["accepts_total"] != 17 || n != 17 {
		t.Errorf("%v accepts by perf events, %v by eBPF; want 17", have["accepts_total"], n)
	}
	for column, v := range have {
		known := strings.HasPrefix(column, "syscall") || column == "accepts_total"
		if known == math.IsNaN(v) {
			t.Errorf("%s: %v", column, v)
		}
	}
}

// Where eBPF cannot tell who is who, perf events can, and New takes them.
func TestFallsBackToPerfEvents(t *testing.T) {
	t.Parallel()
	privileged(t)
	c := exec.Command("/proc/self/exe", "contained")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	var stderr strings.Builder // why it ended
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	if !strings.HasPrefix(string(out), "perf 1000 [observer kernel cannot work here: eBPF: process ids here are not those of the kernel (") {
		t.Errorf("%s", out)
	}
}

func TestUnprivileged(t *testing.T) {
	t.Parallel()
	privileged(t)
	c := roles.Start(t, roles.Command("unprivileged"))
	for range 2 {
		if got := c.Line(t); !strings.HasPrefix(got, "*observe.Unavailable observer kernel cannot work here: ") ||
			!strings.Contains(got, "perf events: ") || !strings.Contains(got, "run as root") {
			t.Error(got)
		}
	}
}

func TestNoSuchProcess(t *testing.T) {
	t.Parallel()
	privileged(t)
	gone := exec.CommandContext(context.Background(), "true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	_, err := New(DefaultConfig("kernel", gone.Process.Pid))
	var u *observe.Unavailable
	if !errors.As(err, &u) || !strings.Contains(err.Error(), strconv.Itoa(gone.Process.Pid)) {
		t.Errorf("error: %v", err)
	}
}

// Close gives back all that it took, and so does a New that fails.
func TestNothingIsLeft(t *testing.T) {
	privileged(t)
	c, _ := startBelow(t, "caller")
	use := func() {
		for _, observe := range []func(Config) (*Observer, error){New, perfOnly} {
			cfg := DefaultConfig("kernel", c.Process.Pid, 80)
			cfg.SystemCalls = false // the kernel takes a second to let go of them
			o, err := observe(cfg)
			if err != nil {
				t.Fatal(err)
			}
			look(t, o)
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			cfg.Root = 1 << 22
			if _, err := observe(cfg); err == nil {
				t.Fatal("observed a process that there cannot be")
			}
		}
	}
	use() // once, for what is opened for good, such as the network poller
	before := descriptors(t)
	use()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors; before %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig("kernel", 1, 80, 443).Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Ports: []uint16{80, 0, 80}}
	err := bad.Validate()
	for _, field := range []string{"name", "root", "ports[1]", "ports[2]", "system calls, accepts, connections, run queue"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+field+": ") {
			t.Errorf("no fault of %s in: %v", field, err)
		}
	}
	if _, err := New(bad); err == nil {
		t.Error("New takes it")
	}
}
