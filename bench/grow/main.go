// Grow measures how long the kernel takes to enlarge a descriptor table that several
// threads share, which it does only when RCU lets it. It starts processes one after the
// other. Each opens the 257th, 513th and 1,025th descriptor while other programs are busy
// from time to time on every CPU. Grow prints the distribution.
//
//	grow -awake nothing   with CPUs that halt when they have nothing to do
//	grow -awake threads   with a thread of SCHED_IDLE on each, as dyno's awake once had
//	grow -awake polling   with CPUs that poll for work, as awake requests from the kernel now (root)
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	schedIdle = 5 // SCHED_IDLE, below every nice value: sched(7)
	frozen    = 100 * time.Millisecond
)

// sizes are numbers of descriptors at which the table is full.
var sizes = [...]int{256, 512, 1024}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "grow:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("grow", flag.ContinueOnError)
	processes := f.Int("processes", 100, "processes whose tables grow")
	awake := f.String("awake", "nothing", "what keeps CPUs from halting: nothing, threads or polling")
	part := f.String("part", "", "of this program: table, load or idle; for its own use")
	cpu := f.Int("cpu", 0, "of that part")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch *part {
	case "":
		return measure(*processes, *awake)
	case "table":
		return table()
	case "load":
		return load(*cpu)
	case "idle":
		return idle(*cpu)
	}
	return fmt.Errorf("-part %s: want table, load or idle", *part)
}

// measure grows tables among busy programs and prints how long that took.
func measure(processes int, awake string) (err error) {
	var parts []*exec.Cmd
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.Process.Kill())
			_ = p.Wait() // killed
		}
	}()
	begin := func(part string) error {
		for cpu := range runtime.NumCPU() {
			c := exec.Command("/proc/self/exe", "-part", part, "-cpu", strconv.Itoa(cpu)) //nolint:gosec // this very program
			// It ends with this program, whatever the reason.
			c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
			c.Stderr = os.Stderr
			if err := c.Start(); err != nil {
				return err
			}
			parts = append(parts, c)
		}
		return nil
	}
	runtime.LockOSThread() // Pdeathsig is tied to this thread
	switch awake {
	case "nothing":
	case "threads":
		if err := begin("idle"); err != nil {
			return err
		}
	case "polling":
		var latency *os.File
		if latency, err = os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, latency.Close()) }()
		if _, err := latency.Write(make([]byte, 4)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("-awake %s: want nothing, threads or polling", awake)
	}
	if err := begin("load"); err != nil {
		return err
	}
	var took []time.Duration
	for range processes {
		out, err := exec.Command("/proc/self/exe", "-part", "table").Output()
		if err != nil {
			return err
		}
		var some []time.Duration
		if err := json.NewDecoder(bytes.NewReader(out)).Decode(&some); err != nil {
			return err
		}
		took = append(took, some...)
	}
	fmt.Println(describe(awake, took))
	return nil
}

// describe sums up, in milliseconds.
func describe(awake string, took []time.Duration) string {
	slices.Sort(took)
	ms := func(q float64) float64 {
		return took[min(len(took)-1, int(q*float64(len(took))))].Seconds() * 1e3
	}
	late, _ := slices.BinarySearchFunc(took, frozen, cmp.Compare[time.Duration])
	return fmt.Sprintf("awake %-8s %4d growths: p50 %5.1f  p90 %5.1f  p99 %6.1f  longest %6.1f ms, %d of %v and more",
		awake, len(took), ms(0.5), ms(0.9), ms(0.99), ms(1), len(took)-late, frozen)
}

// table grows this process's table, which the runtime's threads share, and prints how
// long each step took.
func table() error {
	var took []time.Duration
	for _, n := range sizes {
		start := time.Now()
		if _, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, n); err != nil {
			return fmt.Errorf("descriptor %d: %w", n, err)
		}
		took = append(took, time.Since(start))
	}
	return json.NewEncoder(os.Stdout).Encode(took)
}

// place ties the calling thread to a CPU, under a policy.
func place(cpu int, policy uint32) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0)
}

// idle uses the CPU time that nobody else needs, until it is killed.
func idle(cpu int) error {
	if err := place(cpu, schedIdle); err != nil {
		return err
	}
	for { //nolint:staticcheck // that is what it is for
	}
}

// load is busy and idle in turns, until it is killed: for hundreds of milliseconds on the
// first CPU, like a server, and for less than ten on the others, like its clients.
func load(cpu int) error {
	if err := place(cpu, unix.SCHED_NORMAL); err != nil {
		return err
	}
	busy, pause := 100*time.Millisecond, 50*time.Millisecond
	if cpu > 0 {
		busy, pause = 7*time.Millisecond, 20*time.Millisecond
	}
	for {
		for start := time.Now(); time.Since(start) < busy; {
		}
		time.Sleep(pause)
	}
}
