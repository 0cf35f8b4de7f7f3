package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/exit"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// A dyno is one that runs during the test.
type dyno struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer // read it after wait
	stderr watched
}

// A watched buffer can be read while it is written.
type watched struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// begin starts dyno in a folder. It is killed when the test ends before it does.
func begin(t *testing.T, dir string, args ...string) *dyno {
	t.Helper()
	d := &dyno{cmd: exec.Command("dyno", args...)}
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, &d.stdout, &d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	return d
}

// wait returns the exit code, -1 for a signal.
func (d *dyno) wait(t *testing.T) int {
	t.Helper()
	guard := time.AfterFunc(hangGuard, func() { _ = d.cmd.Process.Kill() })
	defer guard.Stop()
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return d.cmd.ProcessState.ExitCode()
}

// until polls.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hangGuard); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// A process is identified in a way that survives reuse of its number.
type process struct {
	pid   int
	start string // in clock ticks since the machine started
}

// stat returns the fields of /proc/PID/stat after the program's name: the state
// is the first, the parent the second, the start the twentieth.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// below returns the descendants of a process.
func below(t *testing.T, root int) []process {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents, starts := map[int]int{}, map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if f := stat(pid); err == nil && len(f) >= 20 {
			parents[pid], _ = strconv.Atoi(f[1])
			starts[pid] = f[19]
		}
	}
	var found []process
	for pid := range parents {
		for up, steps := parents[pid], 0; up != 0 && steps < len(parents); up, steps = parents[up], steps+1 {
			if up == root {
				found = append(found, process{pid, starts[pid]})
				break
			}
		}
	}
	return found
}

func (p process) alive() bool {
	f := stat(p.pid)
	return len(f) >= 20 && f[19] == p.start && f[0] != "Z" && f[0] != "X"
}

func anyAlive(ps []process) bool {
	for _, p := range ps {
		if p.alive() {
			return true
		}
	}
	return false
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// open reads a run folder.
func open(t *testing.T, dir string) *rundir.Folder {
	t.Helper()
	f, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// counted reports whether a run measures: there is a row of progress that is not in the
// warm-up.
func counted(d *dyno) func() bool {
	return func() bool { return strings.Contains(d.stderr.String(), " p50 ") }
}

const long = `name: long
target: {protocol: tcp, start: [sh, -c, "dyno serve echo --tcp 127.0.0.1:{{port}} & wait"], stop_timeout: 1s}
load: {closed: {connections: 2, think: 1ms}, warmup: 0, window: 600s}
design: {rounds: 2}
`

// The first SIGINT, SIGTERM or SIGHUP ends the run in order, even if it comes twice: what was
// measured is printed, kept and marked as incomplete, and the target is stopped.
func TestSignals(t *testing.T) {
	// A signal that is ignored, as under nohup, stays so in programs that are started; one that is
	// caught does not.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangup) })
	for _, c := range []struct {
		signal unix.Signal
		code   int
	}{{unix.SIGINT, exit.Interrupted}, {unix.SIGTERM, exit.Terminated}, {unix.SIGHUP, 129}} {
		t.Run(unix.SignalName(c.signal), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "long.yaml"), long)
			d := begin(t, dir, "run", "-o", "out", "--json", "out.json", "long.yaml")
			until(t, "it measures", counted(d))
			tree := below(t, d.cmd.Process.Pid)
			if len(tree) < 3 {
				t.Fatalf("supervisor, sh and echo must run: %v\n%s", tree, d.stderr.String())
			}
			for range 2 {
				if err := d.cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			if code := d.wait(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if anyAlive(tree) {
				t.Error("what was started still runs")
			}
			last := d.stderr.String()
			last = last[strings.Index(last, "dyno: "):]
			if want := "dyno: trial 1, variant default: interrupted by " + unix.SignalName(c.signal) + "\n"; last != want {
				t.Errorf("message %q, want %q", last, want)
			}
			if !strings.Contains(d.stdout.String(), "INCOMPLETE: 0 of 2 planned trials measured") {
				t.Errorf("the results do not say that they are incomplete:\n%s", d.stdout.String())
			}
			if !printed.MatchString(d.stdout.String()) {
				t.Errorf("what was measured is not printed:\n%s", d.stdout.String())
			}
			f := open(t, filepath.Join(dir, "out"))
			if f.Run.Complete || f.Complete() || len(f.Trials) != 1 {
				t.Fatalf("complete: %v, %v, %d trials", f.Run.Complete, f.Incomplete, len(f.Trials))
			}
			trial := f.Trials[0]
			if trial.Complete || trial.Counts.OK == 0 || trial.Throughput == nil || !trial.Conservation.OK {
				t.Errorf("trial: %+v", trial.Trial)
			}
			if h, err := trial.Latency("response"); err != nil || h.Count() == 0 {
				t.Errorf("latency log: %v", err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "out.json")); err != nil || !strings.Contains(string(b), `"complete": false`) {
				t.Errorf("%s, %v", b, err)
			}
		})
	}
}

// printed finds the row of a variant with its throughput.
var printed = regexp.MustCompile(`(?m)^  default +\S*\d`)

// interrupted interrupts a quick load, and returns the folder that it keeps.
func interrupted(t *testing.T, d *dyno) *rundir.Folder {
	t.Helper()
	if err := d.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := d.wait(t); code != exit.Interrupted {
		t.Errorf("exit code %d", code)
	}
	_, rest, ok := strings.Cut(d.stderr.String(), "run folder: ")
	if !ok {
		t.Fatalf("no run folder is named:\n%s", d.stderr.String())
	}
	kept, _, _ := strings.Cut(rest, "\n")
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(kept)) })
	return open(t, kept)
}

