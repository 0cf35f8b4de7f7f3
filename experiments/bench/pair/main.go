// Pair compares programs by what they achieve per CPU-second. It runs them in turns, A B A B, and compares
// within each round. A machine that becomes slower then affects all alike.
//
// It reads a plan, in JSON, from standard input and prints a table, and result lines for
// scripts/figures:
//
//	{"title": "requests per generator CPU-second", "key": "64",
//	 "unit": "requests", "rounds": 5, "base": "wrk",
//	 "services": [{"run": ["nginx", "-c", "…"], "cpus": "0", "ready": "127.0.0.1:8080"}],
//	 "subjects": [
//	   {"name": "wrk", "run": ["wrk", "-t1", "http://127.0.0.1:8080/"], "cpus": "1",
//	    "count": "awk '/requests in/ {print $1}'"},
//	   …]}
//
// Services run throughout. A subject is run once a round. Its standard output goes to the shell command "count",
// which prints how much was achieved. The CPU time is the subject's own, user and system. A subject may have an
// "under": a program that is started before it and stopped after it. Then the CPU time is that of "under" while
// the subject runs. It must be a single process: its children are not counted. A subject may have a "cpu": a
// shell command like "count" that prints the CPU time in seconds. It can leave out the beginning and the end of
// the run.
//
// With "rates": true, "count" prints what was achieved per second of the part that counts. Subjects are then
// compared by this rate.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// A plan says what to compare.
type plan struct {
	Title    string    `json:"title"`
	Key      string    `json:"key"`  // begins the names of the result lines
	Unit     string    `json:"unit"` // of what is counted
	Rounds   int       `json:"rounds"`
	Base     string    `json:"base"` // the subject that others are compared with
	Rates    bool      `json:"rates"`
	Services []program `json:"services"`
	Subjects []subject `json:"subjects"`
}

// A program runs until it is stopped.
type program struct {
	Run   []string `json:"run"`
	CPUs  string   `json:"cpus"`  // in the form of taskset -c; empty: any
	Ready string   `json:"ready"` // an address that accepts connections once the program is ready
}

// A subject runs for a while, achieves something, and ends.
type subject struct {
	Name   string   `json:"name"`
	Run    []string `json:"run"`
	CPUs   string   `json:"cpus"`
	Count  string   `json:"count"`  // shell command: standard output → number
	Accept []int    `json:"accept"` // exit codes besides 0 that mean success
	Under  *program `json:"under"`
	CPU    string   `json:"cpu"` // shell command: standard output → CPU time in seconds; empty: the subject's own
}

// A result is one run of a subject.
type result struct {
	count     float64
	cpu, wall time.Duration
}

// figure is what results are compared by.
func (p plan) figure(r result) float64 {
	if p.Rates {
		return r.count
	}
	return r.count / r.cpu.Seconds()
}

// per is what a figure is of, in words and in the head of a column.
func (p plan) per() (words, head string) {
	if p.Rates {
		return "second", "s"
	}
	return "CPU-second", "CPU-s"
}

// validate returns every fault of the plan.
func (p plan) validate() error {
	var faults []error
	if p.Key == "" || strings.ContainsAny(p.Key, " \n") {
		faults = append(faults, fmt.Errorf("key: %q: must be a word", p.Key))
	}
	if p.Rounds < 1 {
		faults = append(faults, fmt.Errorf("rounds: %d: must be at least 1", p.Rounds))
	}
	if !slices.ContainsFunc(p.Subjects, func(s subject) bool { return s.Name == p.Base }) {
		faults = append(faults, fmt.Errorf("base: %q: must be a subject's name", p.Base))
	}
	programs := slices.Clone(p.Services)
	for _, s := range p.Subjects {
		if s.Name == "" || s.Count == "" || len(s.Run) == 0 {
			faults = append(faults, fmt.Errorf("subject %q: needs name, run and count", s.Name))
		}
		if s.Under != nil {
			programs = append(programs, *s.Under)
		}
	}
	for _, s := range programs {
		if len(s.Run) == 0 || s.Ready == "" {
			faults = append(faults, fmt.Errorf("program %q: needs run and ready", s.Run))
		}
	}
	return errors.Join(faults...)
}

