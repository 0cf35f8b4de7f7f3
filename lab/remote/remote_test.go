package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/host/cgroup"
	"dyno/host/target"
	"dyno/internal/freeport"
	"dyno/internal/roles"
	"dyno/lab/exchange"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/observe"
)

// limits are those of an owner who allows this program.
func limits(t *testing.T) Limits {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Limits{Commands: []string{program}, Files: t.TempDir(), Time: time.Hour, Silence: time.Hour}
}

// open connects to this machine as an agent's.
func open(t *testing.T, l Limits) *Process {
	t.Helper()
	p, err := Open(t.Context(), here{t, l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) }) // it may have ended
	return p
}

// serving is how to start a target at an address.
func serving(address string, more ...string) target.Spec {
	return target.Spec{
		Name: "it", Args: append([]string{"dyno", "serve", address}, more...), Ready: target.Probe{TCP: address},
		ReadyTimeout: roles.HangGuard, StopTimeout: roles.HangGuard,
	}
}

// text is what a process writes.
type text struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// A process starts, is ready, writes, and stops as it does on this machine.
func TestStartAndStop(t *testing.T) {
	p := open(t, limits(t))
	port, admin, err := p.Ports(t.Context())
	if err != nil || port == admin || port == 0 {
		t.Fatal(port, admin, err)
	}
	var wrote text
	spec := serving(fmt.Sprintf("127.0.0.1:%d", port))
	spec.Output = &wrote
	if err := p.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, there := target.ListenerAt(spec.Ready.TCP); !there || p.Err() != nil {
		t.Error(p.Err())
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	<-p.Done()
	if got := wrote.String(); got != "serving\nstopped\n" || p.Err() != nil {
		t.Errorf("it wrote %q and ended with %v", got, p.Err())
	}
	if l, there := target.ListenerAt(spec.Ready.TCP); there {
		t.Errorf("%v still listens", l)
	}
}

// A process that ends by itself ends with the error that it has on this machine.
func TestDeath(t *testing.T) {
	p := open(t, limits(t))
	spec := serving(freeport.Address(t), "fail") // the probe is its only connection
	spec.Ready = target.Probe{Output: "about to fail"}
	if err := p.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, there := target.ListenerAt(spec.Args[2]); !there {
		t.Fatal("nobody listens")
	}
	c, err := dial(t, spec.Args[2])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-p.Done()
	failed, ok := errors.AsType[*target.Failure](p.Err())
	if !ok || !errors.Is(failed, target.ErrExited) || failed.Code != 7 || !slices.Equal(failed.Tail, []string{"about to fail"}) {
		t.Errorf("%v", p.Err())
	}
	if err := p.Stop(t.Context()); !errors.Is(err, p.Err()) {
		t.Errorf("%v, want %v", err, p.Err())
	}
}

// A process ends completely without orders, after a kill of the agent's side, and after its time.
func TestNothingIsLeft(t *testing.T) {
	// It returns the process, and what waits until that has ended: a connection to it ends with it.
	begin := func(t *testing.T, l Limits) (p *Process, gone func()) {
		t.Helper()
		p = open(t, l)
		spec := serving(freeport.Address(t))
		if err := p.Start(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		c, err := dial(t, spec.Ready.TCP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return p, func() {
			t.Helper()
			if err := c.SetDeadline(time.Now().Add(roles.HangGuard)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it goes on")
			}
		}
	}
	lost := func(t *testing.T, p *Process) {
		t.Helper()
		<-p.Done()
		if of, ok := errors.AsType[*generator.LostError](p.Err()); !ok || !strings.HasPrefix(of.Error(), "agent a: the connection ended: ") {
			t.Errorf("%v", p.Err())
		}
	}
	t.Run("orders end", func(t *testing.T) {
		p, gone := begin(t, limits(t))
		if err := p.channel.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		lost(t, p)
		gone()
	})
	t.Run("killed", func(t *testing.T) {
		p, gone := begin(t, limits(t))
		p.channel.Kill()
		lost(t, p)
		gone()
	})
	t.Run("silence", func(t *testing.T) {
		l := limits(t)
		for l.Silence = time.Second; ; l.Silence *= 2 { // until it is up by then
			p := open(t, l)
			if err := p.Start(t.Context(), serving(freeport.Address(t))); err != nil && l.Silence < roles.HangGuard {
				continue
			}
			p.channel.(*channel).mute.Store(true)
			lost(t, p)
			return
		}
	})
	t.Run("time", func(t *testing.T) {
		l := limits(t)
		for l.Time = time.Second; ; l.Time *= 2 { // until it is up by then
			p := open(t, l)
			err := p.Start(t.Context(), serving(freeport.Address(t)))
			if err != nil && l.Time < roles.HangGuard {
				continue
			}
			if <-p.Done(); err != nil || p.Err() == nil || !strings.Contains(p.Err().Error(), "--max-time") {
				t.Errorf("%v, %v", err, p.Err())
			}
			return
		}
	})
}

// What the owner does not allow is refused, and says which flag would allow it.
func TestLimits(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(inside, "sub"), 0o700), os.Symlink(outside, filepath.Join(inside, "link"))); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(program)
	var network generator.Network
	if err := network.SetText("127.0.0.1:80", ""); err != nil {
		t.Fatal(err)
	}
	networks := []generator.Network{network}
	for _, c := range []struct {
		command, dir, files string
		allowed             []string
		want                string // of the error
	}{
		{command: "dyno", want: "dyno: the machine's owner does not allow this program to be started (--command " + program + ")"},
		{command: "dyno", allowed: []string{"/bin/*"}, want: "--command"},
		{command: "dyno", allowed: []string{program}},
		{command: program, allowed: []string{filepath.Join(folder, "*")}},
		{command: filepath.Join(folder, "x", "..", filepath.Base(program)), allowed: []string{program}},
		{command: program, allowed: []string{filepath.Dir(folder) + "/*"}, want: "--command"}, // * is no slash
		{command: "nobody-has-this", allowed: []string{"/*"}, want: "program not found"},
		{command: "./x", allowed: []string{"/*"}, want: "no absolute path"},
		{command: program, dir: inside, allowed: []string{program}, want: "dir: " + inside + ": the machine's owner allows no folder (--files)"},
		{command: program, dir: inside, files: inside, allowed: []string{program}},
		{command: program, dir: inside + "/sub", files: inside, allowed: []string{program}},
		{command: program, dir: inside + "/link", files: inside, allowed: []string{program}, want: "--files"},
		{command: program, dir: outside, files: inside, allowed: []string{program}, want: "--files"},
	} {
		l := Limits{Commands: c.allowed, Files: c.files}
		err := l.Admit(t.Context(), &target.Spec{Args: []string{c.command}, Dir: c.dir})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []struct {
		probe target.Probe
		files string
		want  string // what is asked, or the error
	}{
		{probe: target.Probe{TCP: "localhost:80"}, want: "127.0.0.1:80"},
		{probe: target.Probe{HTTP: "http://localhost:80/ready"}, want: "http://127.0.0.1:80/ready"},
		{probe: target.Probe{HTTP: "http://127.0.0.1/ready"}, want: "http://127.0.0.1:80/ready"},
		{probe: target.Probe{TCP: "127.0.0.1:81"}, want: "(--network)"},
		{probe: target.Probe{HTTP: "http://169.254.169.254/latest/"}, want: "(--network)"},
		{probe: target.Probe{HTTP: "https://127.0.0.1/"}, want: "(--network)"},
		{probe: target.Probe{Unix: "/run/docker.sock"}, want: "(--files)"},
		{probe: target.Probe{Unix: inside + "/link/x.sock"}, files: inside, want: "(--files)"},
		{probe: target.Probe{Unix: inside + "/sub/x.sock"}, files: inside, want: inside + "/sub/x.sock"},
		{probe: target.Probe{Output: "ready"}, want: "ready"},
	} {
		l := Limits{Commands: []string{program}, Files: c.files, Networks: networks}
		s := target.Spec{Args: []string{program}, Ready: c.probe}
		err := l.Admit(t.Context(), &s)
		got := s.Ready.TCP + s.Ready.HTTP + s.Ready.Unix + s.Ready.Output // one of them
		if err != nil {
			got = err.Error()
		}
		if refused := strings.HasPrefix(c.want, "("); refused != (err != nil) || !strings.HasSuffix(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.probe, got, c.want)
		}
		if err == nil && !s.HidesOthers {
			t.Error("errors name other processes")
		}
	}
	// Refusals come back as such.
	p := open(t, Limits{Time: time.Hour, Silence: time.Hour})
	err = p.Start(t.Context(), serving(freeport.Address(t)))
	if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.HasPrefix(err.Error(), "agent a: ") {
		t.Errorf("%v", err)
	}
	_, err = p.Observe(t.Context(), observation.Subject{PID: os.Getpid()})
	if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), "--observe") {
		t.Errorf("%v", err)
	}
}