// A quick load without a folder keeps one when it is interrupted, and says where.
func TestInterruptedQuickLoad(t *testing.T) {
	t.Parallel()
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	d := begin(t, dir, "http", "-c", "2", "-z", "600", "http://"+server.Addr().String()+"/")
	until(t, "it measures", counted(d))
	if f := interrupted(t, d); f.Complete() || f.Trials[0].Counts.OK == 0 {
		t.Errorf("%v, %+v", f.Incomplete, f.Trials[0].Counts)
	}
	for _, want := range []string{`(?m)^INCOMPLETE: interrupted by SIGINT; measured \S+ \S+ of 600 s$`, `(?m)^  requests/s +\S*\d`, `(?m)^  latency +service  p50 \S*\d`} {
		if !regexp.MustCompile(want).MatchString(d.stdout.String()) {
			t.Errorf("no line %s:\n%s", want, d.stdout.String())
		}
	}
}

// Subscribers send no request, and what they received is kept, too.
func TestInterruptedSubscribers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			<-tick.C
		}
	}))
	t.Cleanup(server.Close) // after the end of its client
	d := begin(t, t.TempDir(), "sse", "-c", "2", "-z", "600", "--warmup", "0", server.URL)
	until(t, "it measures", func() bool { return regexp.MustCompile(` events/s  p50 `).MatchString(d.stderr.String()) })
	if f := interrupted(t, d); f.Complete() || f.Trials[0].Streams == nil || f.Trials[0].Streams.Delivered == 0 {
		t.Errorf("%v, %+v", f.Incomplete, f.Trials[0].Streams)
	}
	if !regexp.MustCompile(`(?m)^  events/s +\S*\d`).MatchString(d.stdout.String()) {
		t.Errorf("what was measured is not printed:\n%s", d.stdout.String())
	}
}

