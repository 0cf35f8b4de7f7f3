// Package sample takes CPU profiles of any program, in Go or not, from outside: the kernel notes the
// functions that processes below the root are in, 499 times in every second of CPU time. It uses
// perf_event_open(2) and the software clock. The result is a pprof profile.
//
//	s, err := sample.Start(sample.Config{Root: supervisor, CPUs: []int{0}, …})
//	…                       // load
//	result, err := s.Stop() // before the processes end: their files are read now
//
// # What it sees
//
// As root, or with CAP_PERFMON, there is one event for each CPU in Config.CPUs. Samples of other
// processes are left out afterwards, by forks and exits that the kernel reports in the stream. That is
// exact, however short a process lives, and costs nothing when threads are switched. Without those
// rights there is one event for each thread and CPU, which new threads and processes inherit: exact
// too, except that the clock is started and stopped at every switch; and time in the kernel is not
// sampled where kernel.perf_event_paranoid is above 1.
//
// Stacks are found by frame pointers. Go has them, and what is compiled with
// -fno-omit-frame-pointer. Without them a stack is its leaf, or has wrong callers:
// Result.LeafOnly says how many samples were only a leaf. The leaf itself, and all
// of the kernel's part, are right. A leaf function without a frame of its own, which
// compilers like to make, hides its direct caller: the stack goes on with the next.
//
// The clock is an interrupt. Code that holds interrupts off is charged to where it
// lets them in again, such as _raw_spin_unlock_irqrestore.
//
// # What it costs
//
// On two EPYC vCPUs, Linux 6.18, a sample takes 15 to 22 µs from the sampled program, whatever its
// stack: nearly all of it is the timer interrupt of a virtual machine. At 997 Hz that is about 2 % of a
// saturated CPU, at 499 Hz 1 %. So profiles belong into trials of their own. Stop reads files, when the
// load is over.
package sample

import (
	"errors"
	"fmt"
	"slices"

	pprof "github.com/google/pprof/profile"

	"dyno/observe/profile/symbol"
)

// Bounds of Config.
const (
	DefaultFrequency = 499 // prime, so that it does not stay in step with a timer of the target
	maxFrequency     = 10_000
	maxCPUs          = 4096
)

// A Config says what to sample.
type Config struct {
	Root      int           // all processes below this one, now or later, but not itself
	Frequency int           // samples per second of CPU time
	Kernel    bool          // time in the kernel too
	CPUs      []int         // where the target runs; empty: all
	Symbols   *symbol.Cache // of former profiles; nil: none
}

// DefaultConfig samples everything below a process.
func DefaultConfig(root int) Config {
	return Config{Root: root, Frequency: DefaultFrequency, Kernel: true}
}

// Validate returns all faults.
func (c Config) Validate() error {
	var faults []error
	if c.Root <= 0 {
		faults = append(faults, fmt.Errorf("root: %d: want a process id", c.Root))
	}
	if c.Frequency < 1 || c.Frequency > maxFrequency {
		faults = append(faults, fmt.Errorf("frequency: %d: want 1 to %d samples a second", c.Frequency, maxFrequency))
	}
	for i, cpu := range c.CPUs {
		if cpu < 0 || cpu >= maxCPUs {
			faults = append(faults, fmt.Errorf("cpus[%d]: %d: want 0 to %d", i, cpu, maxCPUs-1))
		}
		if slices.Contains(c.CPUs[:i], cpu) {
			faults = append(faults, fmt.Errorf("cpus[%d]: %d: named twice", i, cpu))
		}
	}
	return errors.Join(faults...)
}

// A Result holds the samples. Values of the profile are samples/count and
// cpu/nanoseconds.
type Result struct {
	Profile   *pprof.Profile
	Samples   uint64 // of the target
	Lost      uint64 // records that the kernel had no room for: samples as a rule, of any process
	LeafOnly  uint64 // samples in user code, or below it in the kernel, whose user stack had one frame or none
	Dropped   uint64 // samples of stacks beyond the number that is kept
	Throttled uint64 // how often the kernel paused sampling because it took too long
	Kernel    bool   // time in the kernel was sampled
	PerCPU    bool   // one event for each CPU, not for each thread
	Notes     []string
}