// A target is observed as on this machine, in the same columns. Its machine has a name of its own.
func TestObserve(t *testing.T) {
	p := open(t, limits(t))
	spec := serving(freeport.Address(t))
	if err := p.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	subject := observation.Subject{Address: spec.Ready.TCP, Sockets: true, CPUs: cpus(t)}
	seen, err := p.Observe(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if seen.CPUs == 0 || seen.Boot != observation.Boot() || seen.Server.PID != 0 {
		t.Errorf("%+v", seen)
	}
	started, err := target.Start(t.Context(), target.Spec{Args: append([]string{os.Args[0]}, serving(freeport.Address(t)).Args[1:]...)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := started.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	subject.Process = started
	own := subject.Open(t.Context())
	names := func(o *observation.Observed) (all []string) {
		for _, of := range o.Observers {
			for _, c := range of.Columns() {
				all = append(all, of.Name()+"_"+c.Name)
			}
		}
		return all
	}
	agents := []string{"target_agent_time_seconds", "target_agent_lag_seconds"}
	if diff := cmp.Diff(append(agents, names(own)...), names(seen)); diff != "" {
		t.Errorf("-here +there:\n%s", diff)
	}
	for _, of := range own.Observers {
		if err := of.Close(); err != nil {
			t.Error(err)
		}
	}

	recorder, err := observe.NewRecorder(observe.Config{Interval: time.Hour}, seen.Observers...)
	if err != nil {
		t.Fatal(err)
	}
	recorder.Start()
	from := recorder.Mark()
	c, err := dial(t, spec.Ready.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	to := recorder.Mark()
	if err := recorder.Stop(); err != nil {
		t.Error(err)
	}
	for _, f := range recorder.Faults() {
		t.Error(f)
	}
	w := recorder.Window(from, to)
	for column, above := range map[string]float64{"target_threads": 0, "target_rss_bytes": 1 << 20} {
		if s, _ := w.Summary(column); !(s.Max > above) {
			t.Errorf("%s: %+v", column, s)
		}
	}
	if passed := w.Delta("target_agent_time_seconds"); !(passed > 0) {
		t.Errorf("%v s have passed", passed)
	}
	if cpu := w.Delta("target_cpu_seconds"); !(cpu >= 0) {
		t.Errorf("%v s of CPU", cpu)
	}
	if _, cost := seen.Rest(); !(cost > 0) {
		t.Errorf("observing has cost %v s", cost)
	}
}

// cpus are one that this process may use.
func cpus(t *testing.T) []int {
	t.Helper()
	all, err := target.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	return all[:1]
}

// What runs already is found by its process, and is not ended.
func TestObserveWhatRuns(t *testing.T) {
	address := freeport.Address(t)
	other := roles.Start(t, roles.Command("serve", address))
	if line := other.Line(t); line != "serving" {
		t.Fatal(line)
	}
	for name, subject := range map[string]observation.Subject{"pid": {PID: other.Process.Pid}, "address": {Address: address, Listens: true}} {
		p := open(t, Limits{Observe: true, Time: time.Hour, Silence: time.Hour})
		seen, err := p.Observe(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		if seen.Server.PID != other.Process.Pid {
			t.Errorf("%s: %+v", name, seen.Server)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Error(name, err)
		}
	}
	if _, there := target.ListenerAt(address); !there {
		t.Error("it has ended")
	}
}

// What runs in a control group is found by its name, and the group is observed, too.
func TestObserveControlGroup(t *testing.T) {
	limited, err := target.Start(t.Context(), target.Spec{
		Args: []string{os.Args[0], "serve", freeport.Address(t)}, Cgroup: &cgroup.Limits{CPUMax: 1},
	})
	if errors.Is(err, target.ErrPlacement) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := limited.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	p := open(t, Limits{Observe: true, Time: time.Hour, Silence: time.Hour})
	seen, err := p.Observe(t.Context(), observation.Subject{Cgroup: filepath.Base(limited.Cgroup().Processes())})
	if err != nil || seen.Server.PID != limited.PID() {
		t.Fatalf("%+v, %v", seen, err)
	}
	recorder, err := observe.NewRecorder(observe.Config{Interval: time.Hour}, seen.Observers...)
	if err != nil {
		t.Fatal(err)
	}
	recorder.Start()
	mark := recorder.Mark()
	for _, column := range []string{"target_cpu_seconds", "cgroup_cpu_seconds", "target_processes"} {
		if s, _ := recorder.Window(mark, mark).Summary(column); !(s.Last > 0) {
			t.Errorf("%s: %+v", column, s)
		}
	}
	if err := recorder.Stop(); err != nil {
		t.Error(err)
	}
}

// A reading of an agent that does not answer is not known, and holds nothing up for long.
func TestSilentAgent(t *testing.T) {
	p := &Process{machine: "agent a", line: exchange.New(nil, io.Discard, maxLine), ended: make(chan struct{}), done: make(chan struct{}), answers: make(chan report, 2)}
	ask := func() (report, error) { return p.ask(t.Context(), time.Millisecond, order{Read: true}) }
	for range 2 { // the second time, it does not even ask
		if _, err := ask(); err == nil {
			t.Fatal("an answer")
		}
	}
	if p.number != 1 {
		t.Errorf("%d orders", p.number)
	}
	p.answers <- report{Number: 1, Row: &row{At: 1}} // late
	p.answers <- report{Number: 2, Row: &row{At: 2}}
	if r, err := p.ask(t.Context(), roles.HangGuard, order{Read: true}); err != nil || r.Row.At != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A pipedMachine is an agent's at the other end of two pipes.
type pipedMachine struct {
	*io.PipeReader
	*io.PipeWriter
}

func (m pipedMachine) Host(context.Context) (Channel, error) { return m, nil }
func (pipedMachine) String() string                          { return "agent a" }
func (m pipedMachine) CloseWrite() error                     { return m.PipeWriter.Close() }
func (m pipedMachine) Kill()                                 { _, _ = m.PipeReader.Close(), m.PipeWriter.Close() }
func (pipedMachine) At(ours int64) (theirs, within int64)    { return ours, 0 }
func (pipedMachine) Silence() time.Duration                  { return Silence }

// An agent that answers what says that dyno is there is not lost. One that is silent for too long is.
func TestAgentIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders, toAgent := io.Pipe()
		fromAgent, reports := io.Pipe()
		begin := time.Now()
		p, err := Open(t.Context(), pipedMachine{fromAgent, toAgent})
		if err != nil {
			t.Fatal(err)
		}
		const answered = 100
		var last time.Time
		lines := bufio.NewScanner(orders)
		for n := 0; lines.Scan(); n++ {
			if n < answered {
				last = time.Now()
				_, _ = io.WriteString(reports, "{}\n") // it is read
			}
		}
		<-p.Done()
		if _, lost := errors.AsType[*generator.LostError](p.Err()); !lost || p.Err().Error() != "agent a: the connection ended: it was silent for 15s" {
			t.Errorf("%v", p.Err())
		}
		if last.Sub(begin) != answered*Silence/beats || time.Since(last) != Silence {
			t.Errorf("lost %v after its last answer, which came after %v", time.Since(last), last.Sub(begin))
		}
		if _, _, err := p.Ports(t.Context()); !errors.Is(err, p.Err()) {
			t.Errorf("%v", err)
		}
		if err := p.Stop(t.Context()); !errors.Is(err, p.Err()) {
			t.Errorf("%v", err)
		}
	})
}

// Errors and unknown numbers are on the other side what they were on this one.
func TestExchange(t *testing.T) {
	for _, err := range []error{
		errors.New("plain"),
		&RefusedError{errors.New("not allowed")},
		&target.Failure{Target: "it", Reason: target.ErrExited, Detail: "exit status 7", Tail: []string{"last"}, Code: 7},
		&target.Failure{Target: "it", Reason: fmt.Errorf("%w: CPU 99", target.ErrPlacement)},
		&target.Failure{Target: "it", Reason: errors.New("permission denied")},
	} {
		var got failure
		transfer(t, failureOf(fmt.Errorf("start: %w", err)), &got)
		back := got.err()
		of, failed := errors.AsType[*target.Failure](err)
		_, refused := errors.AsType[*RefusedError](back)
		switch {
		case refused != strings.Contains(err.Error(), "not allowed"):
			t.Errorf("%v: %#v", err, back)
		case failed:
			if got, ok := back.(*target.Failure); !ok || got.Error() != of.Error() || got.Code != of.Code { //nolint:errorlint // it is no chain
				t.Errorf("%v: %v", err, back)
			}
			for _, r := range reasons {
				if errors.Is(err, r) != errors.Is(back, r) {
					t.Errorf("%v: %v", err, back)
				}
			}
		case back.Error() != "start: "+err.Error():
			t.Errorf("%v: %v", err, back)
		}
	}
	sent, got := row{At: 1, Cells: []cell{cell(math.NaN()), 0.1, cell(math.Inf(1))}, Faults: map[int]string{2: "no"}}, row{}
	transfer(t, sent, &got)
	if got.At != 1 || !math.IsNaN(float64(got.Cells[0])) || got.Cells[1] != 0.1 || !math.IsNaN(float64(got.Cells[2])) || got.Faults[2] != "no" {
		t.Errorf("%+v", got)
	}
}

func transfer(t *testing.T, from, to any) {
	t.Helper()
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Instants of another machine's clock are translated back, whatever its offset is.
func TestOurs(t *testing.T) {
	for _, offset := range []int64{0, 5e9, -5e9, 1 << 50} {
		c := skewed{offset: offset}
		for _, ago := range []int64{0, 1e9, 1e13} {
			at := generator.Monotonic() - ago
			theirs, _ := c.At(at)
			if got := ours(c, theirs); got < at-1_000_000 || got > at+1_000_000 {
				t.Errorf("offset %d: %d, want %d", offset, got, at)
			}
		}
	}
}

// A skewed channel's clock is ahead, and runs faster by 100 ppm.
type skewed struct {
	Channel
	offset int64
}

func (s skewed) At(ours int64) (theirs, within int64) {
	return ours + s.offset + ours/10_000, 1
}