func main() {
	// Children die with the thread that started them, so keep this thread for good.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "pair:", err)
		stop()
		os.Exit(1)
	}
}

// run carries out the plan read from stdin.
func run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	d := json.NewDecoder(stdin)
	d.DisallowUnknownFields()
	var p plan
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := p.validate(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	for _, s := range p.Services {
		running, err := start(ctx, s, stderr)
		if err != nil {
			return err
		}
		defer running.stop()
	}
	results := map[string][]result{}
	for round := range p.Rounds {
		for i := range p.Subjects {
			// Each round begins with another subject, because the first may find a cooler
			// machine.
			s := p.Subjects[(i+round)%len(p.Subjects)]
			r, err := s.measure(ctx, stderr)
			if err != nil {
				return fmt.Errorf("round %d: %s: %w", round+1, s.Name, err)
			}
			per, _ := p.per()
			fmt.Fprintf(stderr, "round %d/%d  %-12s %8.0f %s per %s\n", round+1, p.Rounds, s.Name, p.figure(r), p.Unit, per)
			results[s.Name] = append(results[s.Name], r)
		}
	}
	return p.print(stdout, results)
}

// A running program is one that start has started.
type running struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// command returns a command that is placed on its CPUs and killed with this process.
func command(ctx context.Context, cpus string, args []string) *exec.Cmd {
	if cpus != "" {
		args = append([]string{"taskset", "-c", cpus}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second // then it is killed
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts a program and waits until it is ready. Its address must be free before;
// otherwise another program would be measured.
func start(ctx context.Context, p program, stderr io.Writer) (*running, error) {
	if c, err := net.Dial("tcp", p.Ready); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: somebody listens on %s already", p.Run[0], p.Ready)
	}
	cmd := command(ctx, p.CPUs, p.Run)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &running{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the exit status does not matter: a signal stops it
		close(r.done)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(10 * time.Second)
	for {
		if c, err := net.Dial("tcp", p.Ready); err == nil {
			c.Close()
			return r, nil
		}
		select {
		case <-tick.C:
		case <-r.done:
			return nil, fmt.Errorf("%s: ended before it was ready: %v", p.Run[0], cmd.ProcessState)
		case <-timeout:
			r.stop()
			return nil, fmt.Errorf("%s: not ready on %s after 10 s", p.Run[0], p.Ready)
		}
	}
}

// stop ends the program, by force if it takes longer than 5 s.
func (r *running) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has already ended
	select {
	case <-r.done:
	case <-time.After(5 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.done
	}
}

// cpuOf returns the CPU time of a process so far, all its threads, user and
// system, from /proc/PID/stat: exact to two ticks of 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

func parseStat(text string) (time.Duration, error) {
	// The second field, the name, may contain anything; it ends at the last ).
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3 // numbered from 1 in proc(5); these begin with the third
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/PID/stat: %d fields after the name, want more than %d", len(fields), stime)
	}
	u, err1 := strconv.ParseInt(fields[utime], 10, 64)
	s, err2 := strconv.ParseInt(fields[stime], 10, 64)
	const tick = time.Second / 100 // USER_HZ, the same on every Linux that Go runs on
	return time.Duration(u+s) * tick, errors.Join(err1, err2)
}

// measure runs the subject once.
func (s subject) measure(ctx context.Context, stderr io.Writer) (r result, err error) {
	var under *running
	var before time.Duration
	if s.Under != nil {
		if under, err = start(ctx, *s.Under, stderr); err != nil {
			return r, err
		}
		defer under.stop()
		if before, err = cpuOf(under.cmd.Process.Pid); err != nil {
			return r, err
		}
	}
	cmd := command(ctx, s.CPUs, s.Run)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	began := time.Now()
	err = cmd.Run()
	r.wall = time.Since(began)
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains(s.Accept, exit.ExitCode()) {
		err = nil
	}
	if err != nil {
		return r, fmt.Errorf("%w\n%s%s", err, &complaints, &out)
	}
	if under != nil {
		after, err := cpuOf(under.cmd.Process.Pid)
		if err != nil {
			return r, fmt.Errorf("%s: gone while it was measured: %w", s.Under.Run[0], err)
		}
		r.cpu = after - before
	} else {
		r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if s.CPU != "" {
		seconds, err := numberIn(ctx, s.CPU, out.Bytes(), stderr)
		if err != nil {
			return r, fmt.Errorf("cpu: %w", err)
		}
		r.cpu = time.Duration(seconds * float64(time.Second))
	}
	if r.count, err = numberIn(ctx, s.Count, out.Bytes(), stderr); err != nil {
		return r, fmt.Errorf("count: %w", err)
	}
	if r.cpu <= 0 {
		return r, fmt.Errorf("%v in %v of CPU: want more than 0, in:\n%s", r.count, r.cpu, &out)
	}
	return r, nil
}

// numberIn returns what a shell command finds in a subject's output: a number above 0.
func numberIn(ctx context.Context, command string, output []byte, stderr io.Writer) (float64, error) {
	counter := exec.CommandContext(ctx, "sh", "-c", command)
	counter.Stdin, counter.Stderr = bytes.NewReader(output), stderr
	text, err := counter.Output()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: want a number above 0, in:\n%s", bytes.TrimSpace(text), output)
	}
	return v, nil
}

// print prints a row per subject.
func (p plan) print(w io.Writer, results map[string][]result) error {
	words, head := p.per()
	fmt.Fprintf(w, "%s\n%s\n%d rounds, interleaved; the ratio is the median over rounds of %s per %s over %s's\n\n",
		p.Title, machine(), p.Rounds, p.Unit, words, p.Base)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\t%s/%s\tratio\tlowest\thighest\t", p.Unit, head)
	if !p.Rates {
		fmt.Fprintf(t, "%s/s\tCPU\t", p.Unit)
	}
	fmt.Fprintf(t, "each round, /%s\t\n", head)
	var lines strings.Builder
	for _, s := range p.Subjects {
		var per, rate, cpu, ratio []float64
		var each []string
		for i, r := range results[s.Name] {
			per = append(per, p.figure(r))
			rate = append(rate, r.count/r.wall.Seconds())
			cpu = append(cpu, 100*r.cpu.Seconds()/r.wall.Seconds())
			ratio = append(ratio, p.figure(r)/p.figure(results[p.Base][i]))
			each = append(each, fmt.Sprintf("%.0f", p.figure(r)))
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.3f\t%.3f\t%.3f\t", s.Name, median(per), median(ratio), slices.Min(ratio), slices.Max(ratio))
		if !p.Rates {
			fmt.Fprintf(t, "%.0f\t%.0f %%\t", median(rate), median(cpu))
		}
		fmt.Fprintf(t, "%s\t\n", strings.Join(each, " "))
		fmt.Fprintf(&lines, "result: %s.%s %.0f\n", p.Key, s.Name, median(per))
		if s.Name != p.Base {
			fmt.Fprintf(&lines, "result: %s.%s.ratio %.3f (%.3f … %.3f)\n", p.Key, s.Name, median(ratio), slices.Min(ratio), slices.Max(ratio))
		}
	}
	err := t.Flush()
	if err == nil {
		_, err = fmt.Fprintf(w, "\n%s", &lines)
	}
	return err
}

// median returns the middle value, or the mean of the middle two; NaN for no values.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// machine describes the machine, as far as it matters.
func machine() string {
	model := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		release = []byte("unknown")
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	return fmt.Sprintf("%d × %s, Linux %s, %s", runtime.NumCPU(), model, cmp.Or(version, "unknown"), time.Now().UTC().Format(time.DateOnly))
}
