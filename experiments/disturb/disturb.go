// Package disturb takes CPUs away from other programs, as a hypervisor or a busy neighbour does. It does so at
// random moments and for known lengths. A measurement must give the same answer meanwhile, or report that it was
// disturbed.
//
// Start runs this executable again as a process, so that the CPU time counts for no other process. At real-time
// priority (SCHED_FIFO), its threads keep all threads of ordinary priority from the CPU. At ordinary priority
// they share the CPU with others. They can also keep a CPU busy for an even share of the time, like a program
// with endless work.
package disturb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/child"
)

const (
	started = "disturbing"
	timeout = 10 * time.Second
	// schedFIFO is Linux's SCHED_FIFO: sched(7).
	schedFIFO = 1
	// resetOnFork is SCHED_FLAG_RESET_ON_FORK: threads to come are ordinary ones.
	resetOnFork = 1
	// nap is the longest time that a thread sleeps without a check whether it is over.
	nap = 20 * time.Millisecond
	// piece is the part of the time line in which a busy thread uses its share.
	piece = 10 * time.Millisecond
)

// Bounds of a Config.
const (
	MaxLength = 100 * time.Millisecond
	// MaxShare is the largest share of a CPU's time that may be taken. Linux limits real-time threads to 95 %
	// (sched_rt_runtime_us). A machine whose only CPU is taken for long does not react to its users.
	MaxShare = 0.5
)

// A Config describes the disturbance.
type Config struct {
	CPUs []int
	// Shortest and Longest bound the length of a stall; it is drawn from between them.
	Shortest, Longest time.Duration
	PerSecond         float64 // stalls of each CPU, at exponential distances
	RealTime          bool    // nothing of ordinary priority runs meanwhile
	// Busy is the share of each CPU's time that is used at ordinary priority, in small
	// pieces, without stalls. Time that the thread did not get in one piece is not made
	// up for.
	Busy float64
	Seed uint64
}

// Share is the share of each CPU's time that is taken on average.
func (c Config) Share() float64 {
	if c.Busy != 0 {
		return c.Busy
	}
	return c.PerSecond * (c.Shortest + c.Longest).Seconds() / 2
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("disturb: "+format, args...)) }
	if len(c.CPUs) == 0 {
		fault("CPUs: want one at least")
	}
	if c.Busy != 0 {
		if !(c.Busy > 0 && c.Busy <= MaxShare) {
			fault("busy for %v of the time: want more than 0 and at most %v", c.Busy, MaxShare)
		}
		if c.Shortest != 0 || c.Longest != 0 || c.PerSecond != 0 || c.RealTime {
			fault("a CPU that is kept busy is not stalled besides: want no stalls and no real-time priority")
		}
		return errors.Join(faults...)
	}
	if c.Shortest <= 0 || c.Longest < c.Shortest || c.Longest > MaxLength {
		fault("stalls of %v to %v: want more than 0 and at most %v, the shortest first", c.Shortest, c.Longest, MaxLength)
	}
	if !(c.PerSecond > 0) {
		fault("%v stalls per second: want more than 0", c.PerSecond)
	} else if s := c.Share(); !(s <= MaxShare) {
		fault("%v stalls per second of %v to %v take %.0f %% of a CPU: want at most %.0f %%", c.PerSecond, c.Shortest, c.Longest, 100*s, 100*MaxShare)
	}
	return errors.Join(faults...)
}

// arguments are those of the process.
func (c Config) arguments() []string {
	args := []string{
		c.Shortest.String(), c.Longest.String(), strconv.FormatFloat(c.PerSecond, 'g', -1, 64),
		strconv.FormatBool(c.RealTime), strconv.FormatFloat(c.Busy, 'g', -1, 64), strconv.FormatUint(c.Seed, 10),
	}
	for _, cpu := range c.CPUs {
		args = append(args, strconv.Itoa(cpu))
	}
	return args
}

func parse(args []string) (c Config, err error) {
	if len(args) < 6 {
		return c, errors.New("want lengths, a rate, a priority, a share, a seed and CPUs")
	}
	var faults [6]error
	c.Shortest, faults[0] = time.ParseDuration(args[0])
	c.Longest, faults[1] = time.ParseDuration(args[1])
	c.PerSecond, faults[2] = strconv.ParseFloat(args[2], 64)
	c.RealTime, faults[3] = strconv.ParseBool(args[3])
	c.Busy, faults[4] = strconv.ParseFloat(args[4], 64)
	c.Seed, faults[5] = strconv.ParseUint(args[5], 10, 64)
	err = errors.Join(faults[:]...)
	for _, name := range args[6:] {
		cpu, bad := strconv.Atoi(name)
		c.CPUs, err = append(c.CPUs, cpu), errors.Join(err, bad)
	}
	return c, errors.Join(err, c.Validate())
}

// Role is that of the process that takes CPUs.
func Role() child.Role { return child.Role{Name: "__disturb", Main: run} }

// A Process disturbs until it is stopped, or its parent dies. Its methods are
// for one goroutine.
type Process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// Taken is the CPU time that a Process took, of all its CPUs together. For busy CPUs it
// counts pieces, and the time is the CPU time of its threads.
type Taken struct {
	Stalls int
	Time   time.Duration
}

