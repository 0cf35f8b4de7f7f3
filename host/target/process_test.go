package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/proc"
	"dyno/internal/roles"
)

func TestMissingProgram(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		program string
		says    string
	}{
		"not in PATH":         {"no-such-program", "searched PATH " + dir + ":/nonexistent"},
		"absolute":            {"/nonexistent/x", "/nonexistent/x: no such file or directory"},
		"a directory":         {dir, "is a directory"},
		"in PATH, not usable": {"plain", plain + ": permission denied"},
		"no interpreter":      {script, "script"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), Spec{Args: []string{c.program}, Env: []string{"PATH=" + dir + ":/nonexistent"}})
			var f *Failure
			if !errors.Is(err, ErrNotFound) || !errors.As(err, &f) {
				t.Fatalf("%v; want ErrNotFound in a *Failure", err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
}

func TestRelativeProgramIsRelativeToDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prog"), []byte("#!/bin/sh\npwd; exec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	started(t, Spec{Args: []string{"./prog"}, Dir: dir, Ready: Probe{Output: "^" + dir + "$"}})
}

func TestReadyProbes(t *testing.T) {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("nginx is not installed")
	}
	var ports Ports
	for _, kind := range []string{"tcp", "http", "unix", "output"} {
		t.Run(kind, func(t *testing.T) {
			port, err := ports.Free("tcp")
			if err != nil {
				t.Fatal(err)
			}
			sock := filepath.Join(t.TempDir(), "s")
			ready := map[string]Probe{
				"tcp":    {TCP: fmt.Sprintf("127.0.0.1:%d", port)},
				"http":   {HTTP: fmt.Sprintf("http://127.0.0.1:%d/", port)},
				"unix":   {Unix: sock},
				"output": {Output: "start worker processes"},
			}[kind]
			p := started(t, Spec{
				Args:  nginx(t, fmt.Sprintf("listen 127.0.0.1:%d; listen unix:%s;", port, sock), "daemon off;"),
				Ready: ready,
			})
			if err := p.Err(); err != nil {
				t.Error(err)
			}
			// The probe must have waited: the address it asked for now exists.
			if network, addr := ready.address(); network != "" {
				if err := connect(t.Context(), network, addr); err != nil {
					t.Error(err)
				}
			}
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// nginx returns the command of an nginx with one server and two workers.
func nginx(t *testing.T, server, global string) []string {
	t.Helper()
	needs(t, "nginx")
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`%s
worker_processes 2; pid %s/pid; error_log stderr notice;
events { worker_connections 64; }
http { access_log off; client_body_temp_path %[2]s/b; proxy_temp_path %[2]s/p;
  fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
  server { %s location / { return 404; } } }
`, global, dir, server)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"nginx", "-p", dir, "-c", conf, "-e", "stderr"}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sock := filepath.Join(t.TempDir(), "s")
	u, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, probe := range []Probe{
		{TCP: l.Addr().String()},
		{HTTP: "http://" + l.Addr().String() + "/"},
		{Unix: sock},
	} {
		mark := filepath.Join(t.TempDir(), "mark")
		_, err = Start(t.Context(), Spec{Args: sh("touch " + mark), Ready: probe})
		if !errors.Is(err, ErrPortInUse) {
			t.Fatalf("%+v: %v; want ErrPortInUse", probe, err)
		}
		if want := fmt.Sprintf("pid %d", os.Getpid()); !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name the owner, %s", err, want)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Error("the program was started all the same")
		}
	}
}

func TestNeverReady(t *testing.T) {
	var ports Ports
	port, err := ports.Free("tcp")
	if err != nil {
		t.Fatal(err)
	}
	bad := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	bad.Start()
	defer bad.Close()
	pidFile := filepath.Join(t.TempDir(), "pid")
	for name, probe := range map[string]Probe{
		"tcp":    {TCP: fmt.Sprintf("127.0.0.1:%d", port)},
		"unix":   {Unix: filepath.Join(t.TempDir(), "none")},
		"http":   {HTTP: fmt.Sprintf("http://127.0.0.1:%d", port)},
		"output": {Output: "^never$"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), Spec{
				Args:         sh("echo $$ > " + pidFile + "; echo waiting for godot; exec sleep 1000"),
				Ready:        probe,
				ReadyTimeout: 300 * time.Millisecond,
			})
			var f *Failure
			if !errors.Is(err, ErrNotReady) || !errors.As(err, &f) {
				t.Fatalf("%v; want ErrNotReady", err)
			}
			if !slices.Contains(f.Tail, "waiting for godot") {
				t.Errorf("tail %q lacks the output", f.Tail)
			}
			b, err := os.ReadFile(pidFile)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(atoi(t, strings.TrimSpace(string(b))), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the process is still there: %v", err)
			}
		})
	}
	t.Run("status 503", func(t *testing.T) {
		if err := get(t.Context(), bad.URL); err == nil {
			t.Error("503 counts as ready")
		}
	})
}