// An interrupted build is no fault of the experiment, and a file after it is not begun.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "slow.yaml"), `name: slow
target: {protocol: tcp, build: [sh, -c, "echo begun > mark; exec sleep 600"], start: [sh, -c, "sleep 600; : {{port}}"], dir: .}
load: {closed: {connections: 1}}
`)
	d := begin(t, dir, "run", "-q", "slow.yaml", "slow.yaml")
	until(t, "the build runs", func() bool { _, err := os.Stat(filepath.Join(dir, "mark")); return err == nil })
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := d.wait(t); code != exit.Terminated {
		t.Errorf("exit code %d\n%s", code, d.stderr.String())
	}
	if said := d.stderr.String(); !strings.Contains(said, "slow was not begun") || strings.Contains(said, "no such file") {
		t.Errorf("it says:\n%s", said)
	}
}

// Interrupted before there is any load, dyno stops what it has started so far.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "slow.yaml"), `name: slow
target: {protocol: tcp, start: [sh, -c, "echo begun > mark; sleep 600; : {{port}}"], dir: ., ready_timeout: 300s, stop_timeout: 1s}
load: {closed: {connections: 1}}
`)
	d := begin(t, dir, "run", "-q", "-o", "out", "slow.yaml")
	until(t, "the target runs", func() bool { _, err := os.Stat(filepath.Join(dir, "mark")); return err == nil })
	tree := below(t, d.cmd.Process.Pid)
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := d.wait(t); code != exit.Terminated {
		t.Errorf("exit code %d\n%s", code, d.stderr.String())
	}
	if anyAlive(tree) {
		t.Error("what was started still runs")
	}
	if f := open(t, filepath.Join(dir, "out")); f.Complete() {
		t.Error("the folder reads as complete")
	}
}

// A second signal ends dyno at once, and the supervisor ends the target.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "stubborn.yaml"), `name: stubborn
target: {protocol: tcp, start: [sh, -c, "trap '' TERM; dyno serve echo --tcp 127.0.0.1:{{port}} & while :; do sleep 1; done"], stop_timeout: 300s}
load: {closed: {connections: 1, think: 1ms}, warmup: 0, window: 600s}
`)
	d := begin(t, dir, "run", "-o", "out", "stubborn.yaml")
	until(t, "it measures", counted(d))
	tree := below(t, d.cmd.Process.Pid)
	if err := d.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	// The trial's window has ended at the first signal: the target is being stopped.
	until(t, "the latency log is written", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "out/trials/*/latency.hlog"))
		return len(files) > 0
	})
	until(t, "a second signal is heard", func() bool {
		_ = d.cmd.Process.Signal(unix.SIGINT)
		f := stat(d.cmd.Process.Pid)
		return len(f) == 0 || f[0] == "Z"
	})
	if code := d.wait(t); code != -1 {
		t.Errorf("exit code %d, want the end by a signal", code)
	}
	until(t, "nothing is left", func() bool { return !anyAlive(tree) })
	if open(t, filepath.Join(dir, "out")).Complete() {
		t.Error("the folder reads as complete")
	}
}

// If dyno is killed, nothing that it has started survives, and the folder reads as
// incomplete.
func TestKilled(t *testing.T) {
	for _, c := range []struct {
		program, script string
		processes       int // at least, the supervisor included
	}{
		{"nginx", "sed s/PORT/{{port}}/ nginx.in >nginx.conf && exec nginx -p . -c nginx.conf -e stderr", 4},
		{"setsid", "(setsid sh -c 'sleep 600; :' &); setsid sleep 600 & dyno serve echo --http 127.0.0.1:{{port}} & wait", 6},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skipf("%s is not installed", c.program)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "nginx.in"), `
daemon off;
worker_processes 2;
pid nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path tmp1; proxy_temp_path tmp2; fastcgi_temp_path tmp3; uwsgi_temp_path tmp4; scgi_temp_path tmp5;
	server { listen 127.0.0.1:PORT; location / { return 200 ok; } }
}
`)
			write(t, filepath.Join(dir, "long.yaml"), `name: long
target: {protocol: http, start: [sh, -c, "`+c.script+`"], ready: tcp}
load: {closed: {connections: 2, think: 1ms}, warmup: 0, window: 600s}
`)
			d := begin(t, dir, "run", "-o", "out", "long.yaml")
			until(t, "it measures", counted(d))
			tree := below(t, d.cmd.Process.Pid)
			if len(tree) < c.processes {
				t.Fatalf("%d processes, want at least %d", len(tree), c.processes)
			}
			if err := d.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			d.wait(t)
			until(t, "nothing is left", func() bool { return !anyAlive(tree) })

			if open(t, filepath.Join(dir, "out")).Complete() {
				t.Error("the folder reads as complete")
			}
			report := begin(t, dir, "report", "out")
			if code := report.wait(t); code != exit.Done {
				t.Errorf("report: exit code %d\n%s", code, report.stderr.String())
			}
			for _, want := range []string{"INCOMPLETE: 0 of ", "the run did not finish"} {
				if !strings.Contains(report.stdout.String(), want) {
					t.Errorf("the report does not say %q:\n%s", want, report.stdout.String())
				}
			}
		})
	}
}
