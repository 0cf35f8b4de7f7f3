package sample

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"dyno/host/proc"
	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/observe"
	"dyno/observe/profile/stack"
)

// ring is the space that the kernel needs between two readings: 2 KB is a sample with a
// stack of 127 frames in both halves.
const (
	readEvery   = 100 * time.Millisecond
	sampleBytes = 2100
	ringSeconds = 0.25
	minPages    = 128 // what an unprivileged user may lock with the kernel's defaults
	maxPages    = 1 << 13
)

func ringPages(frequency int) int {
	need := int(float64(frequency)*ringSeconds*sampleBytes) / os.Getpagesize()
	pages := minPages
	for pages < need && pages < maxPages {
		pages *= 2
	}
	return pages
}

// A Sampler samples until it is stopped.
type Sampler struct {
	config Config
	perCPU bool
	kernel bool
	events []int   // descriptors
	rings  []*ring // one for each CPU
	follow *follower
	began  time.Time
	stop   chan struct{}
	done   chan error
	notes  []string
}

// Start begins to sample. Where that is not possible the error is a
// *observe.Unavailable.
func Start(c Config) (*Sampler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	all, err := online()
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	for _, cpu := range c.CPUs {
		if !slices.Contains(all, cpu) {
			return nil, fmt.Errorf("sample: cpus: CPU %d is not online", cpu)
		}
	}
	if len(c.CPUs) == 0 {
		c.CPUs = all
	}
	s := &Sampler{config: c, stop: make(chan struct{}), done: make(chan error, 1)}
	if err := s.open(all); err != nil {
		s.release()
		return nil, err
	}
	s.follow = newFollower(c.Root, int64(time.Second)/int64(c.Frequency), c.Symbols)
	s.began = time.Now()
	for _, fd := range s.events {
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			s.release()
			return nil, fmt.Errorf("sample: start events: %w", err)
		}
	}
	// From here on the kernel reports changes. Existing processes and mappings are read now. Their time
	// puts them in their place among the reports.
	s.follow.scan()
	go s.run()
	return s, nil
}

// open opens events for CPUs, or else for threads.
func (s *Sampler) open(all []int) error {
	var err error
	for _, kernel := range kernelOr(s.config.Kernel) {
		if err = s.openPerCPU(all, kernel); err == nil {
			s.perCPU, s.kernel = true, kernel
			break
		}
		s.release()
	}
	if err != nil {
		for _, kernel := range kernelOr(s.config.Kernel) {
			if err = s.openPerThread(kernel); err == nil {
				s.kernel = kernel
				break
			}
			s.release()
		}
	}
	if err != nil {
		return unavailable(err)
	}
	if s.config.Kernel && !s.kernel {
		s.notes = append(s.notes, "time in the kernel was not sampled: kernel.perf_event_paranoid forbids it (run as root, or set it to 1)")
	}
	return nil
}

func kernelOr(wanted bool) []bool {
	if wanted {
		return []bool{true, false}
	}
	return []bool{false}
}

func unavailable(err error) error {
	u := &observe.Unavailable{Profile: true, Observer: "cpu samples", Reason: texts.Verbatim(err.Error()), Err: err}
	switch {
	case errors.Is(err, errLocked):
		u.Remedy = texts.New("help.locked")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		u.Remedy = texts.New("help.paranoid")
	case errors.Is(err, unix.ENOSYS):
		u.Remedy = texts.New("help.events")
	case errors.Is(err, unix.EMFILE):
		u.Remedy = texts.New("help.files")
	}
	return u
}

// attributes describe the event (perf_event_open(2)).
func (s *Sampler) attributes(kernel, inherit bool) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: unix.PERF_ATTR_SIZE_VER5,
		Sample:      uint64(time.Second) / uint64(s.config.Frequency), // a period: the clock counts nanoseconds
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CALLCHAIN,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeHv | unix.PerfBitExcludeIdle | unix.PerfBitMmap | unix.PerfBitMmap2 |
			unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Clockid: unix.CLOCK_MONOTONIC,
		Wakeup:  1 << 30, // there is no waiter: the rings are read on time
	}
	if !kernel {
		a.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeCallchainKernel
	}
	if inherit {
		a.Bits |= unix.PerfBitInherit
	}
	return a
}

// openPerCPU opens an event for every CPU. On CPUs where the target does not run, the event reports
// forks and never samples: the target may be started from there.
func (s *Sampler) openPerCPU(all []int, kernel bool) error {
	for _, cpu := range all {
		a := s.attributes(kernel, false)
		if !slices.Contains(s.config.CPUs, cpu) {
			a.Config, a.Sample = unix.PERF_COUNT_SW_DUMMY, 0
		}
		fd, err := unix.PerfEventOpen(a, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("event of CPU %d: %w", cpu, err)
		}
		s.events = append(s.events, fd)
		if err := s.mapRing(fd); err != nil {
			return err
		}
	}
	return nil
}