// A target that was not ready, and cannot be killed, holds up dyno for a bounded time. Here it is
// the supervisor that does not get to kill it.
func TestNeverReadyAndNeverGone(t *testing.T) {
	p := started(t, Spec{Args: sh("exec sleep 1000")})
	if err := syscall.Kill(p.Supervisor(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(p.Supervisor(), syscall.SIGCONT) }()
	awaitStopped(t, p.Supervisor())
	_ = p.send(order{Kill: true})
	ended := make(chan error, 1)
	go func() { ended <- p.ended(p.failure(ErrNotReady, "10s"), 50*time.Millisecond) }()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), fmt.Sprintf("processes [%d] are still alive", p.PID())) {
			t.Errorf("%v; want ErrNotReady and the process that is left", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it still waits")
	}
}

// awaitStopped waits until a child has obeyed SIGSTOP: kill(2) returns before that.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
}

func TestExitsBeforeReady(t *testing.T) {
	_, err := Start(t.Context(), Spec{
		Name:  "crasher",
		Args:  sh(`for i in $(seq 30); do echo line $i; done; echo "cannot open config" >&2; exit 7`),
		Ready: Probe{Output: "^never$"},
	})
	var f *Failure
	if !errors.Is(err, ErrExited) || !errors.As(err, &f) {
		t.Fatalf("%v; want ErrExited", err)
	}
	if f.Target != "crasher" || f.Detail != "exit status 7" {
		t.Errorf("%+v", f)
	}
	if len(f.Tail) != tailLines || f.Tail[0] != "line 12" || f.Tail[tailLines-1] != "cannot open config" {
		t.Errorf("tail: %q", f.Tail)
	}
}

func TestStartInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pids := make(chan string, 1)
	out := writerFunc(func(p []byte) (int, error) {
		pids <- strings.TrimSpace(string(p))
		cancel()
		return len(p), nil
	})
	_, err := Start(ctx, Spec{Args: sh("echo $$; exec sleep 1000"), Ready: Probe{Output: "^never$"}, Output: out})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want context.Canceled", err)
	}
	if err := syscall.Kill(atoi(t, <-pids), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDiesMidTrial(t *testing.T) {
	for name, c := range map[string]struct {
		script, detail string
	}{
		"exit":                         {"echo up; read x < $0; echo out of memory; exit 3", "exit status 3"},
		"success is no excuse":         {"echo up; read x < $0; echo bye", "exit status 0"},
		"signal":                       {"echo up; read x < $0; kill -SEGV $$", "signal: segmentation fault"},
		"leaving a child":              {"sleep 1000 & echo up; read x < $0; exit 3", "exit status 3"},
		"leaving a child out of sight": {"setsid sleep 1000 & echo up; read x < $0; exit 3", "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			p := started(t, Spec{Args: append(sh(c.script), fifo), Ready: Probe{Output: "^up$"}})
			pids, err := p.PIDs()
			if err != nil {
				t.Fatal(err)
			}
			tree := identities(t, pids)
			if isClosed(p.Done()) || p.Err() != nil {
				t.Fatalf("done before its time: %v", p.Err())
			}
			if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			awaitDone(t, p)
			var f *Failure
			if !errors.Is(p.Err(), ErrExited) || !errors.As(p.Err(), &f) || f.Detail != c.detail {
				t.Errorf("%v; want ErrExited, %s", p.Err(), c.detail)
			}
			if left := alive(tree); left != nil {
				t.Errorf("processes %v are left", left)
			}
			if err := p.Stop(t.Context()); !errors.Is(err, ErrExited) {
				t.Errorf("Stop says %v; want why it had died", err)
			}
		})
	}
}