// Start begins to take CPUs, in a process of its own (package child). Real-time priority needs CAP_SYS_NICE; a CPU that this process may not use is
// an error.
func Start(c Config) (*Process, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	// From here nothing is allocated, and no thread needs another.
	cmd := Role().Command([]string{"GOGC=off", "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=" + strconv.Itoa(len(c.CPUs)+1)}, c.arguments()...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("disturb: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("disturb: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("disturb: %w", err)
	}
	p := &Process{cmd, in, bufio.NewReader(io.LimitReader(out, 4096))}
	late := time.AfterFunc(timeout, func() { _ = cmd.Process.Kill() }) // which ends the reading
	line, err := p.out.ReadString('\n')
	if late.Stop(); line == started+"\n" {
		return p, nil
	}
	if line = strings.TrimSpace(line); line == "" {
		line = fmt.Sprintf("its process did not start: %v", err)
	}
	_, _ = p.Stop() // it says the same
	return nil, fmt.Errorf("disturb: %s", line)
}

// Stop releases the CPUs and returns what was taken.
func (p *Process) Stop() (t Taken, err error) {
	_ = p.in.Close() // which is its sign to end
	late := time.AfterFunc(timeout, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	line, read := p.out.ReadString('\n')
	if read == nil {
		_, read = fmt.Sscan(line, &t.Stalls, (*int64)(&t.Time))
	}
	if err := errors.Join(p.cmd.Wait(), read); err != nil {
		return t, fmt.Errorf("disturb: %w", err)
	}
	return t, nil
}

// run is the process that Start makes. It returns when its standard input ends, with
// the exit code.
func run(args []string) int {
	c, err := parse(args)
	if err == nil {
		err = c.disturb(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (c Config) disturb(in io.Reader, out io.Writer) error {
	// A terminal interrupts the whole session. The process that started this one decides.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	var (
		over   atomic.Bool
		group  sync.WaitGroup
		placed = make(chan error, len(c.CPUs))
		taken  = make([]Taken, len(c.CPUs))
	)
	defer group.Wait()
	defer over.Store(true)
	for i, cpu := range c.CPUs {
		group.Go(func() {
			// Never unlocked: the thread, with its placement, ends with the goroutine.
			runtime.LockOSThread()
			err := c.place(cpu)
			placed <- err
			switch {
			case err != nil:
			case c.Busy != 0:
				taken[i] = c.keepBusy(&over)
			default:
				taken[i] = c.stall(uint64(i), &over) //nolint:gosec // an index
			}
		})
	}
	for range c.CPUs {
		if err := <-placed; err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, started); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	over.Store(true)
	group.Wait()
	var all Taken
	for _, t := range taken {
		all.Stalls, all.Time = all.Stalls+t.Stalls, all.Time+t.Time
	}
	_, printErr := fmt.Fprintln(out, all.Stalls, int64(all.Time))
	return errors.Join(err, printErr)
}

// place ties the calling thread to a CPU and gives it its priority.
func (c Config) place(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	if !c.RealTime {
		return nil
	}
	attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: schedFIFO, Flags: resetOnFork, Priority: 1}
	if err := unix.SchedSetAttr(0, attr, 0); err != nil {
		return fmt.Errorf("real-time priority (SCHED_FIFO), which takes CAP_SYS_NICE: %w", err)
	}
	return nil
}

// stall takes the thread's CPU now and then until it is over.
func (c Config) stall(stream uint64, over *atomic.Bool) (t Taken) {
	rng := rand.New(rand.NewPCG(c.Seed, stream)) //nolint:gosec // a disturbance, not a secret
	until := time.Now()
	for {
		// The distance is from one beginning to the next, so that the rate is kept.
		until = until.Add(time.Duration(rng.ExpFloat64() / c.PerSecond * float64(time.Second)))
		length := c.Shortest + time.Duration(rng.Int64N(int64(c.Longest-c.Shortest)+1))
		for left := time.Until(until); left > 0; left = time.Until(until) {
			if over.Load() {
				return t
			}
			ts := unix.NsecToTimespec(int64(min(left, nap)))
			_ = unix.Nanosleep(&ts, nil) // one that is cut short is continued
		}
		if over.Load() {
			return t
		}
		from := time.Now()
		for time.Since(from) < length {
		}
		t.Stalls++
		t.Time += time.Since(from)
	}
}

// keepBusy uses its share of the thread's CPU until it is over.
func (c Config) keepBusy(over *atomic.Bool) (t Taken) {
	share := time.Duration(c.Busy * float64(piece))
	for next := time.Now(); !over.Load(); t.Stalls++ {
		from := used()
		// A thread that others keep from its CPU may take longer than a piece. It then
		// begins the next piece, and owes nothing.
		for used()-from < share && !over.Load() {
		}
		t.Time += used() - from
		next = next.Add(piece)
		left := time.Until(next)
		if left <= 0 {
			next = time.Now()
			continue
		}
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&ts, nil) // one cut short is a piece that begins early
	}
	return t
}

// used is the CPU time of the calling thread.
func used() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // of one's own it cannot fail
	return time.Duration(ts.Nano())
}
