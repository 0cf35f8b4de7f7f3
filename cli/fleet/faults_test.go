package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dyno/internal/exit"
	"dyno/internal/pipes"
	"dyno/lab/generator"
	"dyno/lab/remote"
	"dyno/results/rundir"
)

// Settings of TestFaults, by environment.
const (
	settingFaults = "FAULTS" // how many
	settingSeed   = "SEED"
)

const (
	soakAgents   = 3
	soakRequests = 150 // of a trial, in 500 ms or more
	soakTrials   = 4
	// The target passes on to the server that counts.
	soakPlan = `name: faults
target: {protocol: http, agent: role=target, address: "{{host}}:{{port}}", start: [dyno, serve, relay, --listen, "{{host}}:{{port}}", --to, %q]}
load: {closed: {connections: 6, think: 20ms}, warmup: 0, requests: %d}
design: {rounds: 2, control: false, remeasure: false}
compare: {base: x, variants: {x: {}, y: {}}}
`
	// mostDown is longer than a part may be silent.
	mostDown   = 20 * time.Second
	roleTarget = "target" // of the agent that has the target, and carries no load
)

// A soakAgent is an agent in a process, behind a wire.
type soakAgent struct {
	name    string
	role    string
	address string
	wire    *pipes.Wire
	process *exec.Cmd
}

var listening = regexp.MustCompile(`"msg":"listening","address":"([^"]+)"`)

// start starts the agent, at its address if it has one.
func (a *soakAgent) start() error {
	program, err := exec.LookPath("dyno")
	if err != nil {
		return err
	}
	a.process = exec.Command("dyno", "agent", "--name", a.name, "--listen", cmp.Or(a.address, "127.0.0.1:0"), "--label", "role="+a.role, "--command", program)
	log, err := a.process.StderrPipe()
	if err == nil {
		err = a.process.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("agent %s: %w", a.name, err)
		}
		if found := listening.FindStringSubmatch(line); found != nil {
			a.address = found[1]
			go func() { _, _ = io.Copy(io.Discard, lines) }() // or the agent would wait
			return nil
		}
	}
}

// end ends the agent by a signal.
func (a *soakAgent) end(by syscall.Signal) {
	_ = a.process.Process.Signal(by)
	_ = a.process.Wait() // an end by the signal is no fault
}

// A soak is a fleet to which something happens in each run.
type soak struct {
	t      *testing.T
	agents []*soakAgent // the last one has the target
	random *rand.Rand
	server string // the address of the one that counts

	mu   sync.Mutex // guards seen
	seen []time.Time

	faults, wrong, orphans, lost, again, failed int
	until                                       map[string][]time.Duration // a trial ran again, by the kind of fault
}

func (s *soak) ServeHTTP(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, time.Now())
}

// between is how many requests came in some time.
func (s *soak) between(from, to time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.seen {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// TestFaults lets three agents carry runs, and a fourth run their target. In each run it kills, stops, restarts or cuts
// off one of them, or kills the coordinator. A run whose coordinator was killed is resumed. Trials that count have the
// whole load's figures, no trial that had ended is lost, and no process is left. scripts/fleet-faults.sh causes more
// faults and prints how long the runs take to go on.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills processes again and again")
	}
	faults, err := strconv.Atoi(cmp.Or(os.Getenv(settingFaults), "5"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(settingSeed), strconv.Itoa(os.Getpid())), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, random: rand.New(rand.NewPCG(seed, 0)), until: map[string][]time.Duration{}} //nolint:gosec // not a secret
	server := httptest.NewServer(s)
	defer server.Close()
	s.server = server.Listener.Addr().String()
	for i := range soakAgents + 1 {
		a := &soakAgent{name: string(rune('a' + i)), role: "load"}
		if i == soakAgents {
			a.role = roleTarget
		}
		if err := a.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.end(syscall.SIGKILL) })
		if a.wire, err = pipes.Lay(a.address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.wire.Close() })
		s.agents = append(s.agents, a)
	}
	t.Logf("seed %d, %d agents and that of the target, %d faults, one in each run of %d trials", seed, soakAgents, faults, soakTrials)
	var kinds []string
	for range faults {
		if len(kinds) == 0 {
			kinds = []string{"kill", "restart", "stop", "partition", "coordinator"}
			s.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		s.run(kinds[0])
		kinds = kinds[1:]
	}
	for _, kind := range slices.Sorted(maps.Keys(s.until)) {
		took := s.until[kind]
		slices.Sort(took)
		t.Logf("%s: a trial ran again after %v at least, %v in the median, %v at most (%d times)", kind,
			took[0].Round(time.Millisecond), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), len(took))
	}
	t.Logf("faults %d, rounds measured again %d, wrong figures %d, orphans %d, finished trials lost %d, runs that failed %d",
		s.faults, s.again, s.wrong, s.orphans, s.lost, s.failed)
	if s.wrong+s.orphans+s.lost+s.failed > 0 {
		t.Error("see above")
	}
}