func TestStopIsGentleFirst(t *testing.T) {
	var out bytes.Buffer
	p := started(t, Spec{
		// The child says that it is up, not the shell: between a fork and its exec the
		// child still has the shell's handler, in which a signal gets lost.
		Args:   sh(`trap 'echo cleaning up; exit 0' TERM; sh -c 'echo up; exec sleep 1000' & wait`),
		Ready:  Probe{Output: "^up$"},
		Output: &out,
		// This is long: a test that only passes by SIGKILL would hang first.
		StopTimeout: time.Hour,
	})
	// The shell's sleep is in its group, so that it gets the signal as well.
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := out.String(); got != "up\ncleaning up\n" {
		t.Errorf("output %q", got)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestStopKillsTheStubborn(t *testing.T) {
	stubborn := `trap '' TERM; setsid sh -c 'trap "" TERM; sleep 1000; sleep 1000' & sleep 1000 & echo up; while :; do wait; done`
	for name, stop := range map[string]func(*Process) error{
		"after StopTimeout": func(p *Process) error { return p.Stop(context.Background()) },
		"when ctx ends": func(p *Process) error {
			p.spec.StopTimeout = time.Hour
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return p.Stop(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := started(t, Spec{Args: sh(stubborn), Ready: Probe{Output: "^up$"}, StopTimeout: 50 * time.Millisecond})
			// sh, the sleep, the shell of the new session and its sleep.
			var pids []int
			roles.Until(t, "four processes", func() bool {
				var err error
				if pids, err = p.PIDs(); err != nil {
					t.Fatal(err)
				}
				return len(pids) == 4
			})
			tree := identities(t, pids)
			if err := stop(p); err != nil {
				t.Error(err)
			}
			if left := alive(tree); left != nil {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestDaemonIsNotDead(t *testing.T) {
	var ports Ports
	port, err := ports.Free("tcp")
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p := started(t, Spec{
		Args:  nginx(t, "listen "+addr+";", "daemon on;"),
		Ready: Probe{TCP: addr},
	})
	roles.Until(t, "the first process has left", func() bool {
		_, err := proc.Read(p.PID())
		return errors.Is(err, os.ErrNotExist)
	})
	var pids []int
	roles.Until(t, "a master and two workers", func() bool {
		if pids, err = p.PIDs(); err != nil {
			t.Fatal(err)
		}
		return len(pids) == 3
	})
	tree := identities(t, pids)
	if isClosed(p.Done()) {
		t.Fatalf("done: %v", p.Err())
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if left := alive(tree); left != nil {
		t.Errorf("processes %v are left", left)
	}
}

// A dyno that is killed cannot clean up. Its supervisor does.
func TestSIGKILLLeavesNothing(t *testing.T) {
	var ports Ports
	port, err := ports.Free("tcp")
	if err != nil {
		t.Fatal(err)
	}
	daemon := strings.Join(nginx(t, fmt.Sprintf("listen 127.0.0.1:%d;", port), "daemon on;"), " ")
	tree := `trap '' TERM HUP INT
		setsid sh -c 'trap "" TERM; (setsid sleep 1000 & sleep 1000)' &
		sleep 1000 &
		` + daemon + `
		echo up; while :; do wait; done`
	cmd := roles.Command(append([]string{"host"}, sh(tree)...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var pids []int
	for _, f := range strings.Fields(line) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	if err != nil || len(pids) < 2 {
		t.Fatalf("the host said %q, %v", line, err)
	}
	supervisor := pids[0]
	// Wait for the whole tree: sh, three sleeps and the shell of the new session
	// (or two), nginx's master and two workers.
	var all []proc.Process
	roles.Until(t, "a tree of eight, in the sessions of the supervisor, of two setsids and of nginx", func() bool {
		every, err := proc.All()
		if err != nil {
			t.Fatal(err)
		}
		all = proc.Below(every, supervisor)
		sessions := make(map[int]bool)
		for _, p := range all {
			sessions[p.Session] = true
		}
		return len(all) >= 8 && len(sessions) >= 4
	})
	k, err := proc.Read(supervisor)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, k)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	roles.Until(t, "nothing is left", func() bool { return alive(all) == nil })
}

// If the supervisor is killed, the target must not continue unsupervised.
func TestSupervisorKilled(t *testing.T) {
	p := started(t, Spec{Args: sh("sleep 1000 & echo up; wait"), Ready: Probe{Output: "^up$"}})
	pids, err := p.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	tree := identities(t, pids)
	if err := syscall.Kill(p.Supervisor(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if !errors.Is(p.Err(), ErrExited) || !strings.Contains(p.Err().Error(), "supervisor") {
		t.Errorf("%v; want the supervisor to be blamed", p.Err())
	}
	roles.Until(t, "nothing is left", func() bool { return alive(tree) == nil })
	if _, ok := p.Usage(); ok {
		t.Error("a usage nobody could have measured")
	}
}

func TestSupervisorOutlivesTheTerminalsSignals(t *testing.T) {
	p := started(t, Spec{Args: sh("echo up; exec sleep 1000"), Ready: Probe{Output: "^up$"}})
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(p.Supervisor(), s); err != nil {
			t.Fatal(err)
		}
	}
	// Signals are handled in order, and nothing else shows that they were: if an order is
	// still obeyed, the supervisor survived them.
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok := p.Usage(); !ok {
		t.Error("the supervisor did not make its last report")
	}
}

func TestWhatTheProcessInherits(t *testing.T) {
	// This descriptor has no close-on-exec flag, as a shell may leave one to dyno.
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var out bytes.Buffer
	p := started(t, Spec{
		Args: sh(`ls /proc/$$/fd
			echo those were the descriptors
			while read -r name mask; do case $name in SigIgn:|SigBlk:) echo $name $mask;; esac; done < /proc/$$/status
			echo group $(cut -d' ' -f1,5 /proc/$$/stat)
			echo bytes $WEIRD
			echo procs ${GOMAXPROCS-unset}
			echo up; exec sleep 1000`),
		Env:    []string{"WEIRD=first", "WEIRD=\xff\xfe"},
		Ready:  Probe{Output: "^up$"},
		Output: &out,
	})
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0\n1\n2\nthose were the descriptors\n",
		"SigBlk: 0000000000000000\n",
		fmt.Sprintf("group %d %[1]d\n", p.PID()),
		"bytes \xff\xfe\n",
		"procs " + cmpOr(os.Getenv("GOMAXPROCS"), "unset") + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	var ignored uint64
	_, after, _ := strings.Cut(out.String(), "SigIgn:")
	if _, err := fmt.Sscanf(strings.TrimSpace(after), "%x", &ignored); err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if ignored&(1<<(s-1)) != 0 {
			t.Errorf("the process ignores %v", s)
		}
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestOutputLost(t *testing.T) {
	full := errors.New("disk full")
	// This is more output than a pipe holds: if it were not read, the target would block.
	p := started(t, Spec{
		Args:   sh("echo one; seq 100000; echo up; exec sleep 1000"),
		Ready:  Probe{Output: "^up$"},
		Output: writerFunc(func([]byte) (int, error) { return 0, full }),
	})
	if err := p.Stop(t.Context()); !errors.Is(err, full) {
		t.Errorf("%v; want the writer's error", err)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A process that is expected to end by itself may end at any moment, even at once.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		script string
		says   string // nothing: success
	}{
		{"exit 0", ""},
		{"sleep 0.05 & exit 0", ""},
		{"echo oops; exit 3", "exit status 3; last output:\n    oops"},
		{"kill -9 $$", "signal: killed"},
	} {
		p, err := Start(t.Context(), Spec{Args: []string{"sh", "-c", c.script}})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Wait(t.Context())
		var f *Failure
		if (err == nil) != (c.says == "") || err != nil && (!errors.As(err, &f) || !errors.Is(err, ErrExited) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v; want %q", c.script, err, c.says)
		}
		if _, ok := p.Usage(); !ok {
			t.Errorf("%s: its usage is not known", c.script)
		}
	}
	p, err := Start(t.Context(), Spec{Args: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	cancel(late)
	if err := p.Wait(ctx); !errors.Is(err, late) {
		t.Errorf("%v; want the context's cause", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("it did not go on: %v", err)
	}
}
