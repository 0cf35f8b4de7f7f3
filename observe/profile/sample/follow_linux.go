package sample

import (
	"cmp"
	"slices"

	"dyno/observe/profile/stack"
	"dyno/observe/profile/symbol"

	"golang.org/x/sys/unix"
)

// maxPending bounds records that wait for their time. It is the size of all rings.
// Samples beyond are dropped and counted.
const maxPending = 1 << 18

// maxEnded is how many processes are remembered after their end.
const maxEnded = 1024

// A follower orders the records of all CPUs by time, and tracks the target's processes and their
// mappings. It collects the target's samples.
type follower struct {
	root      int
	period    int64 // nanoseconds
	stacks    *stack.Collector
	processes map[int]*stack.Process // of the target
	pending   []record
	ended     []int // processes whose first thread has ended, oldest first

	samples, lost, leafOnly, throttled, overflow uint64
}

// A scanned is a process of the target that was there when sampling began.
type scanned struct{ process *stack.Process }

func newFollower(root int, period int64, symbols *symbol.Cache) *follower {
	return &follower{root: root, period: period, stacks: stack.New(2, symbols), processes: map[int]*stack.Process{}}
}

// scan reads the processes below the root.
func (f *follower) scan() {
	for _, pid := range stack.Below(f.root) {
		at := stack.Now()
		p, err := stack.ReadProcess(pid)
		if err != nil { // it has gone, or is not ours to read: samples without names
			p = stack.NewProcess(pid)
		}
		f.pending = append(f.pending, record{time: at, pid: pid, scan: &scanned{p}})
	}
}

// take stores a record until its time has come.
func (f *follower) take(b []byte) error {
	r, err := decode(b)
	if err != nil {
		return err
	}
	switch {
	case r.kind == 0:
	case len(f.pending) >= maxPending && r.kind == unix.PERF_RECORD_SAMPLE:
		f.overflow++
	default:
		f.pending = append(f.pending, r)
	}
	return nil
}

// advance applies the records up to a time, in order.
func (f *follower) advance(horizon uint64) {
	slices.SortStableFunc(f.pending, func(a, b record) int { return cmp.Compare(a.time, b.time) })
	n := 0
	for n < len(f.pending) && f.pending[n].time <= horizon {
		f.apply(&f.pending[n])
		n++
	}
	f.pending = slices.Delete(f.pending, 0, n)
}

func (f *follower) apply(r *record) {
	if r.scan != nil {
		// The process was read after its time. Its later mappings are reported again, and
		// are the same.
		f.processes[r.pid] = r.scan.process
		return
	}
	p := f.processes[r.pid]
	switch r.kind {
	case unix.PERF_RECORD_SAMPLE:
		if p != nil {
			f.sample(p, r)
		}
	case unix.PERF_RECORD_FORK:
		if r.pid == r.parent { // a thread
			return
		}
		delete(f.processes, r.pid) // the number of a process that has ended
		if parent := f.processes[r.parent]; parent != nil {
			f.processes[r.pid] = parent.Fork(r.pid)
		} else if r.parent == f.root {
			f.processes[r.pid] = stack.NewProcess(r.pid) // until it runs a program of its own
			if root, err := stack.ReadProcess(f.root); err == nil {
				f.processes[r.pid] = root.Fork(r.pid)
			}
		}
	case unix.PERF_RECORD_EXIT:
		if p != nil && r.pid == r.tid {
			f.end(r.pid)
		}
	case unix.PERF_RECORD_COMM:
		if p != nil && r.exec {
			f.processes[r.pid] = stack.NewProcess(r.pid)
		}
	case unix.PERF_RECORD_MMAP2:
		if p != nil {
			p.Map(r.mapping)
		}
	case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
		f.lost += r.lost
	case unix.PERF_RECORD_THROTTLE:
		f.throttled++
	}
}

// end notes that the first thread of a process has ended. Others may outlive it, so
// the process is forgotten later.
func (f *follower) end(pid int) {
	f.ended = append(f.ended, pid)
	if len(f.ended) > maxEnded {
		delete(f.processes, f.ended[0])
		f.ended = f.ended[1:]
	}
}

func (f *follower) sample(p *stack.Process, r *record) {
	f.samples++
	if len(r.user) <= 1 {
		f.leafOnly++
	}
	f.stacks.Add(p, r.kernel, r.user, 1, f.period)
}