// maxEvents bounds threads times CPUs.
const maxEvents = 8192

// openPerThread opens an event for every thread and CPU, including the root's. In this way processes
// that the root starts later are followed. Threads that appear while others are opened are found by
// further looks until there are none.
func (s *Sampler) openPerThread(kernel bool) error {
	cpus := s.config.CPUs
	rings := make([]int, len(cpus)) // the event that owns the ring
	seen := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		for _, p := range append(stack.Below(s.config.Root), s.config.Root) {
			tids, err := proc.Threads(p)
			if err != nil {
				continue // it is gone
			}
			for _, tid := range tids {
				if seen[tid] {
					continue
				}
				seen[tid], fresh = true, true
				for i, cpu := range cpus {
					if len(s.events) >= maxEvents {
						return fmt.Errorf("more than %d threads times CPUs", maxEvents)
					}
					fd, err := unix.PerfEventOpen(s.attributes(kernel, true), tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
					if errors.Is(err, unix.ESRCH) {
						break // it has ended
					}
					if err != nil {
						return fmt.Errorf("event of thread %d: %w", tid, err)
					}
					s.events = append(s.events, fd)
					if rings[i] == 0 {
						if err := s.mapRing(fd); err != nil {
							return err
						}
						rings[i] = fd
					} else if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, rings[i]); err != nil {
						return fmt.Errorf("ring of thread %d: %w", tid, err)
					}
				}
			}
		}
	}
	if len(s.events) == 0 {
		return fmt.Errorf("process %d has no threads: %w", s.config.Root, unix.ESRCH)
	}
	return nil
}

func (s *Sampler) mapRing(fd int) error {
	r, err := newRing(fd, ringPages(s.config.Frequency))
	if err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	s.rings = append(s.rings, r)
	return nil
}

// release closes events and rings.
func (s *Sampler) release() {
	for _, r := range s.rings {
		r.close()
	}
	for _, fd := range s.events {
		unix.Close(fd)
	}
	s.rings, s.events = nil, nil
}

// run reads the rings until asked to stop.
func (s *Sampler) run() {
	t := time.NewTicker(readEvery)
	defer t.Stop()
	var failed error
	for {
		select {
		case <-s.stop:
			s.done <- failed
			return
		case <-t.C:
			// Records with a time before now are in the rings, bar those that a CPU is
			// writing this moment.
			horizon := stack.Now() - uint64(settle)
			if err := s.read(); err != nil && failed == nil {
				failed = err
			}
			s.follow.advance(horizon)
		}
	}
}

// settle is how long a record may take from its time to the ring.
const settle = 20 * time.Millisecond

func (s *Sampler) read() error {
	for _, r := range s.rings {
		if err := r.read(s.follow.take); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends sampling, once, and makes the profile. The processes should still exist.
func (s *Sampler) Stop() (*Result, error) {
	for _, fd := range s.events {
		_ = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0) // closed below in any case
	}
	duration := time.Since(s.began)
	close(s.stop)
	err := errors.Join(<-s.done, s.read())
	s.release()
	s.follow.advance(^uint64(0))
	f := s.follow
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sample: %w", err), f.stacks.Close())
	}
	r := &Result{
		Samples: f.samples, Lost: f.lost, LeafOnly: f.leafOnly, Throttled: f.throttled, Dropped: f.stacks.Dropped + f.overflow,
		Kernel: s.kernel, PerCPU: s.perCPU, Notes: s.notes,
	}
	r.Profile, err = f.stacks.Profile([]*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		f.period, s.began, duration)
	if err = errors.Join(err, f.stacks.Close()); err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	for _, n := range []struct {
		count uint64
		text  string
	}{
		{r.Lost, "records were lost because the ring was full"},
		{r.LeafOnly, "samples have no callers: they are in code without frame pointers"},
		{r.Dropped, "samples were left out: too many different stacks, or too many records at once"},
		{r.Throttled, "times the kernel paused sampling (kernel.perf_cpu_time_max_percent)"},
	} {
		if n.count > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d %s", n.count, n.text))
		}
	}
	r.Profile.Comments = append(r.Profile.Comments, r.Notes...)
	return r, nil
}

// online returns the CPUs that are switched on.
func online() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return units.ParseList(strings.TrimSpace(string(b)), maxCPUs-1)
}