// run makes one run, in the middle of which a fault happens.
func (s *soak) run(kind string) {
	dir := s.t.TempDir()
	folder, file := filepath.Join(dir, "run"), filepath.Join(dir, "faults.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, soakPlan, s.server, soakRequests), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := []string{"run", "-q", "-o", folder, file}
	a := s.agents[s.random.IntN(len(s.agents))]
	for _, of := range s.agents {
		address := of.address
		if of == a && kind == "partition" {
			address = a.wire.Addr()
		}
		args = append(args, "--agent", address)
	}
	coordinator := exec.Command("dyno", args...)
	var said bytes.Buffer
	coordinator.Stderr = &said
	if err := coordinator.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- coordinator.Wait() }()
	// In one of its trials, at some time.
	number := 1 + s.random.IntN(soakTrials)
	for begun := []string(nil); len(begun) == 0; begun, _ = filepath.Glob(filepath.Join(folder, "trials", fmt.Sprintf("%04d-*", number))) {
		select {
		case err := <-ended:
			s.failed++
			s.t.Logf("before trial %d: %v: %s", number, err, said.String())
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	<-time.After(time.Duration(s.random.Int64N(int64(600 * time.Millisecond))))
	finished := s.finished(folder)
	at := time.Now()
	restore := sync.OnceValue(s.harm(kind, a, coordinator))
	s.faults++
	err := <-ended
	if err != nil && (kind == "coordinator" || a.role == roleTarget && coordinator.ProcessState.ExitCode() == exit.Target) {
		if err := restore(); err != nil {
			s.t.Fatal(err)
		}
		resumed := exec.Command("dyno", "run", "-q", "--resume", folder)
		resumed.Stderr = &said
		err = resumed.Run()
	}
	if ended := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &ended) || ended.ExitCode() != exit.Invalid) {
		s.failed++
		s.t.Logf("%s of %s in trial %d: %v: %s", kind, a.name, number, err, said.String())
	}
	if a.role == roleTarget && kind != "coordinator" {
		kind += " of the target's agent"
	}
	s.check(folder, kind, at, finished)
	if err := restore(); err != nil {
		s.t.Fatal(err)
	}
	s.checkOrphans()
}

// harm does what the kind says. The function that it returns makes that good, as far as it is not already.
func (s *soak) harm(kind string, a *soakAgent, coordinator *exec.Cmd) (restore func() error) {
	switch kind {
	case "kill": // and started again some time later
		a.end(syscall.SIGKILL)
		if a.role == roleTarget { // the run waits for it
			return s.later(a.start)
		}
		return a.start
	case "restart": // at once
		a.end(syscall.SIGTERM)
		err := a.start()
		return func() error { return err }
	case "stop":
		_ = a.process.Process.Signal(syscall.SIGSTOP)
		return s.later(func() error { return a.process.Process.Signal(syscall.SIGCONT) })
	case "partition":
		a.wire.Cut()
		return s.later(func() error { a.wire.Mend(); return nil })
	case "coordinator":
		_ = coordinator.Process.Kill()
	}
	return func() error { return nil }
}

// later does something at some time from now on. The function that it returns waits for that.
func (s *soak) later(f func() error) (wait func() error) {
	done := make(chan error, 1)
	time.AfterFunc(time.Duration(s.random.Int64N(int64(mostDown))), func() { done <- f() })
	return func() error { return <-done }
}

// finished returns the contents of trial.json of the trials that have ended.
func (s *soak) finished(folder string) map[string]string {
	files, _ := filepath.Glob(filepath.Join(folder, "trials", "*", rundir.TrialFile))
	found := map[string]string{}
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), `"complete": true`) {
			found[name] = string(text)
		}
	}
	return found
}

// check holds a folder against what the server has seen.
func (s *soak) check(dir, kind string, at time.Time, finished map[string]string) {
	for name, before := range finished {
		if text, err := os.ReadFile(name); err != nil || string(text) != before {
			s.lost++
			s.t.Logf("%s: %s is not what it was: %v", kind, name, err)
		}
	}
	folder, err := rundir.Open(dir)
	if err != nil {
		s.lost++
		s.t.Log(err)
		return
	}
	wrong := func(format string, args ...any) {
		s.wrong++
		s.t.Logf(kind+": "+format, args...)
	}
	if !folder.Complete() || len(folder.Measured()) != soakTrials {
		wrong("%d trials, %v", len(folder.Measured()), folder.Incomplete)
	}
	broken := false
	for i, x := range folder.Trials {
		next := time.Now()
		if i+1 < len(folder.Trials) {
			next = folder.Trials[i+1].StartedAt
		}
		switch {
		case x.Complete:
			share := 0.
			for _, a := range x.Agents {
				share += a.Share
			}
			if seen := s.between(x.StartedAt, next); x.Counts.OK != soakRequests || seen != soakRequests || share < 0.999 || share > 1.001 || !x.Conservation.OK {
				wrong("trial %d: %d good responses, %d requests seen, shares of %v in all", x.Number, x.Counts.OK, seen, share)
			}
			if broken {
				s.until[kind] = append(s.until[kind], x.StartedAt.Sub(at))
			}
			broken = false
		default:
			if x.IsMeasured() || x.Counts.Sent > 0 {
				wrong("trial %d is not complete, and has figures", x.Number)
			}
			s.again++
			broken = true
		}
	}
}

// checkOrphans waits until no process carries a part any more.
func (s *soak) checkOrphans() {
	var left []string
	for end := time.Now().Add(mostDown); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if left = carriers(); len(left) == 0 {
			return
		}
	}
	s.orphans += len(left)
	s.t.Logf("processes are left: %v", left)
}

// carriers returns the processes of this program that carry parts of loads, or start targets.
func carriers() (pids []string) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		text, unread := os.ReadFile(name)
		program, gone := os.Stat(filepath.Join(filepath.Dir(name), "exe"))
		role := bytes.Contains(text, []byte(generator.Role(nil).Name)) || bytes.Contains(text, []byte(remote.Role().Name))
		if unread == nil && gone == nil && role && os.SameFile(program, own) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}
